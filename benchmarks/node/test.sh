#!/bin/bash
# Tests the programs without a GPU: what they allocate, what they compute on the fake runtime, and that their checks notice
# when a kernel did not run. `make test` builds them and calls it.
set -u
cd "$(dirname "$0")" || exit 1
. ../programs_test.sh

# The catalog has what the programs allocate.
jobs=0
while read -r program arguments memory blocks; do
	# shellcheck disable=SC2086 # words
	ends 0 "$program" --footprint ${arguments//,/ }
	grep -q "^bytes=$memory .* grid=${blocks}x1x1 " "$out/log" || fail "$program ${arguments//,/ } has $(cat "$out/log"), the catalog $memory bytes and $blocks blocks"
	jobs=$((jobs + 1))
done < <(sed -n 's/.*program: node\/\([a-z0-9]*\), args: \([^,]*\), memory: \([0-9]*\), blocks: \([0-9]*\),.*/\1|\2|\3|\4/p' ../../mixes/catalog/node.yaml | tr ' |' ', ')
[ $jobs = 14 ] || fail "$jobs jobs of the catalog"

# Which launches to leave out, and the arguments.
while read -r program omitted arguments; do
	# shellcheck disable=SC2086 # words
	set -- $program --verify --threads 32 --rounds 2 $arguments
	ends 0 "$@" --blocks 3
	grep checksum "$out/log" >"$out/first"
	ends 0 "$@" --blocks 2 --threads 64 --cpu-fraction 0.5
	[[ $program =~ ^(bp|pr|sp)$ ]] || grep checksum "$out/log" | cmp -s - "$out/first" || fail "$*: another checksum on another grid"
	for launch in ${omitted//,/ }; do
		PILOT_OMIT=$launch ends 4 "$@" --blocks 3
	done
done <<-END
	va 1 --size 10000
	bp 1,2,39,40 --size 100
	bfs 1,2,3,4 --size 1000
	hs 1 --size 40
	nw 1,2,3 --size 40
	sp 1 --size 5120
	mt 1,2,6 --size 10 --repeats 6
	pr 1,2,3,8 --size 1000 --repeats 4
	sc 1,2,3,9 --size 500 --repeats 3
	bs 1,2,4 --size 200 --repeats 4
	mm 7 --size 40 --products 4
	synth 1,2,3 --size 2000 --iterations 3
END

# meet STATUS RANKS ARGUMENTS... runs synth in so many ranks. The last ends with the status, the others with 0.
meet() {
	local status=$1 ranks=$2 pids=() rank
	shift 2
	rm -rf "$out/meet" && mkdir "$out/meet"
	for ((rank = 0; rank < ranks; rank++)); do
		CASE_RENDEZVOUS=$out/meet CASE_RANK=$rank CASE_RANKS=$ranks PILOT_OMIT=$([ $rank = $((ranks - 1)) ] && [ "$status" != 0 ] && echo 2) \
			build/synth --verify --size 2000 --threads 32 --blocks 2 --iterations 20 --per-iteration 2 --rounds 2 --message 3000 --uneven 1,2 --by 0.5 "$@" >"$out/rank$rank" 2>&1 &
		pids+=($!)
	done
	for ((rank = 0; rank < ranks; rank++)); do
		wait "${pids[rank]}"
		local ended=$?
		[ $ended = $([ $rank = $((ranks - 1)) ] && echo "$status" || echo 0) ] || fail "rank $rank of $ranks, $*: exits with $ended: $(tail -n 1 "$out/rank$rank")"
	done
}
for kind in none barrier broadcast scatter-gather all-to-all; do
	meet 0 4 --communication $kind
	meet 4 3 --communication $kind
done
ends 0 synth --gpu-time 0.01 --size 1000 --iterations 2 --verify --cpu-fraction 1

ends 0 synth --help
for wrong in "--communication any" "--iterations 0" "--by -2" "--cpu-fraction x" "--cpu-fraction -1" "--uneven" "100"; do
	# shellcheck disable=SC2086 # words
	ends 1 synth $wrong
done
CASE_RANKS=2 ends 1 synth --iterations 1
FAKE_CUDA_MEMORY=$((1 << 20)) ends 2 va --size sm

[ $failures = 0 ] || exit 1
echo "benchmarks/node: test ok"
