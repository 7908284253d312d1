#!/usr/bin/env bash
# Makes the runs of the dissertation's figures of its cluster scheduler, for caserun paper cluster. All are SIMULATED.
#
#   benchmarks/cluster.sh DIR [STEP...]
#
# A call does what is left of these steps, in the order in which they are named; all by default:
#
#   fig2    a job of 8 ranks on one to three nodes
#   fig3    6 jobs, each on one to three nodes at most
#   fig4    6 jobs with weights of the nodes
#   fig5    the workloads of Table 4-5, and each of their jobs alone
#   orders  the workloads in all orders
#
# All but orders is also made with half and double of the GPU times, which are estimated.
#
# All is in DIR. A call that is stopped loses only the run that it was making. One DIR is for one build of caserun.
#
# Environment:
#   LIMIT     seconds, 520: no run starts that is expected to end later
#   REPS      7, of orders always 3; a later call with more makes the missing ones
#
# Needs bin/caserun. Exit status: 0 all runs were made; 2 usage, not built, or DIR has runs of another build; 4 time is up, call again;
# else as caserun sweep.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 1 ] || { echo "usage: benchmarks/cluster.sh DIR [STEP...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- fig2 fig3 fig4 fig5 orders
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd)
db=$dir/cluster.db limit=${LIMIT:-520}
build=$(sha256sum <bin/caserun) || { echo "cluster.sh: not built: run make build" >&2; exit 2; }
if [ -e "$dir/build" ] && [ "$(cat "$dir/build")" != "$build" ]; then
	echo "cluster.sh: $dir has runs of another build of caserun: name another DIR, or remove it" >&2
	exit 2
fi
echo "$build" >"$dir/build"

# The nodes of Tables 4-3 and 4-4, behind Gigabit Ethernet.
high_end=sim:1x4xGTX480@nic=1Gb:1x1xK40c+1xC2075+1xC2070@nic=1Gb:1x1xK20c+1xC2050@nic=1Gb
commodity=sim:5x1xQuadro2000@nic=1Gb:3x1xGTX460@nic=1Gb

# sweep NAME NODE MIXES SCHEDULER... makes the repetitions that a sweep lacks.
sweep() {
	local name=$1 node=$2 mixes=$3 scheds number='' reps=${REPS:-7} left=$((limit - SECONDS))
	shift 3
	scheds=$(IFS=,; echo "$*")
	[ "$left" -gt 10 ] || return 4
	[ ! -e "$db" ] || number=$(bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$name" '$2 == name { print $1 }')
	if [ -n "$number" ]; then
		bin/caserun sweep --resume "$number" --reps "$reps" --db "$db" --time-limit "${left}s"
	else
		bin/caserun sweep --mixes "$mixes" --scheds "$scheds" --name "$name" --tag cluster --node "$node" --jobs 2 \
			--reps "$reps" --warmups 0 --db "$db" --runs "$dir/runs" --time-limit "${left}s"
	fi
}

# each MIX... prints the mixes with commas, also with half and double of the GPU times.
each() {
	local mix list=''
	for mix; do list=$list,$mix,$mix-half,$mix-double; done
	echo "${list#,}"
}

# heads HEAD... prints the schedulers with these heads.
heads() { printf '%s/vgpu-preempt:n=4\n' "$@"; }

do_step() {
	local fig3 fig5a fig5b
	fig3=$(each C-fig3-mm C-fig3-nw C-fig3-adfa)
	fig5a="cluster-batch/vgpu:n=1 $(heads coloc:weights=8:4:4 latency:weights=8:4:4)"
	fig5b="cluster-batch/vgpu:n=1 $(heads coloc:weights=sms latency:weights=sms)"
	# shellcheck disable=SC2046,SC2086 # schedulers are words
	case $1 in
	fig2) sweep fig2 $high_end "$(each C-fig2-mm C-fig2-nw C-fig2-adfa)" $(heads coloc:nodes=1,weights={8:1:1,1:8:1,1:1:8} coloc:nodes=2,weights={4:4:1,5:3:1} coloc:nodes=3,weights={4:3:1,3:3:2}) ;;
	fig3) sweep fig3a $high_end "$fig3" $(heads coloc:nodes={1,2,3}) && sweep fig3b $commodity "$fig3" $(heads coloc:nodes={1,2,3}) ;;
	fig4) sweep fig4a $high_end "$fig3" $(heads coloc coloc:weights={4:8:4,8:4:4}) && sweep fig4b $commodity "$fig3" $(heads coloc coloc:weights=sms) ;;
	fig5)
		local alone=(C-alone-mm C-alone-nw C-alone-adfa)
		sweep fig5a $high_end "$(each C-fig5a "${alone[@]}")" $fig5a && sweep fig5b $commodity "$(each C-fig5b "${alone[@]}")" $fig5b
		;;
	orders) REPS=3 sweep orders-a $high_end 'C-fig5a-*' $fig5a && REPS=3 sweep orders-b $commodity 'C-fig5b-*' $fig5b ;;
	*) echo "cluster.sh: no step $1" >&2; exit 2 ;;
	esac
}

status=0
for step; do
	do_step "$step"
	ended=$?
	if [ $ended != 0 ]; then
		status=$ended
		[ $((limit - SECONDS)) -gt 10 ] || break
	fi
done
exit $status
