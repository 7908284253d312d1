#!/usr/bin/env bash
# Compares plan with case-alg3 on two GPUs that are limited to 16 GiB each.
#
#   benchmarks/plan.sh DIR [MIX...]
#
# MIX is one of benchmarks/plan, which have every second job of W2, W5, W7 and W8, because those are for four GPUs; all by
# default. Each is a sweep of its own in the store DIR/plan.db, so that all repetitions of a mix are of one machine if one
# call makes them. What jobs are expected to do is known from the runs of other mixes in BUNDLES, and on a simulated node from their profiles. DIR gets
# a comparison of each mix and of all. A sweep that was stopped goes on with the next call.
#
# Environment:
#   REPS     5
#   SCHEDS   case-alg3,plan; add plan:learn=off and plan:error=0.3 for the arms without history and with errors
#   LIMIT    seconds, 480
#   NODE     local
#   FLAGS    further flags of caserun sweep, as --sim-noise 0.05 for NODE=sim:2xH100, which has a noise of 0.01 otherwise
#   BUNDLES  docs/results/bundles/sweep.tar.gz (four H200s) and docs/results/bundles/slurm.tar.gz (two H100s)
#
# Needs bin/caserun, make native, make cuda and caserun data. Exit status: 0 all runs were made; 4 time is up, call
# again; else as caserun sweep.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 1 ] || { echo "usage: benchmarks/plan.sh DIR [MIX...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- w2-half w5-half w7-half w8-half
mkdir -p "$dir" || exit 1
node=${NODE:-local}
read -ra flags <<<"${FLAGS:-}"
# know MIX FILE writes what the runs of other mixes say to FILE.
know() {
	local bundle from=1
	for bundle in ${BUNDLES:-docs/results/bundles/sweep.tar.gz docs/results/bundles/slurm.tar.gz}; do
		rm -f "$dir"/earlier.*
		tar xzOf "$bundle" caserun.db >"$dir/earlier.db" && bin/caserun history --db "$dir/earlier.db" --except "$1" -o "$dir/earlier.csv" || return 1
		tail -n "+$from" "$dir/earlier.csv"
		from=2
	done >"$2.new" && mv "$2.new" "$2"
}
db=$dir/plan.db
status=0
for mix in "$@"; do
	left=$((${LIMIT:-480} - SECONDS)) whole=${mix%-half} known=$dir/$mix.csv sweep=
	[ "$left" -gt 60 ] || { status=4; break; }
	[ -e "$known" ] || know "${whole^^}" "$known" || exit 1
	[ ! -e "$db" ] || sweep=$(bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$mix" '$2 == name { print $1 }')
	if [ -n "$sweep" ]; then
		bin/caserun sweep --resume "$sweep" --db "$db" --time-limit "${left}s"
	else
		bin/caserun sweep "${flags[@]}" --mixes "benchmarks/plan/$mix.yaml" --scheds "${SCHEDS:-case-alg3,plan}" --node "$node" --mem-cap 16GiB --name "$mix" \
			--reps "${REPS:-5}" --warmups 0 --history "$known" --tag plan --db "$db" --runs "$dir/runs-$mix" --time-limit "${left}s"
	fi
	status=$?
	[ "$status" = 0 ] || break
done
for by in '' --by\ mix; do
	bin/caserun compare tag:plan --db "$db" $by --metrics makespan,throughput,turnaround
done >"$dir/compared.txt" 2>&1
exit "$status"
