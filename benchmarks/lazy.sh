#!/usr/bin/env bash
# Measures the lazy runtime (native/probe) on a machine with NVIDIA GPUs.
#
#   benchmarks/lazy.sh identity|overhead|kill|faults|all DIR
#
#   identity   every program of benchmarks/lazy and of the builtin suite, and
#              PyTorch, CuPy and JAX where python3 has them: output and result
#              files, byte for byte, natively and under case-alg3, alone and eight
#              at once
#   overhead   wall time of the 17 jobs alone, natively and under zero, one after the
#              other; long jobs, with two GPUs or more, at the same time
#   kill       200 times kill -9 of a random process of a running batch
#   faults     30 batches under MPS, in each of which one program faults: who is
#              blamed, who is harmed, and whether the jobs that come later run
#
# DIR gets the store, the jobs' outputs and the tables as CSV. overhead, kill and faults
# stop after LIMIT seconds (480 by default) and go on in the next call with the
# same DIR. A relative DIR is relative to the repository's root.
#
# Environment, beside LIMIT: NVCC, ARCH (make); PROGRAMS (identity: names);
# JOBS and SHORT (overhead: regular expressions), REPS (4); KILLS (200), BATCH
# (jobs in a batch, 80); BATCHES (30), ISOLATE (every n-th batch, 3) and WAIT=no
# (faults: without waiting for the MPS server); DATA (the suite's input files, data). Needs
# bin/caserun, make native, nvcc and python3. Exit status: 0 all is as it should
# be; 1 a check failed; 2 usage, or not built; 3 time was up, call again.
set -u
cd "$(dirname "$0")/.." || exit 1

usage() {
	echo "usage: benchmarks/lazy.sh identity|overhead|kill|faults|all DIR" >&2
	exit 2
}

[ $# = 2 ] || usage
mode=$1 dir=$2
case $mode in identity | overhead | kill | faults | all) ;; *) usage ;; esac
mkdir -p "$dir" || exit 1
[ -x bin/caserun ] || { echo "lazy.sh: bin/caserun is missing: run make build" >&2; exit 2; }

log=$dir/build.log
if ! { make -j"$(nproc)" -C benchmarks/rodinia && make -j"$(nproc)" -C benchmarks/lazy; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "lazy.sh: the programs do not build; see $log" >&2
	exit 2
fi
# The graph alone takes 2.6 GB: make the input files only where they are used.
if [ "$mode" != identity ] && [ "$mode" != faults ] && [ -z "${DATA:-}" ]; then
	bin/caserun data || exit 2
fi

export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD/benchmarks
status=0
run() {
	echo "== $1"
	python3 "benchmarks/lazy/$1.py" "$dir"
	case $? in
	0) ;;
	3) [ $status = 0 ] && status=3 ;;
	*) status=1 ;;
	esac
}
case $mode in
all) run identity; run overhead; run kill; run faults ;;
*) run "$mode" ;;
esac
exit $status
