#!/bin/bash
# Tests the programs without a GPU: what they allocate, that any number of ranks has the same result, and that their checks notice
# when a kernel did not run. `make test` builds them and calls it.
set -u
cd "$(dirname "$0")" || exit 1
. ../programs_test.sh
unset CASE_RANK CASE_RANKS CASE_RENDEZVOUS

# The catalog has what each rank allocates.
jobs=0
while read -r program arguments ranks memory blocks; do
	# shellcheck disable=SC2086 # words
	CASE_RANKS=$ranks ends 0 "$program" --footprint ${arguments//,/ }
	grep -q "^bytes=$memory .* grid=${blocks}x1x1 block=256x1x1" "$out/log" || fail "$program ${arguments//,/ } has $(cat "$out/log"), the catalog $memory bytes and $blocks blocks"
	jobs=$((jobs + 1))
done < <(sed -n 's/.*program: cluster\/\([a-z]*\), args: \([^,]*\), ranks: \([0-9]*\), memory: \([0-9]*\), blocks: \([0-9]*\), threads_per_block: 256.*/\1|\2|\3|\4|\5/p' ../../mixes/catalog/cluster.yaml | tr ' |' ', ')
[ $jobs = 3 ] || fail "$jobs jobs of the catalog"

# So have its mixes of other numbers of ranks (TestMemoryOfRanks).
while read -r program ranks memory; do
	CASE_RANKS=$ranks ends 0 "$program" --footprint
	grep -q "^bytes=$memory " "$out/log" || fail "$program of $ranks ranks has $(cat "$out/log"), the mixes $memory bytes"
done <<-END
	mm 5 153600024
	mm 8 92160024
	nw 4 37452900
	nw 7 21683268
	adfa 5 61920024
END

# meet STATUS RANKS OMITTED ARGUMENTS... runs a program in so many ranks. The last leaves out a launch, unless OMITTED is 0. The root ends with the status,
# the others with 0. The root's output is in $out/log then.
meet() {
	local status=$1 ranks=$2 omitted=$3 program=$4 pids=() rank
	shift 4
	rm -rf "$out/meet" && mkdir "$out/meet"
	for ((rank = 0; rank < ranks; rank++)); do
		CASE_RENDEZVOUS=$out/meet CASE_RANK=$rank CASE_RANKS=$ranks PILOT_OMIT=$([ $rank = $((ranks - 1)) ] && echo "$omitted") \
			timeout 20 "build/$program" --verify --rounds 1 --threads 32 --blocks 2 "$@" >"$out/rank$rank" 2>&1 &
		pids+=($!)
	done
	for ((rank = 0; rank < ranks; rank++)); do
		wait "${pids[rank]}"
		local ended=$?
		[ $ended = $([ $rank = 0 ] && echo "$status" || echo 0) ] || fail "rank $rank of $ranks, $program $*: exits with $ended: $(tail -n 1 "$out/rank$rank")"
	done
	cp "$out/rank0" "$out/log"
}

# Which launches of a rank to leave out, how many DFAs there are or how many iterations, and the arguments.
while read -r program omitted iterations arguments; do
	read -ra arguments <<<"$arguments"
	ends 0 "$program" --verify --rounds 2 --threads 64 --blocks 3 --iterations "$iterations" "${arguments[@]}"
	grep checksum "$out/log" >"$out/first" || fail "$program prints no checksum"
	for ranks in 1 3 4; do
		times=$iterations
		[ "$program" != adfa ] || times=$((iterations / ranks)) # each rank takes a DFA in an iteration
		meet 0 $ranks 0 "$program" --iterations $times "${arguments[@]}"
		grep checksum "$out/log" | cmp -s - "$out/first" || fail "$program ${arguments[*]}: $ranks ranks have another checksum"
	done
	for launch in ${omitted//,/ }; do
		meet 4 1 "$launch" "$program" --iterations 2 "${arguments[@]}"
		meet 4 3 "$launch" "$program" --iterations 2 "${arguments[@]}"
	done
done <<-END
	mm 1,2,3 2 --size 40 --pairs 5
	mm 1,2 2 --size 33 --pairs 3
	nw 1,2,4,5,8 2 --size 40 --pairs 5
	nw 1,2,4 2 --size 7 --pairs 3
	adfa 1,2,3,4 12 --size 100
END

# Messages of many parts, ranks without a pair, and DFAs of few states.
meet 0 3 0 mm --size 300 --pairs 4
meet 0 4 0 nw --size 30 --pairs 2
meet 0 2 0 adfa --size 1
meet 0 2 0 adfa --size 3
meet 0 2 0 adfa --size 1500 --iterations 2

# Half the time and twice the time are other rounds, and no other result.
ends 0 adfa --size 100 --rounds 4 --blocks 2 --gpu-factor 0.5 --out "$out/half"
ends 0 adfa --size 100 --rounds 4 --blocks 2 --gpu-factor 2 --out "$out/double"
cmp -s "$out/half" "$out/double" || fail "--gpu-factor changes the result"

for program in mm nw adfa; do
	ends 0 $program --help
	for wrong in "--iterations 0" "--iterations x" "--gpu-factor -1" "--size 0" "--rounds 0" "--pairs 0" "--pairs" "100"; do
		# shellcheck disable=SC2086 # words
		ends 1 $program $wrong
	done
	CASE_RANKS=2 ends 1 $program --size 10
	FAKE_CUDA_MEMORY=1000 ends 2 $program --size sm
done

[ $failures = 0 ] || exit 1
echo "benchmarks/cluster: test ok"
