#!/usr/bin/env bash
# Runs programs of frameworks under several schedulers on one GPU that is limited to 16 GiB, all at once, with nothing stated of them.
#
#   benchmarks/frameworks.sh DIR [STEP...]
#
# A call does what is left of these steps, in the order in which they are named; all by default:
#
#   native           the programs without caserun, whose results are those that the others must have: at once the eight of M-mixed,
#                    then three of benchmarks/frameworks/move.py
#   SCHEDULER        M-mixed under a scheduler, REPS times: sa, case-alg3, schedgpu, vgpu:n=4, demand
#   moves:SCHEDULER  three move.py of 2.9 GiB at MOVES_CAP, REPS times: vgpu:n=4, demand
#   kinds-alone      JAX, CuPy, Triton, and PyTorch with other allocators (benchmarks/frameworks/kinds.yaml), one after another
#                    under case-alg3: what is charged, and what the device shows
#   kinds:SCHEDULER  the same at once under a scheduler, REPS times
#   profiles         traced profiles of the eight programs, for simulated nodes: DIR/profiles.csv. Not by default
#
# All is in DIR. DIR/outcomes.txt has the outcomes of jobs, whether their results are the native ones, restarts, and bytes above the
# charge. A call that is stopped loses only the run that it was making. No run knows what jobs reached in earlier ones
# (--no-footprints), so the order of the steps does not matter. One DIR is for one build of caserun.
#
# Environment:
#   LIMIT    seconds, 520: no run starts that is expected to end later
#   REPS     3; a later call with more makes the missing ones
#   MIX      M-mixed
#   MEM_CAP  16GiB; MOVES_CAP 7GiB
#   DEVICE   0
#
# Needs bin/caserun, make native, and a python3 with PyTorch; kinds also JAX, CuPy and Triton, profiles the tracer. Exit status:
# 0 all steps are done; 1 a job did not end ok, or its result is another than natively; 2 usage, not built, or DIR has runs of
# another build; 4 time is up, call again; else as caserun sweep.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 1 ] || { echo "usage: benchmarks/frameworks.sh DIR [STEP...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- native sa case-alg3 schedgpu vgpu:n=4 demand moves:vgpu:n=4 moves:demand kinds-alone kinds:case-alg3
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd)
db=$dir/frameworks.db mix=${MIX:-M-mixed} cap=${MEM_CAP:-16GiB} limit=${LIMIT:-520}
programs="cnn decode diffusion embedding graphnet graphs tabular transformer"
export PYTHONDONTWRITEBYTECODE=1

build=$(cat bin/caserun native/lazy/libcase.so | sha256sum) || { echo "frameworks.sh: not built: run make build native" >&2; exit 2; }
if [ -e "$db" ] || [ -e "$dir/alone.csv" ]; then
	[ "$(cat "$dir/build" 2>/dev/null)" = "$build" ] ||
		{ echo "frameworks.sh: $dir has runs of another build of caserun: name another DIR, or remove it" >&2; exit 2; }
fi
echo "$build" >"$dir/build"

left() { echo $((limit - SECONDS)); }

# native COMMAND... runs commands at once, and keeps what each prints in DIR/native, once all have ended well.
native() {
	local command name began=$SECONDS pids=() failed=0 first
	first=$(basename "${1/ /-}")
	[ ! -e "$dir/native/$first.done" ] || return 0
	[ "$(left)" -gt 120 ] || return 4
	mkdir -p "$dir/native"
	for command; do
		name=$dir/native/$(basename "${command/ /-}")
		# shellcheck disable=SC2086 # the command's words
		CUDA_VISIBLE_DEVICES=${DEVICE:-0} timeout "$(left)" benchmarks/$command >"$name.out" 2>"$name.err" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
	tail -qn 1 "$dir"/native/*.err
	echo "native: $((SECONDS - began)) s"
	[ $failed = 0 ] && touch "$dir/native/$first.done"
}

# sweep NAME MIX SCHEDULER CAP makes the repetitions that a sweep lacks.
sweep() {
	local number='' left
	left=$(left)
	[ "$left" -gt 60 ] || return 4
	[ ! -e "$db" ] || number=$(bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$1" '$2 == name { print $1 }')
	if [ -n "$number" ]; then
		bin/caserun sweep --resume "$number" --reps "${REPS:-3}" --db "$db" --time-limit "${left}s"
	else
		bin/caserun sweep --mixes "$2" --scheds "$3" --name "$1" --tag frameworks --mem-cap "$4" --devices "${DEVICE:-0}" --require-live \
			--no-footprints --reps "${REPS:-3}" --warmups 0 --timeout 300s --db "$db" --runs "$dir/runs" --time-limit "${left}s"
	fi
}

profiles() {
	local program file
	mkdir -p "$dir/profiles"
	for program in $programs; do
		file=$dir/profiles/$program.csv
		[ ! -e "$file" ] || continue
		[ "$(left)" -gt 120 ] || return 4
		bin/caserun profile --once --timeout 110s --name "torch-$program" --devices "${DEVICE:-0}" --runs "$dir/runs" -- "torch/$program.py" \
			>"$file.part" && mv "$file.part" "$file" || return 1
	done
	awk 'FNR > 1 || NR == 1' "$dir"/profiles/*.csv >"$dir/profiles.csv"
}

status=0
for step in "$@"; do
	case $step in
	native)
		# shellcheck disable=SC2046 # a command each
		native $(printf 'torch/%s.py ' $programs) &&
			native "frameworks/move.py 1" "frameworks/move.py 2" "frameworks/move.py 3"
		;;
	moves:*) sweep "$step" benchmarks/frameworks/moves.yaml "${step#moves:}" "${MOVES_CAP:-7GiB}" ;;
	profiles) profiles ;;
	kinds-alone) python3 benchmarks/frameworks/alone.py "$dir" "$(left)" "${DEVICE:-0}" ;;
	kinds:*) sweep "$step" benchmarks/frameworks/kinds.yaml "${step#kinds:}" "$cap" ;;
	*) sweep "$step" "$mix" "$step" "$cap" ;;
	esac
	ended=$?
	if [ $ended != 0 ]; then
		status=$ended
		[ "$(left)" -gt 60 ] || break
	fi
done
python3 benchmarks/frameworks/outcomes.py "$dir" >"$dir/outcomes.txt"
ended=$?
cat "$dir/outcomes.txt"
[ $status != 0 ] || status=$ended
exit $status
