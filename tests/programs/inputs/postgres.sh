#!/bin/sh
# A workload for PostgreSQL: postgres.sh PROGRAMS SCRIPT, a server in this folder that listens on a socket there.
# The server refuses root: then nobody runs it, who may write here and where the witness does.
set -eu
if [ "$(id -u)" -eq 0 ]; then
    chmod 711 ..
    chmod 777 .
    chmod 666 "$TEST_WITNESS"
    exec setpriv --reuid=nobody --regid=nogroup --clear-groups sh "$0" "$@"
fi
programs=$1 script=$2
"$programs/initdb" --pgdata=data --username=check --auth=trust --encoding=UTF8 --no-locale --no-sync >initdb.log

# A child of this process: it ends with it whatever happens.
"$programs/postgres" -D data -k "$PWD" -h '' -F -c shared_buffers=16MB >server.log 2>&1 &
server=$!
trap 'kill -INT $server; wait $server || cat server.log >&2' EXIT
until "$programs/pg_isready" -q -h "$PWD"; do
    kill -0 $server
    sleep 0.1
done
"$programs/psql" -X -q -h "$PWD" -U check -v ON_ERROR_STOP=1 -f "$script" postgres
