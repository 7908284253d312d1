#!/bin/bash
# Checks the suite on a machine with a GPU.
#
#   check.sh [PART...]    PART: build footprint verify sanitize jobs
#                         (all five, in that order, without arguments)
#
# Environment:
#   JOBS   extended regular expression; `jobs` runs the commands that match it
#   DATA   folder for the input files, about 3 GB (a fresh one in TMPDIR)
#   LOGS   folder for each program's output (DATA)
#   NVCC, ARCH   passed to make
#
# The column wall_s of the table below is the wall time of Rodinia 3.1's own programs on one
# H200. A job passes with 0.5 to 2 times this time. srad_v2's time is of a run that a memory
# fault ended after its first iteration.
# Exit status: 0 all passed, 1 a check failed, 2 the suite does not build.
set -u
cd "$(dirname "$0")" || exit 1
bin=$PWD/../../bin/suite
failures=0

# job|wall_s|footprint bytes|grid|block|command
table='backprop-8388608|6.50|1176502548|16x32768x1|16x16x1|backprop 8388608
bfs-32M|28.61|1308592369|65536x1x1|512x1x1|bfs graph32M.txt
srad_v2-8192|2.11|1610612736|512x512x1|16x16x1|srad_v2/srad 8192 8192 0 127 0 127 0.5 2
dwt2d-8192|0.43|2080374784|43x15x1|192x1x1|dwt2d rgb.bmp -d 8192x8192 -f -5 -l 3
needle-16384|2.48|2147745800|1024x1x1|16x1x1|needle 16384 10
backprop-16777216|10.32|2350907668|32x32768x1|16x16x1|backprop 16777216
srad_v1-11000|10.57|3872176000|236329x1x1|512x1x1|srad_v1/srad 100 0.5 11000 11000
backprop-33554432|22.95|4699717908|64x32768x1|16x16x1|backprop 33554432
srad_v2-16384|7.21|6442450944|1024x1024x1|16x16x1|srad_v2/srad 16384 16384 0 127 0 127 0.5 2
srad_v1-15000|23.66|7200240000|439454x1x1|512x1x1|srad_v1/srad 100 0.5 15000 15000
lavaMD-100|14.34|7856000000|1000000x1x1|128x1x1|lavaMD -boxes1d 100
dwt2d-16384|0.72|8321499136|86x15x1|192x1x1|dwt2d rgb.bmp -d 16384x16384 -f -5 -l 3
needle-32768|8.15|8590458888|2048x1x1|16x1x1|needle 32768 10
backprop-67108864|38.20|9397338388|128x32768x1|16x16x1|backprop 67108864
lavaMD-110|18.44|10456336000|1331000x1x1|128x1x1|lavaMD -boxes1d 110
srad_v1-20000|39.54|12800320000|781250x1x1|512x1x1|srad_v1/srad 100 0.5 20000 20000
lavaMD-120|23.33|13575168000|1728000x1x1|128x1x1|lavaMD -boxes1d 120'

# Small commands that reach every path: several grids, odd sizes, edges.
small='backprop 16
backprop 4096
bfs gen:1:3
bfs gen:20000:7
srad_v1/srad 3 0.5 37 53
srad_v1/srad 5 0.5 600 500
srad_v2/srad 16 16 0 15 0 15 0.5 2
srad_v2/srad 128 64 0 31 0 31 0.5 3
dwt2d rgb.bmp -d 67x45 -f -5 -l 3
dwt2d rgb.bmp -d 1031x997 -f -5 -l 3
needle 16 10
needle 256 10
lavaMD -boxes1d 1
lavaMD -boxes1d 3'

larger='backprop 1048576
bfs gen:1000000:7
srad_v1/srad 20 0.5 1500 1100
srad_v2/srad 2048 1024 0 127 0 127 0.5 4
dwt2d rgb.bmp -d 4096x4096 -f -5 -l 5
needle 4096 10
lavaMD -boxes1d 5'

fail() {
	echo "FAIL $*"
	failures=$((failures + 1))
}

build() {
	make -j"$(nproc)" || exit 2
}

