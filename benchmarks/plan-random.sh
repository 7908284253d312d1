#!/usr/bin/env bash
# Compares plan with case-alg3 on random mixes, SIMULATED.
#
#   benchmarks/plan-random.sh DIR
#
# Each mix has 32 jobs of CASE's Table 1, drawn by the rule of the paper, with large and small ones 1:1, 2:1, 3:1 and 4:1 in
# turn. Each runs once under each scheduler, with noise of 1 %, because the mixes are the sample. Each node has a sweep of
# its own, in the store DIR/NODE.db. DIR/NODE.txt gets the comparison, DIR/NODE.csv the runs. The next call resumes a sweep
# that was stopped. 100 mixes on three nodes take some 9 minutes on one core.
#
# Environment: MIXES (100), NODES (v100 h200; h100 has the profiles of the suite), SCHEDS (case-alg3,plan,plan:error=0.3).
#
# Needs bin/caserun. Exit status: as caserun sweep.
set -eu
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: benchmarks/plan-random.sh DIR" >&2; exit 2; }
dir=$1
mkdir -p "$dir"
mixes=
for i in $(seq "${MIXES:-100}"); do
	[ -e "$dir/$i.yaml" ] || bin/caserun mixes gen --jobs 32 --ratio $((1 + i % 4)):1 --seed "$i" -o "$dir/$i.yaml" >/dev/null
	mixes=$mixes,$dir/$i.yaml
done
for name in ${NODES:-v100 h200}; do
	case $name in
	v100) node=(--node sim:4xV100) ;;
	h200) node=(--node sim:4xH200 --mem-cap 16GiB) ;;
	h100) node=(--node sim:4xH100 --mem-cap 16GiB --profiles runner/profiles/suite_h100.csv) ;;
	*) echo "plan-random.sh: NODES has $name: want v100, h200 or h100" >&2; exit 2 ;;
	esac
	db=$dir/$name.db
	if [ -e "$db" ]; then
		bin/caserun sweep --resume latest --db "$db" --format csv >/dev/null
	else
		bin/caserun sweep --mixes "${mixes#,}" --scheds "${SCHEDS:-case-alg3,plan,plan:error=0.3}" "${node[@]}" --reps 1 --sim-noise 0.01 --db "$db" --format csv >/dev/null
	fi
	bin/caserun compare sweep:1 --db "$db" --metrics throughput,turnaround >"$dir/$name.txt"
	bin/caserun sweep show 1 --db "$db" --format csv >"$dir/$name.csv"
done
