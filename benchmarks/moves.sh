#!/usr/bin/env bash
# Measures on two GPUs how processes move between them and give way: what docs/design/movable-memory.md and docs/reference/schedulers.md promise.
#
#   benchmarks/moves.sh DIR [STEP...]
#
# A call does what is left of these steps, in the order in which they are named; all by default:
#
#   random         programs that are moved at random moments under MPS, until MOVES moves are done: they print what they print alone
#   random-no-mps  the same without MPS
#   large          a program with 8 GiB that is moved between its kernels: how long a move takes, with a context there and without
#   idle           programs that want the GPU on which one with 4 GiB is idle: how long they wait for its slot. One GPU
#   cap            12 programs of 1.1 GiB in memory for two of them, under vgpu with 1 and 4 slots. One GPU
#   pairs          4 jobs of 2 ranks with barriers, one rank 20 to 50 % slower, under vgpu and vgpu-preempt
#
# What each step has measured is in DIR/results. A step that is done is not done again. All else is in DIR, too. A call that is stopped loses only
# the run that it was making. One DIR is for one build of caserun.
#
# Environment:
#   LIMIT      seconds, 360: no run starts that is expected to end later
#   EACH       seconds, 100: no run of random starts later after its first
#   MOVES      200
#   REPS       3, of pairs; a later call with more makes the missing ones
#   TIMEOUT    20s: what a job of pairs may take. Ranks may never meet under vgpu
#   DEVICES    0,1
#   SUITE      bin/suite
#   SMALL      1: sizes for fake GPUs, as in
#              FAKE_CUDA_MEMORY=$((1 << 28)) SMALL=1 SUITE=DIR native/fake-node benchmarks/moves.sh DIR
#              where SUITE has what make -C benchmarks/node test leaves in build, as node/
#
# Needs bin/caserun, make native, make -C benchmarks/node, make -C benchmarks/movable and python3. Exit status: 0 all steps are done; 1 a job did not
# end ok, or printed something else; 2 usage, not built, or DIR has runs of another build; 4 time is up, call again; else as caserun.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 1 ] || { echo "usage: benchmarks/moves.sh DIR [STEP...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- random random-no-mps large idle cap pairs
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd)
db=$dir/moves.db limit=${LIMIT:-360} devices=${DEVICES:-0,1} suite=${SUITE:-bin/suite} small=${SMALL:-}
first=${devices%%,*}
build=$(cat bin/caserun native/lazy/libcase.so | sha256sum) || { echo "moves.sh: not built: run make build native" >&2; exit 2; }
[ -n "$small" ] || [ -x bin/movable/rounds ] || { echo "moves.sh: bin/movable/rounds is not built: run make -C benchmarks/movable" >&2; exit 2; }
[ -x "$suite/node/mm" ] || { echo "moves.sh: $suite/node/mm is not built: run make -C benchmarks/node" >&2; exit 2; }
if [ -e "$dir/build" ] && [ "$(cat "$dir/build")" != "$build" ]; then
	echo "moves.sh: $dir has runs of another build of caserun: name another DIR, or remove it" >&2
	exit 2
fi
echo "$build" >"$dir/build"
touch "$dir/results"

[ -z "$small" ] && grid='' || grid="--threads 32 --blocks 2"

left() { echo $((limit - SECONDS)); }

# of FULL SMALL prints the one that fits the GPUs.
of() { [ -z "$small" ] && echo "$1" || echo "$2"; }

# mix NAME KEYS... writes DIR/NAME.yaml with a job for each line of standard input: a program and its arguments. Each has these keys, too.
mix() {
	local name=$1 program arguments
	{
		printf 'name: %s\njobs:\n' "$name"
		while read -r program arguments; do
			printf '  - {program: %s, args: "%s"%s}\n' "$program" "$arguments" "${2:+, $2}"
		done
	} >"$dir/$name.yaml"
}

# run TAG MIX SCHEDULER DEVICES OPTION... is one run.
run() {
	local tag=$1 mix=$2 sched=$3 on=$4
	shift 4
	bin/caserun mix "$dir/$mix.yaml" --sched "$sched" --tag "$tag" --db "$db" --runs "$dir/runs" --suite "$suite" --devices "$on" \
		--require-live --no-footprints --timeout 60s "$@" >"$dir/last" 2>&1
	local ended=$?
	[ $ended = 0 ] || { echo "$tag: caserun ended with status $ended:" && tail -n 40 "$dir/last"; } >&2
	return $ended
}

