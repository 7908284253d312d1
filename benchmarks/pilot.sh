#!/usr/bin/env bash
# Measures PILOT's programs on one GPU: what stop points cost, and what policies do for jobs that disturb each other's memory.
#
#   benchmarks/pilot.sh DIR [STEP...]
#
# A call does what is left of these steps, in the order in which they are named; all by default:
#
#   verify           each program at each size with --verify, and with stop points and without: checksums are equal
#   table1           Table I: kernel times with and without stop points, REPS times in turn: DIR/table1.csv
#   MIX:PERCENT      a mix of the catalog whose footprints are PERCENT of the device, under SCHEDS, REPS times: P-fig4-* and
#                    P-fig5-* at 75, 100 and 150, and P-fig2-* at 4.8 GiB (P-fig2-1g:blocked). Managed memory that does not fit,
#                    as in P-fig4-bfs-managed:102, is for simulated nodes only
#   fig1:N           N vectoradd at once, for Figure 1
#   for-ever:NAME    P-fig4-NAME at 150 with a pagedos whose kernel ends only when it is stopped, under FOR_EVER
#
# All is in DIR. A call that is stopped loses only the run that it was making. One DIR is for one build of caserun.
#
# Environment:
#   LIMIT     seconds, 520: no run starts that is expected to end later
#   REPS      7; a later call with more makes the missing ones
#   SCHEDS    sa, demand with wait=1s, mfit and amfit with wait=100ms beside pagedos and else 1s, because programs run for about a second,
#             mfit with estimate=allocated as in the paper, madvise, and quantum, or zero with managed memory
#   FOR_EVER  mfit,amfit
#   DEVICE    0
#   NODE      a simulated node such as sim:1xH200: then only MIX:PERCENT, fig1:N and for-ever:NAME. By default all of the first two, with managed
#             memory too
#   SUITE     bin/suite
#   CONTEXT   bytes of a context, 603979776: a run charges each process so many
#
# Needs bin/caserun, make native, and make -C benchmarks/pilot with STOP=1 and with STOP=0. Exit status: 0 all steps are done; 1 a job
# did not end ok, or a checksum differs; 2 usage, not built, or DIR has runs of another build; 4 time is up, call
# again; else as caserun sweep.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 1 ] || { echo "usage: benchmarks/pilot.sh DIR [STEP...]" >&2; exit 2; }
dir=$1
shift
programs="backprop bfs hs3d partfilter lavamd nn gaussian corr gesummv 2dconvol"
if [ $# = 0 ]; then
	[ -n "${NODE:-}" ] || set -- verify table1
	for n in 1 2 4 8 16 32; do set -- "$@" "fig1:$n"; done
	for mix in $(printf 'fig4-%s ' $programs) fig5-corr-backprop fig5-hs3d-2dconvol fig5-bfs-2dconvol fig5-bfs-nn; do
		set -- "$@" "P-$mix:75" "P-$mix:100" "P-$mix:150" "P-$mix-managed:75"
		[ -z "${NODE:-}" ] || set -- "$@" "P-$mix-managed:102" "P-$mix-managed:150"
	done
	set -- "$@" P-fig2-1g:blocked P-fig2-5g:blocked P-fig2-10g:blocked P-fig2-1g-managed:blocked
	if [ -n "${NODE:-}" ]; then
		set -- "$@" P-fig2-5g-managed:blocked P-fig2-10g-managed:blocked
	else
		for program in $programs; do set -- "$@" "for-ever:$program"; done
	fi
fi
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd)
db=$dir/pilot.db limit=${LIMIT:-520} suite=${SUITE:-bin/suite}
build=$(cat bin/caserun $([ -n "${NODE:-}" ] || echo native/lazy/libcase.so) | sha256sum) || { echo "pilot.sh: not built: run make build native" >&2; exit 2; }
if [ -e "$dir/build" ] && [ "$(cat "$dir/build")" != "$build" ]; then
	echo "pilot.sh: $dir has runs of another build of caserun: name another DIR, or remove it" >&2
	exit 2
fi
echo "$build" >"$dir/build"

left() { echo $((limit - SECONDS)); }

# once FOLDER PROGRAM SIZE OPTIONS... runs a program on the device; what it printed is in DIR/last.
once() {
	local folder=$1 program=$2 size=$3
	shift 3
	[ "$(left)" -gt 60 ] || return 4
	CUDA_VISIBLE_DEVICES=${DEVICE:-0} timeout "$(left)" $suite/$folder/$program --size $size "$@" >"$dir/last" 2>&1 && return
	echo "$folder/$program --size $size $*: exit status $?: $(tail -n 1 "$dir/last")" >&2
	return 1
}

# verify writes a line "PROGRAM SIZE ok" to DIR/verify for each that is right.
verify() {
	local program size first status=0 ended
	touch "$dir/verify"
	for program in $programs vectoradd; do
		for size in sm md lg; do
			grep -q "^$program $size ok$" "$dir/verify" && continue
			once pilot $program $size --verify && first=$(grep checksum "$dir/last") && once pilot-plain $program $size --verify
			ended=$?
			[ $ended != 4 ] || return 4
			if [ $ended = 0 ] && [ "$first" = "$(grep checksum "$dir/last")" ]; then
				echo "$program $size ok" >>"$dir/verify"
			else
				echo "$program $size: wrong, or another checksum without stop points" >&2
				status=1
			fi
		done
	done
	return $status
}

