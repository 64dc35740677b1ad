#!/bin/sh
# A workload for git: git.sh FOLDER. A repository of that folder's files, with branches, a merge, gc
# and fsck. Dates and names are fixed, so that all hashes are the same in each run.
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'

git init -q -b main .
git config gc.auto 0
git config maintenance.auto false
find "$1" -type f \( -name '*.[ch]' -o -name '*.py' -o -name '*.cpp' \) | LC_ALL=C sort | xargs -n 8 |
    while read -r files; do
        # shellcheck disable=SC2086 # several names
        cp $files .
        git add -A
        git commit -q -m "add ${files##*/}"
    done
git checkout -q -b side HEAD~5
seq 1 20000 >numbers
git add numbers
git commit -q -m numbers
seq 2 2 30000 >numbers
git commit -q -a -m 'other numbers'
git checkout -q main
git merge -q --no-edit side
git log --stat --format='%H %s' | tail -n 400
git diff --stat HEAD~3
git blame -s numbers | tail -n 3
git grep -c include || true
git gc -q --aggressive --prune=now
git fsck --full --strict
git count-objects -v | grep -E '^(count|in-pack|packs)'
git rev-parse HEAD
