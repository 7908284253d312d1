#!/usr/bin/env bash
# Measures what a crowd of host phases costs on this machine (benchmarks/crowd/README.md).
#
#   benchmarks/crowd.sh DIR [REPETITIONS]
#
# DIR gets crowd.jsonl, and machine.txt, which says what the machine is. Nothing else should run. Three repetitions, which are the
# default, take about 70 s on 32 cores, and two took 180 s on a slow machine with 64. Needs make and g++.
set -eu
cd "$(dirname "$0")/.."
[ $# = 1 ] || [ $# = 2 ] || { echo "usage: benchmarks/crowd.sh DIR [REPETITIONS]" >&2; exit 2; }
mkdir -p "$1"
make -s -C benchmarks/crowd
{ date -u +%FT%TZ; uname -r; lscpu; free -g; } >"$1/machine.txt"
bin/crowd/crowd "${2:-3}" >"$1/crowd.jsonl.part"
mv "$1/crowd.jsonl.part" "$1/crowd.jsonl"
tail -n 1 "$1/crowd.jsonl"
