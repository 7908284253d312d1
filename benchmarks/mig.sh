#!/usr/bin/env bash
# Measures instances of MIG against a whole GPU of the same model under MPS: the same mixes on both.
#
#   benchmarks/mig.sh DIR
#
# A call makes the runs that are left, on the instances and on the whole GPU, and then compares both. On a machine with one GPU these are
# two calls with one DIR: between them an administrator switches MIG on or off, which this script never does.
#
# All is in DIR. A call that is stopped loses only the run that it was making. One DIR is for one build of caserun.
#
# Environment:
#   MIXES      W1..W8. Their jobs take up to 12 GB: name mixes whose jobs fit, if the instances are smaller
#   SCHEDS     sa,case-alg3,schedgpu
#   REPS       3; a later call with more makes the missing ones
#   INSTANCES  those to use, such as 0:0,0:1; by default all that caserun doctor shows
#   WHOLE      the whole GPU to use, such as 1; by default the first that it shows
#   LIMIT      seconds, 3300: no run starts that is expected to end later
#
# Needs bin/caserun, make native, make cuda and caserun data; and MPS, unless CASERUN_NO_MPS=true. Exit status: 0 both were measured and are
# compared; 2 usage, not built, or DIR has runs of another build; 3 this machine has no instances, or no whole GPU, and DIR lacks
# its runs; 4 time is up, call again; else as caserun sweep.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ $# = 1 ] || { echo "usage: benchmarks/mig.sh DIR" >&2; exit 2; }
mkdir -p "$1" || exit 1
dir=$(cd "$1" && pwd)
db=$dir/mig.db limit=${LIMIT:-3300} reps=${REPS:-3}
build=$(cat bin/caserun native/lazy/libcase.so | sha256sum) || { echo "mig.sh: not built: run make build native" >&2; exit 2; }
if [ -e "$dir/build" ] && [ "$(cat "$dir/build")" != "$build" ]; then
	echo "mig.sh: $dir has runs of another build of caserun: name another DIR, or remove it" >&2
	exit 2
fi
echo "$build" >"$dir/build"

devices=$(bin/caserun doctor --format csv 2>/dev/null | grep '^GPU [0-9]')
grep -E ',(failed|warning),' <<<"$devices" | sed 's/^/mig.sh: doctor says: /' >&2

# shown NAMES prints the devices of doctor whose names match, with commas.
shown() { sed -nE "s/^GPU ($1),ok,.*/\1/p" <<<"$devices" | paste -sd,; }

# measure NAME DEVICES makes the repetitions that a sweep lacks. DEVICES is empty if this machine has none.
measure() {
	local name=$1 devices=$2 number='' done='' left=$((limit - SECONDS))
	[ ! -e "$db" ] || read -r number done < <(bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$name" -v reps="$reps" '$2 == name { print $1, ($7 == "complete" && $10 >= reps) }')
	[ "$done" = 1 ] && return 0
	if [ -z "$devices" ]; then
		echo "mig.sh: this machine has none of what $name needs: call again with the same DIR once MIG is switched, or on a machine that has it" >&2
		return 3
	fi
	[ "$left" -gt 60 ] || return 4
	if [ -n "$number" ]; then
		bin/caserun sweep --resume "$number" --reps "$reps" --db "$db" --time-limit "${left}s"
	else
		bin/caserun sweep --mixes "${MIXES:-W1..W8}" --scheds "${SCHEDS:-sa,case-alg3,schedgpu}" --name "$name" --tag "$name" --devices "$devices" \
			--require-live --reps "$reps" --warmups 0 --db "$db" --runs "$dir/runs" --timeout 600s --time-limit "${left}s"
	fi
}

status=0
measure instances "${INSTANCES-$(shown '[0-9]+:[0-9]+')}" || status=$?
[ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
first=$(shown '[0-9]+')
measure whole "${WHOLE-${first%%,*}}" || status=$?
[ "$status" = 0 ] || exit "$status"
bin/caserun compare instances --by mix --db "$db"
bin/caserun compare tag:whole tag:instances --db "$db"
echo "For more repetitions: REPS=$((reps + 2)) benchmarks/mig.sh $1"
