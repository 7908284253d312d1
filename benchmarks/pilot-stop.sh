#!/usr/bin/env bash
# How long it takes until a kernel has stopped, and what it costs to look, on a GPU (pilot-stop/stop.cu).
#
#   benchmarks/pilot-stop.sh [MIB [STOPS]]    ARCH=sm_90 is the GPU's architecture, NVCC the compiler
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${NVCC:-nvcc}" -O3 -std=c++14 -arch="${ARCH:-sm_90}" -I "$here/../native/stop" -o "$work/stop" "$here/pilot-stop/stop.cu"
"$work/stop" "$@"
