#!/usr/bin/env bash
# Compares schedulers that take memory back with those that do not, on one NVIDIA GPU.
#
#   benchmarks/movable.sh DIR [MIX...]
#
# MIX is one of benchmarks/movable; all by default. Each is run REPS times (7), in a sweep of its own whose store is
# DIR/MIX.db. DIR gets a comparison of each. All repetitions of a mix are of one machine. A sweep that
# was stopped goes on with the next call.
#
#   w7-short w8-short three-times   case-alg3, schedgpu, vgpu with 2, 4 and 8 slots, demand
#   mm-l-0 mm-l-1                   vgpu with 1 and 4 slots, and memory for two jobs at a time
#   larger                          sa and vgpu, and less memory than the one job needs
#   w7-movable                      case-alg3, beside w7-short: what it costs that memory can move
#   mm-8                            vgpu, 8 GiB at a time, alone and beside a neighbour that uses the device's memory (mm-8-beside)
#
# Environment: DEVICE (0), REPS (7), LIMIT (seconds, 480), SWAP (32GiB).
#
# Needs bin/caserun, make native, make cuda, make -C benchmarks/movable (mm-8) and data/ from caserun data. Exit status: 0 all runs were made;
# 4 time is up, call again; else as caserun sweep.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 1 ] || { echo "usage: benchmarks/movable.sh DIR [MIX...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- w7-short w8-short three-times mm-l-0 mm-l-1 larger w7-movable mm-8
mkdir -p "$dir" || exit 1
for mix in "$@"; do
	cap=16GiB scheds=case-alg3,schedgpu,vgpu:n=2,vgpu:n=4,vgpu:n=8,demand beside=
	case $mix in
	three-times) cap=8GiB ;;
	mm-l-*) cap=5.8GiB scheds=vgpu:n=1,vgpu:n=4 ;; # 3 GiB and five contexts
	larger) cap=3GiB scheds=sa,vgpu ;;
	w7-movable) scheds=case-alg3 beside=w7-short ;;
	mm-8) cap=12GiB scheds=vgpu:n=3 beside=mm-8-beside ;;
	esac
	left=$((${LIMIT:-480} - SECONDS))
	[ "$left" -gt 60 ] || exit 4
	db=$dir/$mix.db
	if [ -f "$db" ]; then
		bin/caserun sweep --resume 1 --db "$db" --time-limit "${left}s"
	else
		bin/caserun sweep --mixes "benchmarks/movable/$mix.yaml${beside:+,benchmarks/movable/$beside.yaml}" --scheds "$scheds" \
			--reps "${REPS:-7}" --warmups 0 --devices "${DEVICE:-0}" --mem-cap "$cap" --swap "${SWAP:-32GiB}" \
			--tag "movable-$mix" --db "$db" --runs "$dir/runs-$mix" --time-limit "${left}s"
	fi
	status=$?
	bin/caserun compare "tag:movable-$mix" --db "$db" --metrics makespan,turnaround >"$dir/$mix.txt" 2>&1
	[ "$status" = 0 ] || exit "$status"
done
