#!/usr/bin/env bash
# Has a program with cuBLAS and one with a static CUDA runtime take turns on one GPU by checkpoints (docs/design/checkpoint.md). Each checks all
# of its memory after each round. Ends with status 1 if one was wrong, or was taken out less often than TURNS times.
#
#   benchmarks/checkpoint.sh [TURNS [MIB]]     20 turns of 4096 MiB each take 5 minutes
#
# ARCH=sm_90 is the GPU's architecture, NVCC the compiler. With PROGRAMS="COMMAND;COMMAND" these run instead, as on fake GPUs:
#
#   FAKE_CUDA_DEVICES=1 SWAPPED_MEET=$(mktemp -d),2 IDLE=20ms \
#   PROGRAMS='native/lazy/build/13/static_lazy swapped 12;native/lazy/build/13/lazy_program swapped 12' \
#   native/fake-node benchmarks/checkpoint.sh 3 26
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
turns=${1:-20} mib=${2:-4096}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "${PROGRAMS:-}" ]; then
	build() { "${NVCC:-nvcc}" -O3 -arch="${ARCH:-sm_90}" -o "$work/$1" benchmarks/checkpoint/rounds.cu "${@:2}"; }
	build static -cudart static
	build cublas -cudart shared -DUSE_CUBLAS -lcublas
	arguments="$((turns * 2)) $mib 2500"
	PROGRAMS="$work/static $arguments;$work/cublas $arguments"
fi
{
	echo "name: checkpoint"
	echo "jobs:"
	for program in "${PROGRAMS%%;*}" "${PROGRAMS#*;}"; do
		echo "  - {program: /bin/sh, args: [-c, \"exec $program\"], name: $(basename "${program%% *}"), memory: $((mib + mib / 8))MiB}"
	done
} >"$work/mix.yaml"
bin/caserun mix "$work/mix.yaml" --node local --workers 2 --devices "${DEVICE:-0}" --db "$work/store.db" --runs "$work/runs" \
	--sched "vgpu-preempt:n=1,via=checkpoint,idle=${IDLE:-1s}" || status=$?
bin/caserun export --db "$work/store.db" --csv "$work/csv" >/dev/null
tail -n 1 "$work"/runs/*/*.out
awk -F, -v turns="$turns" '
	NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
	$column["outcome"] != "done" { refused++; next }
	{ key = $column["job_index"] " " $column["direction"]; times[key]++; took[key] += $column["end_s"] - $column["start_s"]; copy[key] += $column["copy_s"]; bytes[key] += $column["bytes"] }
	END {
		for (key in times) {
			printf "job and direction %s: %d times, %.2f s each, %.2f s of it copies, %.2f GB/s\n", key, times[key], took[key] / times[key], copy[key] / times[key], bytes[key] / copy[key] / 1e9
			few += times[key] < turns
		}
		printf "refused: %d\n", refused
		exit few > 0 || length(times) < 4
	}' "$work/csv/swap.csv" || { echo "fewer than $turns turns" >&2; status=1; }
exit "${status:-0}"
