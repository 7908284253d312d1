#!/usr/bin/env bash
# What happens behind a fault under MPS, beside neighbours drawn at random, on one NVIDIA GPU.
#
#   benchmarks/faults.sh stall|misaligned DIR
#
# benchmarks/faults/episodes.py says what each does. COUNT batches (20) are made, numbered from 0; after LIMIT seconds (480)
# it stops. The next call with the same DIR continues.
#
# Environment: COUNT, LIMIT, NVCC (nvcc).
#
# Needs bin/caserun, make native, nvcc and python3. Exit status: 0 nobody was blamed wrongly and nothing stood still for 5 s;
# 1 not so; 2 usage; 3 time is up.
set -u
cd "$(dirname "$0")/.." || exit 2
case $# in 2) ;; *) echo "usage: benchmarks/faults.sh stall|misaligned DIR" >&2; exit 2 ;; esac
case $1 in stall | misaligned) ;; *) echo "usage: benchmarks/faults.sh stall|misaligned DIR" >&2; exit 2 ;; esac
mkdir -p "$2" && dir=$(cd "$2" && pwd) || exit 2
"${NVCC:-nvcc}" -O1 -arch=native -cudart shared -o "$dir/neighbours" benchmarks/faults/neighbours.cu || exit 2
exec python3 benchmarks/faults/episodes.py "$1" "$dir/neighbours" bin/caserun "$dir" "${COUNT:-20}" "${LIMIT:-480}"
