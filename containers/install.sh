#!/usr/bin/env bash
# Builds caserun and its CUDA suites on Debian or Ubuntu with CUDA's compiler and Go, and installs
# them into /opt/caserun. Dockerfile, caserun.def and chroot.sh run it as root.
#   ARCH      the GPUs to build for (default "sm_70 sm_80 sm_90", for CUDA 11.8 to 12)
#   PACKAGES  what to install beside the tools
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive PATH=/usr/local/go/bin:$PATH

apt-get update
# shellcheck disable=SC2086 # names of packages
apt-get install -y --no-install-recommends ca-certificates g++ git make ${PACKAGES:-}
rm -rf /var/lib/apt/lists/*

make cuda ARCH="${ARCH:-sm_70 sm_80 sm_90}"
make install PREFIX=/opt/caserun
ln -sf /opt/caserun/bin/caserun /usr/local/bin/caserun
