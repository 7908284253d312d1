#!/usr/bin/env bash
# Runs small jobs live under every scheduler on a machine with an NVIDIA GPU. Then it kills
# jobs and the harness itself, and checks that nothing is left.
#
#   benchmarks/smoke.sh [DIR]     DIR: for the store and logs (smoke-results)
#
# Needs bin/caserun, make native and make cuda, and data/ from caserun data.
# Exit status 1 if a check fails.
set -u
cd "$(dirname "$0")/.." || exit 1
out=${1:-smoke-results}
mkdir -p "$out"
export CASERUN_DB=$out/smoke.db CASERUN_RUNS=$out/runs
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | paste -sd' '; }

before=$(used)
bin/caserun doctor || fail "doctor"

for sched in zero sa "cg:workers=3" schedgpu case-alg2 case-alg3; do
	bin/caserun mix benchmarks/smoke.yaml --sched "$sched" --mem-cap 16GiB -v >"$out/${sched%%:*}.txt" 2>"$out/${sched%%:*}.err"
	status=$?
	echo "== $sched: exit $status"
	grep -E '^(makespan|  ok|  out of|  otherwise|mean|peak|sampler|throughput)' "$out/${sched%%:*}.txt"
	grep -vE '^job |preparing' "$out/${sched%%:*}.err"
	case $sched in zero | cg*) ;; *) [ $status = 0 ] || fail "$sched exited $status" ;; esac
done

echo "== kill -9 of jobs"
bin/caserun mix benchmarks/smoke.yaml --sched case-alg3 --mem-cap 16GiB >"$out/kill.txt" 2>"$out/kill.err" &
harness=$!
sleep 6
for program in needle lavaMD srad; do pkill -9 -o -x -P $harness $program && sleep 0.3; done
wait $harness
[ $? = 1 ] || fail "a run with killed jobs must exit 1"
bin/caserun report latest -v | grep -E 'SIGKILL|collateral|^  ok' | cut -c1-150

echo "== SIGINT"
bin/caserun mix benchmarks/smoke.yaml --sched case-alg3 >"$out/int.txt" 2>"$out/int.err" &
harness=$!
sleep 5
kill -INT $harness
wait $harness
[ $? = 130 ] || fail "an interrupted run must exit 130"

echo "== kill -9 of the harness"
bin/caserun mix benchmarks/smoke.yaml --sched case-alg3 --mem-cap 16GiB >"$out/dead.txt" 2>"$out/dead.err" &
harness=$!
sleep 5
kill -9 $harness
wait $harness 2>/dev/null
sleep 2
left=$(ps -u "$(id -u)" -o pid,stat,comm | awk '$2 !~ /^Z/ && $3 ~ /^(needle|lavaMD|srad|backprop|dwt2d|bfs|ballast|nvidia-cuda-mps.*)$/')
[ -z "$left" ] || fail "processes left: $left"
bin/caserun report --last 3 || fail "the store must open after kill -9"

after=$(used)
echo "device memory used, MiB: before $before, after $after"
for i in $(seq "$(echo "$before" | wc -w)"); do
	[ $(($(echo "$after" | cut -d' ' -f"$i") - $(echo "$before" | cut -d' ' -f"$i"))) -lt 64 ] || fail "device memory is left in use on GPU $((i - 1))"
done
echo "failures: $failures"
[ $failures = 0 ]
