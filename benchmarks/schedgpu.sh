#!/usr/bin/env bash
# Measures Tables 1 to 3 and Figure 11 of schedGPU's paper on one NVIDIA GPU
# (benchmarks/schedgpu/tables.py says how).
#
#   benchmarks/schedgpu.sh DIR
#
# DIR gets the store, the jobs' outputs and runs.csv. The script stops after LIMIT seconds
# (480 by default). The next call with the same DIR continues.
#
# Environment: LIMIT (480), INSTANCES ("1 2 4 6 8 10 12"), REPS (1), CAP_MIB (10240, the
# memory that jobs may use), DEVICE (0), ONLY ("low moderate high workload", some of these).
# Two calls with a DEVICE, a DIR and a part of ONLY each can share a machine. Their runs.csv
# together, in a third DIR, give all tables.
#
# Needs bin/caserun, make native, make cuda, data/ from caserun data, and python3. Exit
# status: 0 all jobs ended ok; 1 some did not; 2 usage, or not built; 3 time is up, call
# again.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# = 1 ] || { echo "usage: benchmarks/schedgpu.sh DIR" >&2; exit 2; }
[ -x bin/caserun ] && [ -x bin/suite/darknet ] || { echo "schedgpu.sh: the programs are missing: run make build native cuda" >&2; exit 2; }
mkdir -p "$1" || exit 1
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD/benchmarks
bin/caserun data --mixes 'D-*' || exit 2
exec python3 benchmarks/schedgpu/tables.py "$1"
