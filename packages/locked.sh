#!/bin/sh
# Prints what installations take from packages/lock.txt, as requirements with hashes, each once.
#
#   packages/locked.sh NAME...
#
# A name is one of those after "for:" in the lock; an unknown one is an error.
set -eu
[ $# -gt 0 ] || { echo "usage: packages/locked.sh NAME..." >&2 && exit 2; }
awk -v names="$*" '
    BEGIN { count = split(names, wanted, " ") }
    /^# for:/ {
        chosen = 0
        for (i = 1; i <= count; i++) if (index($0 " ", " " wanted[i] " ")) chosen = known[i] = 1
        next
    }
    chosen
    END {
        for (i = 1; i <= count; i++) if (!known[i]) { print "error: no installation is called " wanted[i] > "/dev/stderr"; exit 1 }
    }
' "$(dirname "$0")/lock.txt"
