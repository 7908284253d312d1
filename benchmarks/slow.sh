#!/usr/bin/env bash
# Measures on two equal GPUs what load balancing gains where one is slowed (docs/design/slow.md), and what draining a device takes.
#
#   benchmarks/slow.sh DIR [STEP...]
#
# A call does what is left of these steps, in the order in which they are named, and prints a line for each. All are the default, and take
# about three minutes on two H200s.
#
#   share     how much longer the kernels of a job take with a quarter of the SMs
#   kill      how long the program that holds SMs lives once caserun has been killed
#   balance   throughput of six jobs, with one GPU slowed to a quarter, with load balancing over that without
#   drain     how long it takes until a GPU is empty that is taken out of a run of six jobs, and whether all jobs end ok
#
# All is in DIR: the store slow.db, and the line of each step in STEP.txt. One DIR is for one build of caserun.
#
# Environment:
#   PRODUCTS  2000: how many products of 2000 x 2000 each job of MM-S makes. Its host works as long as its kernels
#   MIX       a mix in place of six such jobs. Then share is left out. On fake GPUs, which have no MPS, only drain can be done:
#             MIX=native/fake-node.yaml AFTER=0.2 native/fake-node benchmarks/slow.sh DIR drain
#   SCHED     vgpu:n=4
#   BALANCED  the same with balance=on
#   SLOW      1=0.25
#   SWAP      4GiB
#   DEVICES   0,1
#   REPS      3: runs of each arm of balance, which are interleaved
#   AFTER     4: seconds of a run after which a device is drained, or caserun is killed
#   LIMIT     seconds, 520: balance, which takes less than two minutes on two H200s, begins only if it ends by then
#
# Needs bin/caserun, make native, make cuda, and MPS. Exit status: 0 all steps were done, and what they show is so; 1 it is not; 2 usage, or
# not built; 4 time is up, call again; else as caserun.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
[ $# -ge 1 ] || { echo "usage: benchmarks/slow.sh DIR [STEP...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- $([ -n "${MIX:-}" ] || echo share) kill balance drain
mkdir -p "$dir" || exit 2
dir=$(cd "$dir" && pwd)
[ -x bin/caserun ] || { echo "slow.sh: not built: run make build native" >&2; exit 2; }
db=$dir/slow.db products=${PRODUCTS:-2000} sched=${SCHED:-vgpu:n=4} slow=${SLOW:-1=0.25} devices=${DEVICES:-0,1} mix=${MIX:-$dir/MM-S.yaml}

# mm NAME PRODUCTS COUNT writes a mix of MM-S.
mm() {
	cat >"$dir/$1.yaml" <<-MIX
		name: $1
		jobs:
		  - {program: node/mm, args: "--size 2000 --products $2 --verify --cpu-fraction 1", name: mm-s, memory: 48032024, blocks: 256, threads_per_block: 256, count: $3}
	MIX
}

options=(--node local --no-footprints --swap "${SWAP:-4GiB}" --timeout 120s --db "$db" --runs "$dir/runs")

# run TAG MIX [OPTION...] makes a run.
run() {
	local tag=$1 mix=$2
	shift 2
	bin/caserun mix "$mix" --sched "$sched" --tag "$tag" "${options[@]}" "$@"
}

# under_way TAG waits until the run with a tag, which is made in the background, has been under way for AFTER seconds.
under_way() {
	until bin/caserun report --tag "$1" --db "$db" --format csv 2>/dev/null | grep -q ',running,'; do
		kill -0 $! 2>/dev/null || { echo "slow.sh: no run for $1: see $dir/$1.log" >&2; return 1; }
		sleep 0.1
	done
	sleep "${AFTER:-4}"
}

# last COLUMN is its value in the last row of a CSV file.
last() {
	awk -F, -v name="$1" '{ gsub(/"[^"]*"/, "") } NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } END { print $at }'
}

# latest TAG [COLUMN] is of the last run with a tag: its number by default.
latest() { bin/caserun report --tag "$1" --db "$db" --format csv | last "${2:-run_id}"; }

# tables TAG writes the store's tables of the last run with a tag, or of all, to DIR/csv.
tables() { bin/caserun export --tag "$1" "${@:2}" --db "$db" --csv "$dir/csv" --force >/dev/null 2>&1; }

# kernels_of TAG says how long the kernels of its job took, in seconds.
kernels_of() { sed -n 's/^kernels \([0-9.]*\) s.*/\1/p' "$dir/runs/run-$(latest "$1")"-*/job-*.err; }

share() {
	mm one "$((products / 4))" 1
	run share-whole "$dir/one.yaml" --devices "${devices%%,*}" && run share-slow "$dir/one.yaml" --devices "${devices%%,*}" --slow "0=${slow#*=}" || return
	awk -v whole="$(kernels_of share-whole)" -v part="$(kernels_of share-slow)" -v share="${slow#*=}" 'BEGIN {
		printf "share: with %g of the SMs kernels take %.3f s, with all %.3f s: %.2f times as long\n", share, part, whole, part / whole
	}'
}

