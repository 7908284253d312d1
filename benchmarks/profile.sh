#!/usr/bin/env bash
# Profiles the 17 jobs of the catalog under the lazy runtime, each alone on a GPU, for simulated nodes (docs/reference/profiles.md).
#
#   benchmarks/profile.sh DIR
#
# DIR gets rodinia31_h200.csv, which may replace runner/profiles/rodinia31_h200.csv, and a CSV and a log of each job. Jobs that DIR
# has already are not measured again. Use one machine for one DIR, because machines differ by a third.
#
# Environment:
#   GPUS   how many GPUs to use, each for one job at a time; all, but not more than 2: jobs that run at once share the host
#   ONCE   1: one traced run of each job, 130 to 180 s in all on two GPUs; empty: an untraced and a traced one, twice the time
#   DATA   the suite's input files (data); made if they are not there, with a graph of 2.6 GB
#   NVCC, ARCH   passed to make
#
# Needs bin/caserun, make, gcc, nvcc and CUPTI. Exit status: 0 all jobs have a profile; 1 some have none; 2 usage, or not built.
set -eu
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: benchmarks/profile.sh DIR" >&2; exit 2; }
dir=$1
known=runner/profiles/rodinia31_h200.csv
export DATA=${DATA:-data} dir once=${ONCE-1}
mkdir -p "$dir"
[ -x bin/caserun ] || { echo "profile.sh: bin/caserun is missing: run make build" >&2; exit 2; }
if [ -z "${GPUS:-}" ]; then
	GPUS=$(nvidia-smi -L | wc -l)
	[ "$GPUS" -le 2 ] || GPUS=2
fi

bin/caserun data --data "$DATA" --mixes W1..W8 >"$dir/data.log" 2>&1 &
data=$!
make -j"$(nproc)" native >"$dir/build.log" 2>&1 && make -j"$(nproc)" -C benchmarks/rodinia >>"$dir/build.log" 2>&1 || {
	tail -n 20 "$dir/build.log" >&2
	exit 2
}
[ -e native/tracer/libcasetrace.so ] || { echo "profile.sh: the tracer is not built: see $dir/build.log" >&2; exit 2; }
wait $data || { cat "$dir/data.log" >&2; exit 2; }
echo "$SECONDS s: built; profiling on $GPUS GPUs"

# The longest jobs first, so that no GPU is idle for long at the end.
profile() {
	name=${1%%,*} command=${1#*,}
	[ ! -e "$dir/$name.csv" ] || return 0
	rm -f "$dir/$name.part"
	bin/caserun profile ${once:+--once} --name "$name" --devices "$SLOT" --data "$DATA" --runs "$dir/runs-$name" --timeout 150s \
		--out "$dir/$name.part" -- $command >"$dir/$name.log" 2>&1 || { echo "$name: $(tail -n 1 "$dir/$name.log")" >&2; return 1; }
	! grep -q ',untraced,' "$dir/$name.part" || { echo "$name: its kernels were not traced" >&2; return 1; }
	mv "$dir/$name.part" "$dir/$name.csv"
}
export -f profile
status=0
awk -F, 'NR > 1 { print $3 + $4 + $5 + $7 + $8 + $10 "," $1 "," $2 }' $known | sort -t, -k1 -rg |
	cut -d, -f2- | xargs -d '\n' -n 1 -P "$GPUS" --process-slot-var=SLOT bash -c 'profile "$1"' _ || status=1

missing=
: >"$dir/joined.part"
while IFS=, read -r name _; do
	if [ ! -e "$dir/$name.csv" ]; then
		missing="$missing $name"
	elif [ -s "$dir/joined.part" ]; then
		tail -n +2 "$dir/$name.csv" >>"$dir/joined.part"
	else
		cat "$dir/$name.csv" >"$dir/joined.part"
	fi
done < <(tail -n +2 $known)
if [ -n "$missing" ]; then
	echo "profile.sh: no profile of$missing" >&2
	exit 1
fi
mv "$dir/joined.part" "$dir/rodinia31_h200.csv"
echo "$SECONDS s: $dir/rodinia31_h200.csv has all jobs"
exit $status
