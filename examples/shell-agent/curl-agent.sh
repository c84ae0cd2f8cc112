#!/bin/sh
# A worker-node agent in curl: the queue's exchange is one request that any client can make.
# Usage: curl-agent.sh GATEWAY TOKEN_FILE CAMPAIGN COMMAND...   The command gets the payload as JSON
# on its standard input and prints the result as JSON. Leaves when nothing is left to be done.
set -u
gateway=$1 token_file=$2 campaign=$3 report=; shift 3
uuid() { cat /proc/sys/kernel/random/uuid; }
secret=$(mktemp)   # curl reads the token from a file: all users of a machine see its command lines
trap 'rm -f "$secret"' EXIT
credential() { printf 'authorization: Bearer %s\n' "$1" >"$secret"; }
call() {   # path, more options; repeated while the gateway is away or busy, until it answers
    path=$1; shift
    curl -sS --fail --max-time 90 --retry 20 --retry-connrefused -H "@$secret" \
        -H 'content-type: application/json' "$@" "$gateway$path"
}
between() { rest=${1#*"$2"}; printf %s "${rest%%"$3"*}"; }   # of $1, what lies between $2 and $3

credential "$(cat "$token_file")"
opened=$(call /v1/sessions --data-binary \
    "{\"key\":\"$(uuid)\",\"campaign\":\"$campaign\",\"name\":\"curl\",\"host\":\"$(hostname)\"}") || exit
credential "$(between "$opened" '"token":"' '"')"
( trap 'kill $!; exit' TERM
    while call /v1/beat --data-binary '{}'; do sleep 30 & wait $!; done ) >/dev/null 2>&1 & beats=$!
trap 'kill $beats; call /v1/session -X DELETE; rm -f "$secret"' EXIT
trap 'exit 143' TERM INT

while :; do
    answer=$(printf '{"reports":[%s],"want":1,"lease":"%s","wait_s":20,"until_empty":true}' "$report" "$(uuid)" |
        call /v1/exchange --data-binary @-) || exit
    report=
    case $answer in *'"tasks":[]'*'"unfinished":0'*) exit 0 ;; *'"tasks":[]'*) continue ;; esac
    task=${answer#*'"tasks":[{'} payload=${task#*'"payload":'}
    fence="\"campaign\":$(between "$task" '"campaign":' ,),\"task\":$(between "$task" '"task":' ,)"
    fence="$fence,\"lease\":\"$(between "$task" '"lease":"' '"')\""
    if result=$(printf '%s\n' "${payload%\}\],\"campaigns\":*}" | "$@"); then
        report="{$fence,\"outcome\":\"done\",\"result\":$result}"
    else
        report="{$fence,\"outcome\":\"failed\",\"error_class\":\"command\",\"error\":\"exit code $?\"}"
    fi
done