# table1 appends kernel times to DIR/table1.csv, and prints the ratio of the medians for each program and size.
table1() {
	local program size rep folder
	[ -e "$dir/table1.csv" ] || echo "program,size,rep,build,kernels_s" >"$dir/table1.csv"
	for ((rep = 1; rep <= ${REPS:-7}; rep++)); do
		for program in $programs; do
			for size in sm md lg; do
				for folder in pilot pilot-plain; do
					! grep -q "^$program,$size,$rep,$folder," "$dir/table1.csv" || continue
					once $folder $program $size --phases || return
					awk -v row="$program,$size,$rep,$folder" '$1 == "phase" && $2 == "kernels" { s += $3 } END { print row "," s }' "$dir/last" >>"$dir/table1.csv"
				done
			done
		done
	done
	python3 benchmarks/pilot/table1.py "$dir/table1.csv"
}

# cap MIX PERCENT is the device's memory of which the footprints of a mix, beside their contexts and the MPS server, are so much.
cap() {
	if [ "$2" = blocked ]; then # 85 % of 32 GiB are
		echo $((4915 << 20))
		return
	fi
	bin/caserun mixes show "$1" --format csv | awk -F, -v percent="$2" -v context="${CONTEXT:-603979776}" '
		NR == 1 { for (i = 1; i <= NF; i++) if ($i ~ /^memory/) column = i; next }
		{ bytes += $column; jobs++ }
		END { printf "%.0f\n", bytes * 100 / percent + jobs * context + 128 * 1048576 }'
}

# sweep NAME MIX SCHEDULERS [CAP] makes the repetitions that a sweep lacks.
sweep() {
	local number='' left where=(--devices "${DEVICE:-0}" --require-live --no-footprints --timeout 120s)
	left=$(left)
	[ "$left" -gt 60 ] || return 4
	[ -z "${NODE:-}" ] || where=(--node "$NODE") # where a thrashing job may take a day
	[ ! -e "$db" ] || number=$(bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$1" '$2 == name { print $1 }')
	if [ -n "$number" ]; then
		bin/caserun sweep --resume "$number" --reps "${REPS:-7}" --db "$db" --time-limit "${left}s"
	else
		bin/caserun sweep --mixes "$2" --scheds "$3" --name "$1" --tag pilot ${4:+--mem-cap "$4"} "${where[@]}" \
			--reps "${REPS:-7}" --warmups 0 --db "$db" --runs "$dir/runs" --time-limit "${left}s"
	fi
}

# forever NAME is P-fig4-NAME whose pagedos has one launch.
forever() {
	local mix=$dir/for-ever-$1.yaml size
	size=$(bin/caserun mixes show "P-fig4-$1" --format csv | sed -n 's/.*pagedos --size \([^ ]*\) .*/\1/p')
	printf 'name: for-ever-%s\njobs:\n  - pilot-%s\n  - {program: pilot/pagedos, args: --size %s, until_others_end: true}\n' "$1" "$1" "$size" >"$mix"
	sweep "for-ever:$1" "$mix" "${FOR_EVER:-mfit,amfit}" "$(cap "P-fig4-$1" 150)"
}

# fig1 N has N vectoradd at once.
fig1() {
	local mix=$dir/P-fig1-$1.yaml
	printf 'name: P-fig1-%s\ndescription: %s vectoradd at once (PILOT Fig. 1)\njobs:\n  - {job: pilot-vectoradd, count: %s}\n' "$1" "$1" "$1" >"$mix"
	sweep "fig1:$1" "$mix" cg:workers=32,zero,demand
}

# policies MIX are the schedulers of a mix. Programs of about a second run beside pagedos, which waits for 10 s by its own limit, or
# beside one another.
policies() {
	local wait=100ms of_pilot
	[[ $1 != P-fig5-* ]] || wait=1s
	of_pilot=pilot-base:=demand:wait=1s,pilot-mfit:=mfit:wait=$wait,estimate=allocated,pilot-amfit:=amfit:wait=$wait,madvise
	case $1 in
	*-managed) echo "${SCHEDS:-sa,zero,$of_pilot}" ;;
	*) echo "${SCHEDS:-sa,$of_pilot,quantum}" ;;
	esac
}

status=0
for step; do
	case $step in
	verify | table1) $step ;;
	for-ever:*) forever "${step#*:}" ;;
	fig1:*) fig1 "${step#*:}" ;;
	P-*:*) sweep "$step" "${step%%:*}" "$(policies "${step%%:*}")" "$(cap "${step%%:*}" "${step#*:}")" ;;
	*) echo "pilot.sh: no step $step" >&2; exit 2 ;;
	esac
	ended=$?
	if [ $ended != 0 ]; then
		status=$ended
		[ "$(left)" -gt 60 ] || break
	fi
done
exit $status
