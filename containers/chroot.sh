#!/usr/bin/env bash
# Runs the steps of Dockerfile and caserun.def in a chroot of Debian 12, on a machine without a
# container engine, and tries what they install. Debian's CUDA packages stand in for NVIDIA's image, and this
# machine's Go for the golang image. The source is the last commit.
#
#   containers/chroot.sh DIR     DIR is made, and removed at the end
#
# Needs root, debootstrap, the network, and 10 GB in DIR. ARCH is as for install.sh.
set -euo pipefail
root=${1:?usage: containers/chroot.sh DIR}
cd "$(dirname "$0")/.."

# The mounts below end with this namespace, before DIR is removed.
if [ -z "${CASERUN_IN_CHROOT_NAMESPACE:-}" ]; then
	mkdir "$root"
	trap 'rm -rf --one-file-system "$root"' EXIT
	CASERUN_IN_CHROOT_NAMESPACE=1 unshare --mount --propagation private "$0" "$(realpath "$root")"
	exit
fi

debootstrap --variant=minbase --components=main,contrib,non-free bookworm "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/usr/local/share/ca-certificates" # a proxy's, which the package ca-certificates adds
find /usr/local/share/ca-certificates -name '*.crt' -exec cp -t "$root/usr/local/share/ca-certificates" {} + 2>/dev/null || true
cp -r "$(go env GOROOT)" "$root/usr/local/go"
git clone -q --no-hardlinks . "$root/src/caserun"

within() { chroot "$root" env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$@"; }
within ARCH="${ARCH:-}" PACKAGES="nvidia-cuda-toolkit libcupti-dev" \
	${GOPROXY:+GOPROXY="$GOPROXY"} /src/caserun/containers/install.sh

# What the images keep is /opt/caserun.
rm -rf "$root/usr/local/go" "$root/src/caserun" "$root/root/go" "$root/root/.cache"
# has FILE TEXT fails unless the file has the text.
has() {
	if ! grep -q "$2" "$root/root/$1"; then
		echo "containers/chroot.sh: no \"$2\" in $1:" >&2
		cat "$root/root/$1" >&2
		exit 1
	fi
}
within sh -c 'cd && caserun mix W7 --sched case-alg3 --node sim:4xV100 >mix.txt && caserun report --html page.html'
has mix.txt SIMULATED
has page.html '</html>'
within sh -c 'cd && caserun doctor --format csv >doctor.csv' || true # no GPU, no data
has doctor.csv '^libcase.so,ok,/opt/caserun/lib/caserun/'
has doctor.csv '^suite,ok,'
within test -f /opt/caserun/lib/caserun/libcasetrace.so
within /opt/caserun/lib/caserun/suite/needle --footprint 2048 10
echo "containers/chroot.sh: all steps passed"
