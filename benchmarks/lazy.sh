#!/usr/bin/env bash
# Measures the lazy runtime (native/lazy) on a machine with NVIDIA GPUs.
#
#   benchmarks/lazy.sh identity|overhead|kill|faults|growers|all DIR
#
#   identity   every program of benchmarks/lazy and of the builtin suite, and PyTorch, CuPy
#              and JAX if python3 has them: compares output and result files byte for byte,
#              natively and under case-alg3, alone and eight at once
#   overhead   wall time of each of the 17 jobs alone, natively and under zero, one after the
#              other; with two or more GPUs both runs of a long job at the same time
#   kill       200 times kill -9 of a random process of a running batch
#   faults     30 batches under MPS, in each of which one program faults: which job is
#              blamed, which jobs are harmed, and whether later jobs run
#   growers    programs that grow beside each other in 6 GiB, under three schedulers: whether
#              all end ok, and how often they are started again
#
# DIR gets the store, the jobs' outputs and the tables as CSV. overhead, kill, faults and
# growers stop after LIMIT seconds (480 by default). The next call with the same DIR continues. A
# relative DIR is relative to the repository's root.
#
# Environment:
#   LIMIT           seconds (480)
#   NVCC, ARCH      passed to make
#   DATA            the suite's input files (data)
#   PROGRAMS        identity: names
#   JOBS, SHORT     overhead: regular expressions
#   REPS            overhead: repetitions (4)
#   DEVICES         overhead: the GPUs, such as 1 or 0,1 (all)
#   PROBE           overhead: probe of the runs (lazy); static runs bin/suite-casecc
#   KILLS, BATCH    kill: kills (200), jobs in a batch (80)
#   SCHED, MEM_CAP  kill: the scheduler (case-alg3), such as vgpu, and --mem-cap (none)
#   BATCHES         faults: batches (30)
#   ISOLATE         faults: isolate in every n-th batch (3)
#   WAIT=no         faults: do not wait for the MPS server
#   SCHEDS, GROWERS growers: the schedulers (case-alg3 vgpu:n=4 demand), random programs of each (34)
#
# Needs bin/caserun, make native, nvcc and python3. Exit status: 0 all checks passed; 1 a
# check failed; 2 usage, or not built; 3 time is up, call again.
set -u
cd "$(dirname "$0")/.." || exit 1

usage() {
	echo "usage: benchmarks/lazy.sh identity|overhead|kill|faults|growers|all DIR" >&2
	exit 2
}

[ $# = 2 ] || usage
mode=$1 dir=$2
case $mode in identity | overhead | kill | faults | growers | all) ;; *) usage ;; esac
mkdir -p "$dir" || exit 1
[ -x bin/caserun ] || { echo "lazy.sh: bin/caserun is missing: run make build" >&2; exit 2; }

log=$dir/build.log
if ! { make -j"$(nproc)" -C benchmarks/rodinia && make -j"$(nproc)" -C benchmarks/lazy; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "lazy.sh: the programs do not build; see $log" >&2
	exit 2
fi
# The graph alone takes 2.6 GB, so make the input files only if they are used.
case $mode in identity | faults | growers) DATA=${DATA:-data} ;; esac
if [ -z "${DATA:-}" ]; then
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
all) run identity; run overhead; run kill; run faults; run growers ;;
*) run "$mode" ;;
esac
exit $status
