#!/bin/sh
# A job of several ranks that meet: each runs a command so many times, and waits for the others after each time.
#
#   benchmarks/ranks.sh TIMES COMMAND [ARGUMENT...]
#
# In a mix:
#
#   - {program: benchmarks/ranks.sh, args: [3, ./my/solver, -n, "512"], ranks: 4}
#
# Each rank that has come to a barrier makes a file in the directory of the job that only its ranks know. The command finds
# its number in CASE_RANK.
set -eu
[ $# -ge 2 ] || { echo "usage: benchmarks/ranks.sh TIMES COMMAND [ARGUMENT...]" >&2; exit 2; }
: "${CASE_RENDEZVOUS:?is not set: give the job ranks: in its mix}"

barrier() {
	: >"$CASE_RENDEZVOUS/$1.$CASE_RANK"
	until all_came "$1"; do
		sleep 0.01
	done
}

all_came() {
	other=0
	while [ "$other" -lt "$CASE_RANKS" ]; do
		[ -e "$CASE_RENDEZVOUS/$1.$other" ] || return 1
		other=$((other + 1))
	done
}

times=$1
shift
round=0
while [ "$round" -lt "$times" ]; do
	"$@"
	barrier "$round"
	round=$((round + 1))
done
