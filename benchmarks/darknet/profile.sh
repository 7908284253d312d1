#!/bin/bash
# Profiles the networks of CASE's authors that Table 5 lacks, each alone on a GPU, for simulated nodes (docs/reference/profiles.md).
#
#   benchmarks/darknet/profile.sh DIR
#
# DIR gets networks.csv, and logs. The program is built, and each layer of each network is compared with the host reference (check.sh),
# before anything is measured.
#
# Environment:
#   DATA         the input files (data); made if they are not there
#   LIMIT        seconds for all; what is measured by then is kept. Empty: no limit
#   NVCC, ARCH   passed to make
#
# Needs bin/caserun, make, gcc, nvcc, cuBLAS, cuRAND and CUPTI. Exit status: 0 all networks have a profile; 1 a network is not verified or
# has no profile; 2 usage, or not built.
set -eu
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { echo "usage: benchmarks/darknet/profile.sh DIR" >&2; exit 2; }
[ -x bin/caserun ] || { echo "profile.sh: bin/caserun is missing: run make build" >&2; exit 2; }
mkdir -p "$1"
dir=$(realpath "$1")
data=${DATA:-data}

bin/caserun data --data "$data" --mixes D-predict >"$dir/data.log" 2>&1 || { cat "$dir/data.log" >&2; exit 2; }
make -j"$(nproc)" native >"$dir/build.log" 2>&1 && make -j"$(nproc)" -C benchmarks/darknet >>"$dir/build.log" 2>&1 || {
	tail -n 20 "$dir/build.log" >&2
	exit 2
}
[ -e native/tracer/libcasetrace.so ] || { echo "profile.sh: the tracer is not built: see $dir/build.log" >&2; exit 2; }
echo "$SECONDS s: built"
status=0
LOGS=$dir/verify benchmarks/darknet/check.sh verify || status=1
[ $status = 0 ] || exit 1
echo "$SECONDS s: verified"

# The shortest first: a limit then costs the fewest profiles.
{
	printf 'name: networks\njobs:\n'
	while read -r network kind; do
		case $kind in
		predict) args="classifier predict imagenet1k.data $network.cfg" images=images-large.txt ;;
		detect) args="detect $network.cfg" images=images-medium.txt ;;
		esac
		[ -e "$data/$network.cfg" ] || { echo "profile.sh: bin/caserun does not have $network.cfg: run make build" >&2; exit 2; }
		echo "  - {name: darknet-$network, program: darknet, args: $args $network.weights, stdin: $images}"
	done <<-END
		alexnet predict
		darknet19 predict
		resnet152 predict
		yolov2-320 detect
		yolov3-320 detect
		yolov2-608 detect
		yolov3-608 detect
		yolov3-spp detect
	END
} >"$dir/networks.yaml"
rm -f "$dir/networks.csv"
[ -z "${LIMIT:-}" ] || [ $SECONDS -lt "$LIMIT" ] || { echo "profile.sh: no time is left to measure anything" >&2; exit 1; }
# SIGINT: what was measured is written.
${LIMIT:+timeout --foreground --signal=INT $((LIMIT - SECONDS))} bin/caserun profile --mix "$dir/networks.yaml" --devices 0 --data "$data" \
	--runs "$dir/runs" --timeout 200s --out "$dir/networks.csv" >"$dir/profile.log" 2>&1 || status=1
cat "$dir/profile.log"
[ -e "$dir/networks.csv" ] || { echo "profile.sh: no network was measured" >&2; exit 1; }
echo "$SECONDS s: $dir/networks.csv has $(($(wc -l <"$dir/networks.csv") - 1)) of 8 networks"
if grep ',untraced,' "$dir/networks.csv"; then
	echo "profile.sh: these kernels were not traced" >&2
	status=1
fi
exit $status