footprint() {
	while IFS='|' read -r job _ bytes grid block command; do
		[ "${job%%-*}" = bfs ] && command=${command/graph32M.txt/gen:33554432:7}
		got=$($bin/$command --footprint) || { fail "footprint $job"; continue; }
		awk -v job="$job" -v want="$bytes" -v grid="$grid" -v block="$block" -v line="$got" 'BEGIN {
			split(line, f, /[ =]/)
			ok = f[2] >= want * 0.98 && f[2] <= want * 1.02 && f[6] == grid && f[8] == block
			printf "%-4s footprint %-18s %11.0f of %11.0f bytes, grid %s block %s\n",
				ok ? "ok" : "FAIL", job, f[2], want, f[6], f[8]
			exit !ok
		}' || failures=$((failures + 1))
	done <<<"$table"
}

# once COMMAND...: runs in the data folder; the output goes to the log.
once() {
	(cd "$data" && "$@") >"$logs/output" 2>&1
	local status=$?
	cat "$logs/output" >>"$logs/log"
	return $status
}

verify() {
	local first
	while read -r command; do
		if ! once $bin/$command --verify; then
			fail "verify $command: $(tail -n 1 "$logs/output")"
			continue
		fi
		first=$(grep checksum "$logs/output")
		echo "ok   verify $command: $(grep ^verify "$logs/output" | tr '\n' ';')"
		once $bin/$command
		[ "$first" = "$(grep checksum "$logs/output")" ] || fail "checksum of $command changes"
	done <<<"$small
$larger"
}

sanitize() {
	local tool
	if ! command -v compute-sanitizer >/dev/null; then
		echo "skip sanitize: compute-sanitizer is not installed"
		return
	fi
	while read -r command; do
		for tool in memcheck racecheck; do
			if once compute-sanitizer --tool "$tool" --error-exitcode 9 $bin/$command; then
				echo "ok   $tool $command"
			else
				fail "$tool $command: $(tail -n 1 "$logs/output")"
			fi
		done
	done <<<"$small"
}

jobs_table() {
	local start seconds status
	if [[ "bfs-32M" =~ ${JOBS:-} && ! -f "$data/graph32M.txt" ]]; then
		$bin/bfs --write-graph "$data/graph32M.txt" gen:33554432:7 || exit 1
	fi
	echo "job                 profile_s     wall_s  ratio"
	while IFS='|' read -r job profile _ _ _ command; do
		[[ "$job" =~ ${JOBS:-} ]] || continue
		start=$(date +%s.%N)
		once $bin/$command --phases
		status=$?
		seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')
		if [ $status -ne 0 ]; then
			fail "$job: exit status $status: $(tail -n 1 "$logs/output")"
			continue
		fi
		awk -v job="$job" -v profile="$profile" -v wall="$seconds" 'BEGIN {
			ratio = wall / profile
			ok = ratio >= 0.5 && ratio <= 2
			printf "%-18s %10.2f %10.2f %6.2f  %s", job, profile, wall, ratio, ok ? "ok" : "FAIL"
			exit !ok
		}' || failures=$((failures + 1))
		awk '$1 == "phase" { printf " %s", $0 } END { print "" }' "$logs/output" |
			sed 's/ phase / | /g; s/  */ /g'
	done <<<"$table"
}

if [ -n "${DATA:-}" ]; then
	data=$DATA
	mkdir -p "$data" || exit 1
else
	data=$(mktemp -d) || exit 1
	trap 'rm -rf "$data"' EXIT
fi
logs=${LOGS:-$data}
mkdir -p "$logs" || exit 1
# dwt2d uses any bytes as pixels; these bytes are the same everywhere.
[ -f "$data/rgb.bmp" ] || seq 1 500000 | head -c 3145782 >"$data/rgb.bmp"

[ $# -gt 0 ] || set -- build footprint verify sanitize jobs
for part in "$@"; do
	case $part in
	build | footprint | verify | sanitize) $part ;;
	jobs) jobs_table ;;
	*) echo "check.sh: unknown part $part" >&2; exit 1 ;;
	esac
done
if [ $failures -gt 0 ]; then
	echo "$failures checks failed"
	exit 1
fi
echo "all checks passed"
