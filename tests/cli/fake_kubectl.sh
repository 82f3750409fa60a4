#!/bin/sh
echo "$*" >>"$FOLDER/calls"
fail() { echo "$1" >&2; exit 1; }
case "$*" in
    *" get pod "* | "get pod "*)
        looks=$(grep -c "get pod" "$FOLDER/calls")
        [ -f "$FOLDER/get-$looks" ] || looks=last
        [ -s "$FOLDER/get-$looks" ] || fail "$GET_FAILS"
        container=$(cat "$FOLDER/container" 2>/dev/null)
        sed "s/CONTAINER/$container/" "$FOLDER/get-$looks" ;;
    *replace*)
        cat >"$FOLDER/pod"
        [ -z "$REPLACE_FAILS" ] || fail "$REPLACE_FAILS"
        grep -o 'hsdns-doctor-[0-9a-f]*' "$FOLDER/pod" >"$FOLDER/container" ;;
    *logs*)
        [ -z "$LOGS_FAILS" ] || fail "$LOGS_FAILS"
        printf '%s' "$SAID" ;;
esac
