#!/usr/bin/env bash
# The measured runs of docs/evaluation.md: one mix live under each scheduler on
# all GPUs of this machine, each behaving as one of 16 GiB.
#
#   benchmarks/evaluate.sh MIX DIR [SECONDS]
#
# DIR gets the store, the printed tables and the jobs' outputs. With SECONDS,
# no run starts once so many have passed. Needs bin/caserun, make native, make
# cuda and caserun data.
set -u
cd "$(dirname "$0")/.." || exit 1
mix=$1 out=$2 limit=${3:-86400}
mkdir -p "$out"
export CASERUN_DB=$out/evaluation.db CASERUN_RUNS=$out/runs CASERUN_MEM_CAP=16GiB

bin/caserun doctor | tee "$out/doctor.txt"
for sched in case-alg3 "cg:workers=8" case-alg2 sa case-alg3 case-alg2 "cg:workers=8"; do
	[ $SECONDS -lt "$limit" ] || break
	name=${sched%%:*}-$SECONDS
	bin/caserun mix "$mix" --sched "$sched" -v >"$out/$name.txt" 2>"$out/$name.err"
	echo "== $mix --sched $sched: exit $?, at $SECONDS s"
	grep -v '^job .*: ok;' "$out/$name.err"
done
bin/caserun report
