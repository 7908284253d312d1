#!/usr/bin/env bash
# Which machine code make cuda asks the compiler for, with an nvcc and an nvidia-smi that are made
# up. No CUDA is needed.
set -euo pipefail
cd "$(dirname "$0")/rodinia"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/nvcc" <<'NVCC'
#!/bin/sh
echo "$@" >>"$COMMANDS"
while [ "$1" != -o ]; do shift; done
: >"$2"
NVCC
cat >"$dir/nvidia-smi" <<'SMI'
#!/bin/sh
echo "$GPUS"
[ "$GPUS" != "${GPUS#[0-9]}" ]
SMI
chmod +x "$dir/nvcc" "$dir/nvidia-smi"
export COMMANDS=$dir/commands PATH="$dir:$PATH"
unset ARCH MAKEFLAGS MAKELEVEL

# expect WHAT N ARGUMENT... runs make and counts the compiler's commands that have WHAT.
expect() {
	local what=$1 want=$2 got
	shift 2
	: >"$COMMANDS"
	make -s SUITE="$dir/suite" NVCC=nvcc "$@"
	got=$(grep -cF -- "$what" "$COMMANDS" || true)
	if [ "$got" != "$want" ] || { [ "$want" != 0 ] && [ "$got" != "$(wc -l <"$COMMANDS")" ]; }; then
		echo "arch_test.sh: make $*, GPUs \"$GPUS\": $got of these commands have \"$what\", want $want:" >&2
		cat "$COMMANDS" >&2
		exit 1
	fi
}

# The GPUs' own code: three objects and seven programs.
GPUS=$'9.0\n8.0\n9.0' expect "-gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_90,code=[sm_90,compute_90] -cudart" 10
GPUS=$'9.0\n8.0\n9.0' expect "" 0 # nothing to do
# Other GPUs: everything is compiled again.
GPUS=10.0 expect "-arch=sm_100 " 10
# The user's word comes first.
GPUS=10.0 expect "-arch=sm_70 " 10 ARCH=sm_70
GPUS=10.0 expect "-arch=native " 10 ARCH=native
# nvidia-smi says on standard output why it failed.
GPUS="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver 580.1" expect "-arch=sm_90 " 10
