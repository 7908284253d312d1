#!/bin/bash
# Tests the programs without a GPU: what they allocate, what they compute on the fake runtime, and that their checks notice
# when a kernel did not run. `make test` builds them and calls it.
set -u
cd "$(dirname "$0")" || exit 1
. ../programs_test.sh

# PILOT's Table II: MiB at sm, md and lg. Of lavamd at lg it has what is left of the bytes modulo 2^32, 3.3 GiB.
while read -r program sm md lg; do
	for size in sm md lg; do
		ends 0 "$program" --footprint --size $size
		awk -F'[ =]' -v mib="${!size}" '{ exit !($2 > mib * 0.97 * 1048576 && $2 < mib * 1.03 * 1048576) }' "$out/log" ||
			fail "$program $size has $(cat "$out/log"), want ${!size} MiB"
	done
done <<-END
	backprop 8.8 133.5 453
	bfs 39 1024 5018
	hs3d 48 768 3072
	partfilter 10.2 160 1000
	lavamd 7.5 936 7492
	nn 45.8 457.8 4608
	gaussian 128 512 1126
	corr 64.1 256.2 1024
	gesummv 256 1024 4096
	2dconvol 0.97 1024 5222
	vectoradd 128 256 512
	pagedos 1024 5120 10240
END

# The catalog has what the programs allocate.
while read -r program arguments memory blocks; do
	# shellcheck disable=SC2086 # words
	ends 0 "$program" --footprint ${arguments//,/ }
	grep -q "^bytes=$memory .* grid=${blocks}x1x1 " "$out/log" || fail "$program ${arguments//,/ } has $(cat "$out/log"), the catalog $memory bytes and $blocks blocks"
done < <(sed -n 's/.*program: pilot\/\([a-z0-9]*\), args: \([^,]*\), memory: \([0-9]*\), blocks: \([0-9]*\),.*/\1|\2|\3|\4/p' ../../mixes/catalog/pilot.yaml | tr ' |' ', ')

# Which launches to leave out, and the arguments.
while read -r program omitted arguments; do
	# shellcheck disable=SC2086 # words
	set -- $program --verify --threads 32 $arguments
	ends 0 "$@" --blocks 3
	grep checksum "$out/log" >"$out/first"
	ends 0 "$@" --blocks 3 --memory managed
	grep checksum "$out/log" | cmp -s - "$out/first" || fail "$*: another checksum in managed memory"
	ends 0 "$@" --blocks 2 --threads 64
	for launch in ${omitted//,/ }; do
		PILOT_OMIT=$launch ends 4 "$@" --blocks 3
	done
done <<-END
	vectoradd 1,2 --size 96KiB --rounds 3
	pagedos 1 --size 1MiB --rounds 3
	pagedos 3 --size 1MiB --rounds 5 --burst 2
	backprop 1,2,3 --size 1000 --rounds 3
	bfs 1,2,3,4,5 --size 3000 --rounds 1
	hs3d 1,2,5 --size 64 --rounds 9
	partfilter 1,20 --size 128 --rounds 1
	lavamd 2 --size 2 --rounds 2
	nn 1,2,3 --size 40000 --rounds 3
	gaussian 1,2,100,200 --size 200
	corr 1,2,3 --size 60 --rounds 2
	gesummv 1,2 --size 100 --rounds 4
	2dconvol 1,2 --size 100 --rounds 5
END

ends 0 gesummv --size 2 --out "$out/result"
[ "$(stat -c %s "$out/result")" = 16 ] || fail "gesummv writes $(stat -c %s "$out/result") bytes of 2 numbers"
ends 0 gesummv --help
for wrong in "--size x" "--size 0" "--size" "--rounds 0" "--threads 48" "--memory host" "--blocks 0" "100"; do
	# shellcheck disable=SC2086 # words
	ends 1 gesummv $wrong
done
FAKE_CUDA_MEMORY=$((1 << 26)) ends 2 gesummv --size md

# What the fakes' kernels touch stays on the host, which the comparison notices.
ends 4 pages 64
grep -q "^the host alone: touched 0.0000 MiB, on the device 0.0000 MiB, .*GiB$" "$out/log" && grep -q "^4 of 4 parts: touched 64.0000 MiB, on the device 0.0000 MiB, .*NOT WITHIN 1 %$" "$out/log" ||
	fail "pages says $(cat "$out/log")"
ends 1 pages 63
ends 1 pages 4096
FAKE_CUDA_MEMORY=$((100 << 20)) ends 2 pages

[ $failures = 0 ] || exit 1
echo "benchmarks/pilot: test ok"