# sweep NAME MIXES SCHEDULERS REPS OPTION... makes the repetitions that a sweep lacks.
sweep() {
	local name=$1 mixes=$2 scheds=$3 reps=$4 number='' left
	shift 4
	left=$(left)
	[ ! -e "$db" ] || number=$(bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$name" '$2 == name { print $1 }')
	if [ -n "$number" ]; then
		bin/caserun sweep --resume "$number" --reps "$reps" --db "$db" --time-limit "${left}s"
	else
		bin/caserun sweep --mixes "$mixes" --scheds "$scheds" --name "$name" --tag "$name" --reps "$reps" --warmups 0 --suite "$suite" \
			--require-live --no-footprints --db "$db" --runs "$dir/runs" --time-limit "${left}s" "$@"
	fi >"$dir/last" 2>&1
	local ended=$?
	[ $ended = 0 ] || [ $ended = 4 ] || { echo "$name: caserun ended with status $ended:" && tail -n 40 "$dir/last"; } >&2
	return $ended
}

answers() { python3 benchmarks/moves/answers.py "$db" "$@"; }

# programs has those that move: many short kernels, few long ones, variables, streams of the program's own.
programs() {
	cat <<-END
		node/mm --verify --cpu-fraction 1 $(of "--size 2000 --products 400" "--size 40 --products 60")
		node/mm --verify --cpu-fraction 1 $(of "--size 5793 --matrices 8 --products 50" "--size 60 --matrices 8 --products 40")
		node/synth --verify --cpu-fraction 1 $(of "--rounds 1000 --iterations 300" "--rounds 2 --iterations 40 --size 2000") $grid
		node/bs --verify --cpu-fraction 4 $(of "--size md" "--size 200 --repeats 20 --rounds 2") $grid
		node/mt --verify --cpu-fraction 4 $(of "" "--size 10 --repeats 20 --rounds 2") $grid
		node/pr --verify --cpu-fraction 4 $(of "" "--size 1000 --repeats 20 --rounds 2") $grid
		node/sc --verify --cpu-fraction 4 $(of "" "--size 500 --repeats 20 --rounds 2") $grid
		node/nw --verify --cpu-fraction 4 $(of "" "--size 40 --rounds 2") $grid
		node/bfs --verify --cpu-fraction 4 $(of "" "--size 1000 --rounds 2") $grid
		node/bp --verify --cpu-fraction 4 $(of "" "--size 100 --rounds 2") $grid
		node/va --verify $(of "--size md" "--size 10000 --rounds 2") $grid
		node/hs --verify $(of "" "--size 40 --rounds 2") $grid
		node/sp --verify $(of "" "--size 5120 --rounds 2") $grid
	END
	[ -n "$small" ] || printf 'bin/movable/%s\n' "rounds 80 1024 20" "stream --seconds 4"
}

# alone runs each of the programs without caserun, all at once, and keeps what they print.
alone() {
	local program arguments pids=() pid status=0 n=0
	mkdir -p "$dir/alone"
	while read -r program arguments; do
		[ -x "$program" ] || program=$suite/$program
		# shellcheck disable=SC2086 # words
		CUDA_VISIBLE_DEVICES=$first timeout 60 "$program" $arguments >"$dir/alone/$n" 2>"$dir/alone/$n.err" &
		pids+=($!) n=$((n + 1))
	done < <(programs)
	for pid in "${pids[@]}"; do
		wait "$pid" || { echo "a program ends alone with status $?: $(tail -q -n 1 "$dir"/alone/*.err)" >&2; status=1; }
	done
	return $status
}

# random TAG OPTION... makes runs until enough moves are done.
random() {
	local tag=$1 began=$SECONDS want=${MOVES:-200} status=0 ended
	shift
	programs | mix random
	[ -e "$dir/alone.done" ] || { alone && touch "$dir/alone.done"; } || return
	until answers enough "$tag" "$want" || [ $((SECONDS - began)) -ge "${EACH:-100}" ]; do
		[ "$(left)" -gt 30 ] || { status=4; break; }
		MOVES_MS=15 MOVES_SEED=$(answers runs "$tag") run "$tag" random exec:benchmarks/policies/moves.py "$devices" --workers 8 "$@"
		ended=$?
		[ $ended -le 1 ] || return $ended
	done
	answers random "$tag" "$want" "$dir" || [ $status != 0 ] || status=1
	return $status
}

# large moves a program with 8 GiB. Each of its three processes has no context on the other GPU at first.
large() {
	local i
	[ "$(left)" -gt 45 ] || return 4
	for i in 1 2 3; do
		of "bin/movable/rounds 100 8192 50" "node/mm --verify --size 120 --matrices 20 --products 20"
	done | mix large
	MOVES_MS=$(of 400 20) run large large exec:benchmarks/policies/moves.py "$devices" --workers 1 || return
	answers large large
}

# idle has a program that keeps 4 GiB and works on the host, and six that come and want its GPU.
idle() {
	local copy at status=0
	of "bin/movable/rounds 14 4096 700" "node/synth $grid --size 2000 --gpu-time 0.02 --cpu-fraction 20 --iterations 20" | mix idle
	for at in 2.5 3.5 4.5 5.5 6.5 7.5; do
		printf '  - {program: node/mt, args: "--verify %s", at: %ss, name: comes}\n' "$(of "--repeats 4" "--size 10 --repeats 4 --rounds 2 $grid")" $at
	done >>"$dir/idle.yaml"
	for copy in always needed; do
		[ "$(left)" -gt 40 ] || return 4
		run "idle-$copy" idle "vgpu-preempt:n=1,idle=10ms,copy=$copy" "$first" --workers 8 || status=1
		answers idle "idle-$copy" || status=1
	done
	return $status
}

# rounds is how many additions synth makes in GPU_TIME, measured alone.
rounds() {
	local tried=20000 file=$dir/rounds
	[ -z "$small" ] || { echo 2 && return; }
	if [ ! -s "$file" ]; then
		CUDA_VISIBLE_DEVICES=$first timeout 60 "$suite/node/synth" --rounds $tried --iterations 5 2>"$dir/synth.err" >"$dir/synth.out" || { cat "$dir/synth.err" >&2; return 1; }
		awk -v tried=$tried -v want="${GPU_TIME:-0.15}" '$1 == "kernels" && $2 > 0 { printf "%d\n", tried * want / ($2 / 5) }' "$dir/synth.err" >"$file"
	fi
	cat "$file"
}

# pairs has a mix for each imbalance.
pairs() {
	local by slow mixes='' rounds reps=${REPS:-3} ended
	[ "$(left)" -gt 30 ] || return 4
	rounds=$(rounds) || return
	for by in 20 30 40 50; do
		mixes=$mixes,$dir/pairs-$by.yaml
		for slow in 0 1 0 1; do
			echo "node/synth --verify --communication barrier --rounds $rounds --iterations $(of 6 10) --uneven $slow --by 0.$by $(of "" "--size 2000") $grid"
		done | mix "pairs-$by" "ranks: 2"
	done
	sweep pairs "${mixes#,}" vgpu:n=1,vgpu:n=2,vgpu:n=4,vgpu-preempt:n=1,vgpu-preempt:n=2 "$reps" --devices "$devices" --timeout "${TIMEOUT:-20s}"
	ended=$?
	answers pairs pairs
	bin/caserun compare tag:pairs --db "$db" --metrics makespan >"$dir/pairs.txt" 2>&1
	return $ended
}

# cap has a third of MM-L's products. The limit is 3 GiB, and contexts.
cap() {
	local fraction ended i
	[ "$(left)" -gt 40 ] || return 4
	for fraction in 0 1; do
		for ((i = 0; i < 12; i++)); do
			echo "node/mm --verify --cpu-fraction $fraction $(of "--products 3" "--size 120 --products 4")"
		done | mix "cap-$fraction"
	done
	sweep cap "$dir/cap-0.yaml,$dir/cap-1.yaml" vgpu:n=1,vgpu:n=4 1 --devices "$first" --mem-cap "$(of 5.8GiB 64MiB)" --timeout 60s
	ended=$?
	answers cap cap || [ $ended != 0 ] || ended=1
	return $ended
}

status=0
for step; do
	if [ "$step" != pairs ] && [ -e "$dir/$step.done" ]; then
		grep "^$step: " "$dir/results"
		continue
	fi
	began=$SECONDS
	case $step in
	random) random random ;;
	random-no-mps) random random-no-mps --no-mps ;;
	large | idle | cap | pairs) $step ;;
	*) echo "moves.sh: no step $step" >&2; exit 2 ;;
	esac >"$dir/step"
	ended=$?
	sed "s/^/$step: /" "$dir/step"
	echo "$step: $((SECONDS - began)) s" >&2
	grep -v "^$step: " "$dir/results" >"$dir/kept"
	sed "s/^/$step: /" "$dir/step" | cat "$dir/kept" - >"$dir/results"
	[ $ended = 0 ] && touch "$dir/$step.done" || status=$ended
done
exit $status
