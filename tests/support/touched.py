"""What the last day of work touched, for tests whose short dose follows it."""

import functools
import pathlib
import re
import subprocess

DAY = 24 * 60 * 60


def git(root, *words):
    """The output of a git command, or None."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def base(root):
    """The last commit that is a day older than HEAD; None where history does not say: a tree without
    git, a shallow clone, a young project."""
    if (git(root, "rev-parse", "--is-shallow-repository") or "true").strip() != "false":
        return None
    head = git(root, "show", "--no-patch", "--format=%ct", "HEAD")
    if head is None:
        return None
    commits = git(root, "rev-list", "--max-count=1", f"--before={int(head) - DAY}", "HEAD")
    return (commits or "").strip() or None


def files(root, commit):
    """The files that differ from this commit's, also uncommitted and new ones."""
    changed = git(root, "diff", "--name-only", "--relative", commit, "--", ".") or ""
    new = git(root, "ls-files", "--others", "--exclude-standard") or ""
    return set(changed.split() + new.split())


@functools.cache
def old_text(root, commit, file):
    """The file's text as of this commit; empty where it did not have the file."""
    return git(root, "show", f"{commit}:./{file}") or ""


def code(text):
    """C without comments and layout."""
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)).strip()


def sources(root, commit):
    """The touched files of C whose code differs, and not comments alone."""
    return {file for file in files(root, commit) if re.search(r"\.(c|h|def)$", file)
            and code(old_text(root, commit, file)) != code(new_text(root, file))}


def new_text(root, file):
    path = pathlib.Path(root) / file
    return path.read_text() if path.exists() else ""
