#!/bin/sh
# A worker-node agent in shell: the queue's verbs are SQL functions that any client can call.
# Usage: agent.sh CAMPAIGN COMMAND...   The command gets the payload as JSON on its standard
# input and prints the result as JSON. Set PGHOST, PGDATABASE ... for psql (or PSQL="psql DSN").
set -u
campaign=$1; shift
PSQL=${PSQL:-psql}
sql() { $PSQL -X -q -A -t -v ON_ERROR_STOP=1 -v campaign="$campaign" "$@"; }
uuid() { cat /proc/sys/kernel/random/uuid; }

session=$(sql -v key="$(uuid)" -v host="$(hostname)" <<'SQL'
select taskq.open_session(:'campaign', :'key', 60, p_agent => 'shell', p_host => :'host')
SQL
) || exit
( while echo 'select taskq.heartbeat(:s)' |
    sql -v s="$session"; do sleep 15; done ) >/dev/null 2>&1 </dev/null & beats=$!
trap 'kill $beats; echo "select taskq.end_session(:s)" | sql -v s="$session" >/dev/null' EXIT
trap 'exit 143' TERM INT

while :; do
    lease=$(uuid)
    row=$(sql -v s="$session" -v lease="$lease" <<'SQL'
select task_id, payload from taskq.claim(:'campaign', :s, :'lease')
SQL
) || { sleep 5; continue; }
    [ -n "$row" ] || exit 0
    task=${row%%|*}
    if result=$(printf '%s\n' "${row#*|}" | "$@"); then
        report="select taskq.complete(:'campaign', :task, :'lease', :'result')"
    else
        result="exit code $?"
        report="select taskq.fail(:'campaign', :task, :'lease', 'command', :'result')"
    fi
    until echo "$report" | sql -v task="$task" -v lease="$lease" -v result="$result"; do
        sleep 5   # the server is away: the report may be repeated until it is answered
    done
done
