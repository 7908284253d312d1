# What the tests of CUDA programs on the fake runtime share. A test.sh sources it in its own folder, whose name its messages begin with.
export LD_LIBRARY_PATH=$PWD/../../native/fake/build/13 FAKE_CUDA_MEMORY=$((1 << 28))
failures=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

fail() {
	echo "benchmarks/${PWD##*/}: $*"
	failures=$((failures + 1))
}

# ends STATUS PROGRAM ARGUMENTS... runs a program, whose output is in $out/log then.
ends() {
	local status=$1
	shift
	build/"$@" >"$out/log" 2>&1
	local ended=$?
	[ $ended = "$status" ] || fail "$* exits with $ended, want $status: $(tail -n 1 "$out/log")"
}