kill_caserun() {
	local holder began
	bin/caserun mix "$mix" --sched "$sched" --tag kill "${options[@]}" --devices "$devices" --slow "$slow" >"$dir/kill.log" 2>&1 &
	under_way kill || return
	holder=$(pgrep -P $! -x slow) || { echo "slow.sh: no program holds SMs: see $dir/kill.log" >&2; return 1; }
	began=$(date +%s%N)
	kill -9 $!
	while [ -e "/proc/$holder/exe" ]; do sleep 0.002; done # a zombie has none
	echo "kill: the program that held SMs ended $((($(date +%s%N) - began) / 1000000)) ms after caserun was killed"
}

balance() {
	local number ratio
	[ $((${LIMIT:-520} - SECONDS)) -gt 120 ] || return 4
	number=$(bin/caserun sweep list --db "$db" --format csv 2>/dev/null | awk -F, '$2 == "balance" { print $1 }')
	if [ -n "$number" ]; then
		bin/caserun sweep --resume "$number" --reps "${REPS:-3}" --db "$db" || return
	else
		bin/caserun sweep --mixes "$mix" --scheds "$sched,${BALANCED:-$sched,balance=on}" --name balance --tag balance "${options[@]}" \
			--devices "$devices" --slow "$slow" --reps "${REPS:-3}" --warmups 0 || return
	fi
	ratio=$(bin/caserun compare tag:balance --db "$db" --metrics throughput --format csv | last throughput_ratio)
	tables balance
	awk -v ratio="$ratio" -v moves="$(grep -c ',move,done,' "$dir/csv/swap.csv")" 'BEGIN {
		printf "balance: %.2f times the throughput (wanted: 1.2), with %d moves\n", ratio, moves
		exit ratio < 1.2
	}'
}

drain() {
	local status
	run drain "$mix" --devices "$devices" >"$dir/drain.log" 2>&1 &
	under_way drain && bin/caserun drain latest 1 --db "$db"
	status=$?
	wait $! || status=$?
	tables drain --last 1
	awk -F, -v status=$status -v jobs="$(latest drain jobs)" -v ok="$(latest drain jobs_ok)" '
		$5 == "device-closed" { closed = $4; n++ }
		$5 == "device-empty" { empty = $4; n++ }
		END {
			printf "drain: device 1 was taken out after %.2f s, and was empty %.3f s later; %d of %d jobs ended ok\n", closed, empty - closed, ok, jobs
			exit status != 0 || n != 2 || ok != jobs
		}' "$dir/csv/event.csv"
}

[ -n "${MIX:-}" ] || mm MM-S "$products" 6
status=0
for step; do
	case $step in
	share | balance | drain) do=$step ;;
	kill) do=kill_caserun ;;
	*) echo "slow.sh: no step $step" >&2; exit 2 ;;
	esac
	if [ ! -s "$dir/$step.txt" ]; then
		$do >"$dir/$step.new"
		ended=$?
		grep -v "^$step: " "$dir/$step.new" >&2
		grep "^$step: " "$dir/$step.new" >"$dir/$step.line" || { status=$ended; continue; }
		[ "$ended" = 0 ] || { status=$ended; sed 's/$/ NOT AS WANTED/' -i "$dir/$step.line"; }
		mv "$dir/$step.line" "$dir/$step.txt"
	fi
	cat "$dir/$step.txt"
done
exit $status
