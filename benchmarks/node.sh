#!/usr/bin/env bash
# Makes the runs of the dissertation's figures of one node and of two, for caserun paper node: sharing, swapping, balancing and preemption.
#
#   benchmarks/node.sh DIR [STEP...]
#
# A call does what is left of these steps, in the order in which they are named; all that the node can have by default:
#
#   fig7            short jobs on one GPU, beside bare CUDA
#   fig8            the same on several GPUs
#   fig9 fig10      MM-L with more work of the host, and among BS-L
#   fig11           MM-S on unequal GPUs, with and without load balancing
#   fig14           4 jobs of ranks that send to all, under five schedulers
#   fig15 to fig20  4 jobs of ranks with broadcast, scatter-gather and barriers, in turn
#   meeting         jobs whose ranks may never meet, all at once
#   fig12 fig13     short jobs, and BS-L and MM-L, on two nodes with and without offloading
#   fig21           8 jobs of ranks on two nodes
#   pairs           4 jobs of 2 ranks with barriers, one rank 10 to 50 % slower: fig17 for two GPUs
#
# All is in DIR. A call that is stopped loses only the run that it was making. One DIR is for one build of caserun.
#
# Environment:
#   NODE      sim: each step on the dissertation's node, simulated. A simulated node such as sim:2xH200: the steps there.
#             By default this machine's GPUs: fig7, and with two GPUs fig8, fig9, fig10 and pairs
#   LIMIT     seconds, 520: no run starts that is expected to end later
#   REPS      7, or 1 if simulated; a later call with more makes the missing ones
#   DEVICES   0,1
#
# Needs bin/caserun; for GPUs make native and make cuda, too. Exit status: 0 all runs were made; 2 usage, not built, or DIR has runs of
# another build; 4 time is up, call again; else as caserun sweep.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 1 ] || { echo "usage: benchmarks/node.sh DIR [STEP...]" >&2; exit 2; }
dir=$1
shift
node=${NODE:-} devices=${DEVICES:-0,1}
if [ $# = 0 ]; then
	case $node,$devices in
	sim,*) set -- fig7 fig8 fig9 fig10 fig11 fig12 fig13 fig14 fig15 fig16 fig17 fig18 fig19 fig20 fig21 meeting pairs ;;
	,*,*) set -- fig7 fig8 fig9 fig10 pairs ;;
	,*) set -- fig7 ;;
	*) echo "node.sh: name the steps to make on $node" >&2; exit 2 ;;
	esac
fi
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd)
db=$dir/node.db limit=${LIMIT:-520}
build=$(cat bin/caserun $([ -n "$node" ] || echo native/lazy/libcase.so) | sha256sum) || { echo "node.sh: not built: run make build native" >&2; exit 2; }
if [ -e "$dir/build" ] && [ "$(cat "$dir/build")" != "$build" ]; then
	echo "node.sh: $dir has runs of another build of caserun: name another DIR, or remove it" >&2
	exit 2
fi
echo "$build" >"$dir/build"

left() { echo $((limit - SECONDS)); }

# sweep NAME NODE MIXES SCHEDULERS [OPTION...] makes the repetitions that a sweep lacks. NODE is the dissertation's.
sweep() {
	local name=$1 published=$2 mixes=$3 scheds=$4 number='' reps=${REPS:-7} left where=()
	shift 4
	left=$(left)
	[ "$left" -gt 60 ] || return 4
	case $node in
	'') where=(--devices "$([ "$published" = sim:1xC2050 ] && echo "${devices%%,*}" || echo "$devices")" --require-live --no-footprints --timeout 300s) ;;
	sim) where=(--node "$published" --jobs 2) reps=${REPS:-1} ;;
	*) where=(--node "$node" --jobs 2) reps=${REPS:-1} ;;
	esac
	[ ! -e "$db" ] || number=$(bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$name" '$2 == name { print $1 }')
	if [ -n "$number" ]; then
		bin/caserun sweep --resume "$number" --reps "$reps" --db "$db" --time-limit "${left}s"
	else
		bin/caserun sweep --mixes "$mixes" --scheds "$scheds" --name "$name" --tag node "${where[@]}" "$@" \
			--reps "$reps" --warmups 0 --db "$db" --runs "$dir/runs" --time-limit "${left}s"
	fi
}

# ranks NAME NODE MIXES SCHEDULERS does so with all jobs at once, and with one after the other, which is batch scheduling.
ranks() {
	sweep "$1" "$2" "$3" "$4" && sweep "$1-batch" "$2" "$3" vgpu:n=1 --workers 1
}

# pairs writes a mix for each imbalance, and prints their names with commas.
pairs() {
	local by mix mixes=''
	for by in 10 20 30 40 50; do
		mix=$dir/N-pairs-$by.yaml mixes=$mixes,$mix
		printf 'name: N-pairs-%s\njobs:\n' "$by" >"$mix"
		for slow in 0 1 0 1; do
			printf '  - {program: node/synth, args: "--verify --communication barrier --gpu-time 0.3 --iterations 10 --uneven %s --by 0.%s", memory: 12582936, blocks: 1056, threads_per_block: 256, ranks: 2}\n' "$slow" "$by" >>"$mix"
		done
	done
	echo "${mixes#,}"
}

slots=vgpu:n=1,vgpu:n=2,vgpu:n=4,vgpu:n=8
five=vgpu:n=2,vgpu:n=4,vgpu-preempt:n=1,vgpu-preempt:n=2
three=sim:2xC2050+1xC1060 four=sim:4xGTX480
cap=() # MM-L has its 3 GiB, and contexts
[ -n "$node" ] || cap=(--mem-cap 5.8GiB)

do_step() {
	case $1 in
	fig7) sweep fig7 sim:1xC2050 'N-fig7-*' "zero,$slots" ;;
	fig8) sweep fig8 $three 'N-fig8-*' "zero,$slots" ;;
	fig9 | fig10) sweep "$1" $three "N-$1-*" vgpu:n=1,vgpu:n=4 "${cap[@]}" ;;
	fig11) sweep fig11 sim:2xC2050+1xQuadro2000 'N-fig11-*' vgpu:n=4,vgpu:n=4,balance=on ;;
	fig12 | fig13) sweep "$1" sim:1x2xC2050+1xC1060@nic=1Gb:1x1xC1060@nic=1Gb "N-$1-*" cluster-rr/vgpu:n=1,cluster-rr/vgpu:n=4,cluster-rr+offload:threshold=0/vgpu:n=4 ;;
	fig21) sweep fig21 sim:1x4xGTX480@nic=1Gb:1x1xC2050+1xC2070+1xC2075@nic=1Gb 'N-fig21-*' cluster-batch/vgpu:n=1,cluster-rr/vgpu:n=4,cluster-rr/vgpu-preempt:n=2 ;;
	fig14) ranks fig14 $four 'N-fig14a-*,N-fig14b-*' $five ;;
	fig1[5-9] | fig20) ranks "$1" $four "N-$1-*" vgpu:n=4,vgpu-preempt:n=2 ;;
	meeting) sweep meeting $four 'N-fig16-*,N-fig19-*' vgpu:n=1,vgpu:n=2,vgpu-preempt:n=1 && sweep meeting-8 $four N-fig21-8 "vgpu:n=1,$five" ;;
	pairs) ranks pairs sim:2xH200 "$(pairs)" $five ;;
	*) echo "node.sh: no step $1" >&2; exit 2 ;;
	esac
}

status=0
for step; do
	do_step "$step"
	ended=$?
	if [ $ended != 0 ]; then
		status=$ended
		[ "$(left)" -gt 60 ] || break
	fi
done
exit $status
