#!/bin/sh
# A workload for sqlite3: sqlite.sh SCRIPT, once on a file and once in memory.
set -eu
sqlite3 base.db <"$1"
sqlite3 :memory: <"$1"
sqlite3 base.db 'pragma integrity_check'
