#!/usr/bin/env bash
# How much managed memory is on the device, as libcase.so finds it out, beside what a kernel has touched, on a GPU (pilot/pages.cu).
# It takes some seconds, and at most 2 GiB, and half of what is free, of managed memory.
#
#   benchmarks/pilot-pages.sh [MIB]    ARCH=sm_90 is the GPU's architecture, NVCC the compiler
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${NVCC:-nvcc}" -O2 -std=c++14 -arch="${ARCH:-sm_90}" -cudart static -o "$work/pages" "$here/pilot/pages.cu" \
	"$here/rodinia/common/suite.cpp" "$here/rodinia/common/host.cpp" "$here/../native/lazy/memory/pagemap.cc"
"$work/pages" "$@"
