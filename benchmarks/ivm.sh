#!/usr/bin/env bash
# Makes the runs of chapter 5 of the dissertation, for caserun paper ivm (docs/results/ivm.md).
#
#   benchmarks/ivm.sh DIR [STEP...]
#
# A call does what is left of these steps, by default the first:
#
#   simulate  DS-LB: NBODY, DMM and NW in 9 to 64 portions, the small inputs of section 5.5.4, and MPI with 9 to 64 processes. OM-LB: HIMENO until no more PEs are started
#   gpus      on two GPUs of this machine: NBODY (benchmarks/ivm) with one GPU slowed down, beside NBODY with MPI. Not SIMULATED
#
# All is in DIR. One DIR is for one build of caserun.
#
# Environment:
#   REPS      7; a later call with more makes the missing ones
#   START     0.2, the seconds that starting a PE takes (section 5.5.4: 0.11 to 0.2)
#   SLOW      4, of gpus: how many times one GPU does its work
#   PORTIONS  8, of gpus: into how many portions IVM divides a step
#   OPTIONS   of gpus: more options of both programs (--particles 2703360 --steps 1)
#
# Needs bin/caserun and python3, and for gpus make native, make -C benchmarks/ivm all mpi gpu, and mpirun. Exit status: 0 all runs were made; 2 usage, not built, or DIR has runs of another build;
# else as caserun sweep.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ $# -ge 1 ] || { echo "usage: benchmarks/ivm.sh DIR [STEP...]" >&2; exit 2; }
dir=$1
shift
[ $# -gt 0 ] || set -- simulate
mkdir -p "$dir/mixes" || exit 1
dir=$(cd "$dir" && pwd)
db=$dir/ivm.db start=${START:-0.2} slow=${SLOW:-4}
build=$(sha256sum <bin/caserun) || { echo "ivm.sh: not built: run make build" >&2; exit 2; }
if [ -e "$dir/build" ] && [ "$(cat "$dir/build")" != "$build" ]; then
	echo "ivm.sh: $dir has runs of another build of caserun: name another DIR, or remove it" >&2
	exit 2
fi
echo "$build" >"$dir/build"

# The GPUs of Table 5-2, host after host, as one node. What hosts send each other takes no time.
node=sim:1xK40c+1xC2075+1xC2070+4xGTX480+1xK20c+1xC2050

# sweep NAME NODE SCHEDULERS MIX... makes the repetitions that a sweep of mixes in DIR lacks.
sweep() {
	local name=$1 node=$2 scheds=$3 number='' reps=${REPS:-7} files=''
	shift 3
	[ ! -e "$db" ] || number=$(bin/caserun sweep list --db "$db" --format csv | awk -F, -v name="$name" '$2 == name { print $1 }')
	if [ -n "$number" ]; then
		bin/caserun sweep --resume "$number" --reps "$reps" --db "$db"
		return
	fi
	for mix; do files=$files,$dir/mixes/$mix.yaml; done
	bin/caserun sweep --mixes "${files#,}" --scheds "$scheds" --name "$name" --tag ivm --node "$node" --reps "$reps" --warmups 0 --db "$db" --runs "$dir/runs"
}

# write_mixes writes the mixes that are simulated, and prints their names: one line of those under sa, and one for each number of MPI processes.
write_mixes() {
	python3 - "$dir" "$node" "$start" <<'END'
import sqlite3, subprocess, sys

directory, node, start = sys.argv[1], sys.argv[2], float(sys.argv[3])
COUNTS = [9, 16, 25, 36, 49, 64]
GPUS = 9
# A kernel is bound by SMs x cores x clock, or by the bandwidth of the memory.
SCALES = {"cores": "", "memory": ', "scale": "memory"'}
# Seconds that the slowest GPU takes for a ninth (section 5.5.2; ">700"), and in how many portions the optimum is. Of the small inputs of section 5.5.4 NBODY has 1/16 of the
# interactions, DMM 1/512 of the products, and NW 1/4 of the pairs.
PROGRAMS = {"nbody": (700, 49, 16), "dmm": (700, 49, 512), "nw": (30.3, 36, 4)}
# The number of NBODY's time-steps is not published. Each has portions of its own: here one, and 20 (assumed).
STEPS = 20
MOST_PES = 64


def steps(name, limit, seconds, before=0):
    """A process: so long on the host, then so long in a kernel that fills an H200."""
    with open(f"{directory}/mixes/{name}.jsonl", "w") as out:
        if before:
            out.write(f'{{"step": "host", "seconds": {before}, "scale": "none"}}\n')
        out.write('{"step": "allocate", "object": "part", "bytes": "16MiB"}\n')
        out.write(f'{{"step": "kernel", "blocks": 65536, "threads": 256, "seconds": {seconds:.9g}{SCALES[limit]}}}\n')


def write(name, jobs):
    with open(f"{directory}/mixes/{name}.yaml", "w") as out:
        out.write(f"name: {name}\njobs:\n")
        for file, keys in jobs:
            out.write(f"  - {{steps: {directory}/mixes/{file}.jsonl, {keys}}}\n")
    return name


def took(name):
    """How long each job of a mix takes, the first on the first GPU, without noise."""
    subprocess.run(["bin/caserun", "mix", f"{directory}/mixes/{name}.yaml", "--sched", "sa", "--node", node, "--sim-noise", "0",
                    "--db", f"{directory}/scratch.db", "--runs", f"{directory}/runs"], check=True, stdout=subprocess.DEVNULL)
    with sqlite3.connect(f"{directory}/scratch.db") as db:
        return [s for s, in db.execute("SELECT end_s - start_s FROM job WHERE run_id = (SELECT max(id) FROM run) ORDER BY job_index")]


def slowest(limit):
    """How many times as long as an H200 the slowest GPU takes."""
    steps(f"unit-{limit}", limit, 1)
    return max(took(write(f"unit-{limit}", [(f"unit-{limit}", f"name: unit, count: {GPUS}")])))


def divided(name, limit, portions, seconds, times=1, before=0):
    """A program in equal portions, times in turn."""
    steps(name, limit, seconds * GPUS / portions / times / SLOWEST[limit], before)
    return write(name, [(name, f"name: step-{i}, portions: {portions}, group: {i}") for i in range(1, times + 1)])


def om_lb(limit):
    """Iterations with OM-LB. All PEs have equal parts of the work, so the PEs of a GPU take as long as all of their parts. After an iteration a GPU gets a PE
    more if the slowest PE took more than twice as long as its own."""
    pes = [1] * GPUS
    iteration = 1
    with open(f"{directory}/himeno-{limit}.txt", "w") as says:
        while True:
            name = f"ivm-himeno-{iteration}-{limit}"
            for gpu, n in enumerate(pes):
                steps(f"{name}-{gpu}", limit, 100 * GPUS * n / sum(pes) / SLOWEST[limit])
            write(name, [(f"{name}-{gpu}", f"name: pes-{gpu}") for gpu in range(GPUS)])
            times = took(name)
            says.write(f"iteration {iteration}: PEs {pes}, seconds {[round(t, 1) for t in times]}\n")
            more = [max(times) / t > 2 + 1e-6 for t in times]
            if not any(more) or sum(pes) >= MOST_PES:
                break
            pes = [n + m for n, m in zip(pes, more)]
            iteration += 1
    jobs = [(f"{name}-{gpu}", f"name: pes-{gpu}") for gpu in range(GPUS)]
    return [f"ivm-himeno-1-{limit}", write(f"ivm-himeno-steady-{limit}", jobs)]


SLOWEST = {limit: slowest(limit) for limit in SCALES}
under_sa, under_cg = [], {n: [] for n in COUNTS[1:]}
for program, (seconds, best, smaller) in PROGRAMS.items():
    for limit, times, ending in [("cores", 1, "cores"), ("memory", 1, "memory"), ("cores", STEPS, f"{STEPS}-cores")]:
        if times > 1 and program != "nbody":
            continue
        for n in COUNTS:
            under_sa.append(divided(f"ivm-{program}-{n}-{ending}", limit, n, seconds, times, start))
            mpi = divided(f"ivm-{program}-mpi-{n}-{ending}", limit, n, seconds, times)
            if n == GPUS:
                under_sa.append(mpi)
            elif times == 1:  # else they are the same parts
                under_cg[n].append(mpi)
        under_sa.append(divided(f"ivm-{program}-small-{ending}", limit, best, seconds / smaller, times, start))
        under_sa.append(divided(f"ivm-{program}-small-mpi-{ending}", limit, GPUS, seconds / smaller, times))
for limit in SCALES:
    under_sa += om_lb(limit)
print("sa", *under_sa)
for n, names in under_cg.items():
    print(f"cg:workers={n}", *names)
END
}

simulate() {
	local scheduler names
	write_mixes >"$dir/mixes/names" || return
	while read -r scheduler names; do
		# shellcheck disable=SC2086 # names are words
		sweep "$scheduler" "$node" "$scheduler" $names </dev/null || return
	done <"$dir/mixes/names"
}

# on_gpus runs the programs that have --gpu on two GPUs, one of which does its work SLOW times, beside the same with MPI.
on_gpus() {
	local options="--gpu --slow $slow ${OPTIONS:---particles 2703360 --steps 1}" mpirun
	mpirun=$(command -v mpirun) || { echo "ivm.sh: no mpirun: install Open MPI" >&2; return 2; }
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # as in a container
	live ivm-nbody "$PWD/native/ivm/build/ivmd" "$PWD/bin/ivm/nbody --devices 2 --portions ${PORTIONS:-8} $options"
	live ivm-nbody-mpi "$mpirun" "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n 2 $PWD/bin/ivm/nbody_mpi $options"
	sweep gpus local sa ivm-nbody ivm-nbody-mpi </dev/null
}

# live NAME PROGRAM ARGS writes a mix of one job on two GPUs.
live() {
	printf 'name: %s\njobs:\n  - {program: %s, args: "%s", name: %s, gpus: 2, memory: 1GiB, blocks: 1056, threads_per_block: 256}\n' \
		"$1" "$2" "$3" "$1" >"$dir/mixes/$1.yaml"
}

status=0
for step; do
	case $step in
	simulate) simulate ;;
	gpus) on_gpus ;;
	*) echo "ivm.sh: no step $step" >&2; exit 2 ;;
	esac || status=$?
done
exit $status
