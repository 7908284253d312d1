#!/usr/bin/env bash
# Runs the evaluation on all GPUs of this machine, each limited to 16 GiB.
#
#   benchmarks/evaluate.sh DIR [SWEEP...]
#
# DIR gets the store, a comparison of each sweep, a bundle of each of its mixes, and the paper's tables and figures. SWEEP is
# one of these, all by default:
#
#   W1 to W8             sa, cg, schedgpu, case-alg2, case-alg3 and plan
#   darknet              D-predict, D-detect, D-generate and D-train under schedgpu and case-alg3
#   D-128                sa, case-alg3 and plan
#   alone                each job of W1 to W8 once under sa, with each kernel recorded
#   traced               W1 to W8 under case-alg3 once, with each kernel recorded
#   W7-moved, W8-moved   vgpu with 4 slots, and demand
#
# A call goes on where an earlier one stopped. If DIR has only the bundles, it goes on from there. A sweep has as many parts as
# repetitions (docs/reference/sweeps.md). So all schedulers of a repetition of a mix run on one machine: if the time does not suffice to end it, a
# later call on another machine does it anew. No part begins if the one before took longer than the time that is left. What jobs are
# expected to do under plan is known from the runs of other mixes in KNOWN.
#
# Environment:
#   LIMIT   seconds, 540: no run starts that would end later
#   REPS    3
#   SEED    17
#   SWAP    32GiB
#   NODE    local; a simulated node makes what it can, with a noise of 1 %: not alone and traced
#   KNOWN   docs/results/bundles/sweep.tar.gz
#
# Needs bin/caserun, make native, make cuda and caserun data. Exit status: 0 all runs were made; 4 time is up, call
# again; else as caserun sweep.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: benchmarks/evaluate.sh DIR [SWEEP...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- W1 W2 W3 W4 W5 W6 W7 W8 darknet D-128 alone traced W7-moved W8-moved
mkdir -p "$dir"
db=$dir/caserun.db node=${NODE:-local}
if [ ! -e "$db" ]; then
	for bundle in "$dir"/*.tar.gz; do
		[ ! -e "$bundle" ] || bin/caserun store merge --add "$db" "$bundle" >/dev/null
	done
fi
[ -e "$dir/known.db" ] || tar xzOf "${KNOWN:-docs/results/bundles/sweep.tar.gz}" caserun.db >"$dir/known.db"

# planned SWEEP is its number in the store; empty: it is not there yet.
planned() {
	[ ! -e "$db" ] || bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$1" '$2 == name { print $1 }'
}

status=0
for sweep in "$@"; do
	mixes=$sweep reps=${REPS:-3} more=()
	case $sweep in
	W[1-8]) scheds=sa,cg,schedgpu,case-alg2,case-alg3,plan ;;
	darknet) mixes=D-predict,D-detect,D-generate,D-train scheds=schedgpu,case-alg3 ;;
	D-128) scheds=sa,case-alg3,plan ;;
	alone) mixes=benchmarks/each.yaml scheds=sa reps=1 more=(--trace) ;;
	traced) mixes=W1..W8 scheds=case-alg3 reps=1 more=(--trace) ;;
	W[78]-moved) mixes=${sweep%-moved} scheds=vgpu:n=4,demand more=(--swap "${SWAP:-32GiB}") ;;
	*) echo "evaluate.sh: $sweep is not the name of a sweep" >&2; exit 2 ;;
	esac
	[ $((${LIMIT:-540} - SECONDS)) -gt 0 ] || { status=4; break; }
	number=$(planned "$sweep")
	if [ -z "$number" ]; then
		if [[ $scheds == *plan* ]]; then
			rm -f "$dir/$sweep.known.csv"
			bin/caserun history --db "$dir/known.db" --except "$sweep" -o "$dir/$sweep.known.csv"
			more+=(--history "$dir/$sweep.known.csv")
		fi
		bin/caserun sweep --mixes "$mixes" --scheds "$scheds" --node "$node" --mem-cap 16GiB "${more[@]}" --reps "$reps" --warmups 0 --seed "${SEED:-17}" \
			--name "$sweep" --tag evaluation --db "$db" --runs "$dir/runs" --plan-only
		number=$(planned "$sweep")
	fi
	took=0 # by the last part
	for part in $(seq "$reps"); do
		left=$((${LIMIT:-540} - SECONDS)) began=$SECONDS ended=0
		[ "$left" -gt "$took" ] || { status=4; break; }
		bin/caserun sweep --resume "$number" --part "$part/$reps" --db "$db" --time-limit "${left}s" || ended=$?
		took=$((SECONDS - began))
		[ "$ended" = 0 ] || { status=$ended; break; }
	done
	ran=$(bin/caserun report --db "$db" --sweep "$number" --format csv | awk -F, 'NR > 1 { print $3 }' | sort -u)
	[ -z "$ran" ] || bin/caserun compare "sweep:$number" --db "$db" >"$dir/$sweep.txt" 2>&1 || [ $? = 4 ] # one scheduler alone so far
	for mix in $ran; do
		bundle=$sweep-$mix
		[[ $sweep != "$mix"* ]] || bundle=$sweep
		bin/caserun export --db "$db" --sweep "$number" --mix "$mix" --bundle "$dir/$bundle.tar.gz" --force
	done
	[ "$status" = 0 ] || [ "$status" = 4 ] || break
done
bin/caserun paper --db "$db" --tag evaluation --out "$dir/paper" --force >/dev/null || [ $? = 4 ]
exit $status
