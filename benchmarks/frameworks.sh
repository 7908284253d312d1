#!/usr/bin/env bash
# Runs programs of frameworks under several schedulers on one GPU that is limited to 16 GiB, all at once, with nothing stated of them.
#
#   benchmarks/frameworks.sh DIR [STEP...]
#
# A call does what is left of these steps, in the order in which they are named; all by default:
#
#   native           the eight programs of M-mixed at once without caserun, whose results are those that the others must have
#   SCHEDULER        M-mixed under a scheduler, REPS times: sa, case-alg3, schedgpu, vgpu:n=4, demand
#   kinds-alone      JAX, CuPy, Triton, and PyTorch with other allocators (benchmarks/frameworks/kinds.yaml), one after another
#                    under case-alg3: what is charged, and what the device shows
#   kinds:SCHEDULER  the same at once under a scheduler, REPS times
#
# All is in DIR. DIR/outcomes.txt has the outcomes of jobs, whether their results are the native ones, restarts, and bytes above the
# charge. A call that is stopped loses only the run that it was making.
#
# Environment:
#   LIMIT    seconds, 520: no run starts that is expected to end later
#   REPS     3; a later call with more makes the missing ones
#   MIX      M-mixed
#   MEM_CAP  16GiB
#   DEVICE   0
#
# Needs bin/caserun, make native, and a python3 with PyTorch; kinds also JAX, CuPy and Triton. Exit status: 0 all steps are done;
# 1 a job did not end ok, or its result is another than natively; 4 time is up, call again; else as caserun sweep.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 1 ] || { echo "usage: benchmarks/frameworks.sh DIR [STEP...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- native sa case-alg3 schedgpu vgpu:n=4 demand kinds-alone kinds:case-alg3
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd)
db=$dir/frameworks.db mix=${MIX:-M-mixed} limit=${LIMIT:-520}
programs="cnn decode diffusion embedding graphnet graphs tabular transformer"
export PYTHONDONTWRITEBYTECODE=1

left() { echo $((limit - SECONDS)); }

# native keeps what each program prints in DIR/native, once it has ended well.
native() {
	local program began=$SECONDS pids=() failed=0
	[ ! -e "$dir/native/done" ] || return 0
	[ "$(left)" -gt 120 ] || return 4
	mkdir -p "$dir/native"
	for program in $programs; do
		CUDA_VISIBLE_DEVICES=${DEVICE:-0} timeout "$(left)" "benchmarks/torch/$program.py" >"$dir/native/$program.out" 2>"$dir/native/$program.err" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
	tail -qn 1 "$dir"/native/*.err
	echo "native: $((SECONDS - began)) s"
	[ $failed = 0 ] && touch "$dir/native/done"
}

# sweep NAME MIX SCHEDULER makes the repetitions that a sweep lacks.
sweep() {
	local number='' left
	left=$(left)
	[ "$left" -gt 60 ] || return 4
	[ ! -e "$db" ] || number=$(bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$1" '$2 == name { print $1 }')
	if [ -n "$number" ]; then
		bin/caserun sweep --resume "$number" --reps "${REPS:-3}" --db "$db" --time-limit "${left}s"
	else
		bin/caserun sweep --mixes "$2" --scheds "$3" --name "$1" --tag frameworks --mem-cap "${MEM_CAP:-16GiB}" --devices "${DEVICE:-0}" --require-live \
			--reps "${REPS:-3}" --warmups 0 --timeout 300s --db "$db" --runs "$dir/runs" --time-limit "${left}s"
	fi
}

status=0
for step in "$@"; do
	case $step in
	native) native ;;
	kinds-alone) python3 benchmarks/frameworks/alone.py "$dir" "$(left)" "${DEVICE:-0}" ;;
	kinds:*) sweep "$step" benchmarks/frameworks/kinds.yaml "${step#kinds:}" ;;
	*) sweep "$step" "$mix" "$step" ;;
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
