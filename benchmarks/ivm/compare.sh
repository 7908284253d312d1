#!/bin/sh
# Runs each program with IVM and with MPI on two devices, one of which does its work SLOW times, and prints the median seconds of RUNS
# runs, the least and the most. A device is a processor, to which its PEs or its rank are bound (--bind). `make compare` builds what it needs.
#
#   RUNS=3 SLOW=4 ./compare.sh [PROGRAM...]    all programs without one
#   QUICK=1 ./compare.sh                       with small sizes, to see that it works
#
# A rank of MPI that waits has to yield its processor (mpi_yield_when_idle): by default it is busy, which takes it from others.
set -eu
cd "$(dirname "$0")/../.."
runs=${RUNS:-3} slow=${SLOW:-4}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # as in a container
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# run NAME COMMAND... adds its seconds to NAME.seconds. Its checksum must be that of the program's other runs.
run() {
	name=$1
	shift
	"$@" >"$out/said" 2>&1 || { cat "$out/said" >&2; echo "compare.sh: $name failed" >&2; exit 1; }
	sed -n 's/^seconds //p' "$out/said" >>"$out/$name.seconds"
	grep '^checksum ' "$out/said" >>"$out/checksums"
}

# summary NAME prints the median of the seconds, the least and the most.
summary() { sort -n "$out/$1.seconds" | awk '{ s[NR] = $1 } END { print s[int((NR + 1) / 2)], s[1], s[NR] }'; }

printf '%-8s %-18s %-18s %9s  %s\n' program 'MPI, s' 'IVM, s' 'MPI / IVM' options
while read -r program options; do
	case " ${*:-$program} " in *" $program "*) ;; *) continue ;; esac
	[ -z "${QUICK:-}" ] || options=
	: >"$out/checksums"
	for _ in $(seq "$runs"); do
		run ${program}_mpi mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n 2 bin/ivm/${program}_mpi --bind --slow "$slow" $options </dev/null
		run $program native/ivm/build/ivmd bin/ivm/$program --devices 2 --bind --slow "$slow" $options </dev/null
	done
	[ "$(sort -u "$out/checksums" | wc -l)" = 1 ] || { echo "compare.sh: results of $program differ:" >&2; cat "$out/checksums" >&2; exit 1; }
	echo "$(summary ${program}_mpi) $(summary $program)" | awk -v program="$program" -v options="$options" '{
		printf "%-8s %-18s %-18s %9.2f  %s\n", program, sprintf("%.2f (%.2f to %.2f)", $1, $2, $3), sprintf("%.2f (%.2f to %.2f)", $4, $5, $6), $1 / $4, options
	}'
done <<'END'
nbody --particles 6000
dmm --rows 960
nw --letters 3000
himeno --x 128 --y 128 --z 130 --iterations 40
END
