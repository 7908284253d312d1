"""Measures the wall time of the 17 jobs of the catalog, each alone on one GPU: without
caserun, and under zero with the lazy runtime.

The two runs of a short job follow each other with nothing beside them, and take turns to
be first, because processes that start together slow each other's start. On a machine with
one GPU all jobs run so. The two runs of a long job run at the same time on one GPU each,
so that disturbances of the machine affect both. They swap GPUs in each repetition.

DIR/overhead.csv gets the results, and the next call continues after the last row."""

import os
import queue
import re
import statistics
import subprocess
import sys
import threading
import time

from harness import (BIN, ROOT, Store, append_row, die, elapsed, jobs_of, last_line, load_rows, print_table,
                     run_native, say, verdict, write_mix)

REPS = int(os.environ.get("REPS", "4"))
JOBS = os.environ.get("JOBS", "")
PROBE = os.environ.get("PROBE", "lazy")
SHORT = os.environ.get("SHORT", "^(backprop-8388608|srad_v2|dwt2d|needle)")  # jobs of at most about 10 s
LIMIT_S = float(os.environ.get("LIMIT", "480"))  # no job starts that would end later
DATA = os.environ.get("DATA", os.path.join(ROOT, "data"))
FIELDS = ["rep", "job", "native_gpu", "lazy_gpu", "native_s", "lazy_s"]

# A difference passes up to the larger of these two.
SHARE, FLOOR_S = 0.02, 0.050


def catalog():
    """Returns the names and commands of mixes/catalog/rodinia.yaml, largest memory
    first. These jobs are mostly the longest, so that no lane ends much later than the
    others."""
    jobs, name, program = [], None, None
    with open(os.path.join(ROOT, "mixes", "catalog", "rodinia.yaml")) as f:
        for line in f:
            key, _, value = line.strip().lstrip("- ").partition(": ")
            if line.startswith("  - name:"):
                name = value
            elif key == "program":
                program = value
            elif key == "args":
                jobs.append((name, [program, *value.split()]))
    return [j for j in reversed(jobs) if re.search(JOBS, j[0])]


def gpus():
    if "DEVICES" in os.environ:
        return [int(number) for number in os.environ["DEVICES"].split(",")]
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    return list(range(len(listed.splitlines())))


def native(name, command, gpu):
    status, _, err, wall = run_native([os.path.join(BIN, "suite", command[0]), *command[1:]], DATA, 600, gpu)
    if status != 0:
        die(f"{name} without caserun exited {status}: {last_line(err)}")
    return wall


def begin_lazy(store, name, gpu):
    """Starts a run, and returns once the job's process exists or the run has ended."""
    mix = os.path.join(store.dir, name + ".yaml")
    write_mix(mix, name, [{"job": name}])
    caserun, runs = store.start(mix, "zero", ["--data", DATA, "--no-mps", "--devices", str(gpu), "--probe", PROBE])
    while caserun.poll() is None and not jobs_of(caserun):
        time.sleep(0.002)
    return caserun, runs


def end_lazy(store, name, begun):
    job = store.finish(*begun).jobs[0]
    if job["outcome"] != "ok":
        die(f"{name} under zero: {job['outcome']}: {job['detail']}")
    return float(job["end_s"]) - float(job["start_s"])


def in_parallel(*calls):
    """Makes the calls at the same time. Raises the first error after all have ended."""
    errors = []

    def guarded(call):
        try:
            call()
        except BaseException as e:  # SystemExit too, because die ends only its thread
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def pair(store, lane, rep, name, command):
    a, b = (lane[rep % len(lane)], lane[(rep + 1) % len(lane)])
    if len(lane) == 1 and rep % 2 == 0:
        alone = native(name, command, a)
        served = end_lazy(store, name, begin_lazy(store, name, b))
    elif len(lane) == 1:
        served = end_lazy(store, name, begin_lazy(store, name, b))
        alone = native(name, command, a)
    else:
        begun = begin_lazy(store, name, b)
        alone = native(name, command, a)
        served = end_lazy(store, name, begun)
    return dict(zip(FIELDS, [rep, name, a, b, f"{alone:.4f}", f"{served:.4f}"]))


def measure(directory, path, left, expected):
    """Measures the remaining pairs: short jobs on one GPU, then all others on as many
    lanes as there are GPUs. Returns how many it measured."""
    found = gpus()
    short = [step for step in left if re.search(SHORT, step[1])]
    done = share(directory, path, short, expected, [found[:1]])
    lanes = [found[i:i + 2] for i in range(0, len(found) - 1, 2)] or [found]
    return done + share(directory, path, [step for step in left if step not in short], expected, lanes)


def share(directory, path, pairs, expected, lanes):
    """Measures the pairs on the lanes. A lane is one GPU or two."""
    steps, writing, done = queue.SimpleQueue(), threading.Lock(), []
    for step in pairs:
        steps.put(step)

    def work(lane):
        store = Store(os.path.join(directory, "lane-" + "-".join(map(str, lane))))
        turns = 2 if len(lane) == 1 else 1
        while True:
            try:
                rep, name, command = steps.get_nowait()
            except queue.Empty:
                return
            guess = 10 if re.search(SHORT, name) else 45
            if elapsed() + turns * expected.get(name, guess) + 5 > LIMIT_S:
                continue  # a shorter job may still fit
            row = pair(store, lane, rep, name, command)
            with writing:
                append_row(path, FIELDS, row)
                done.append(row)
            say(f"{name}: native {row['native_s']} s, lazy {row['lazy_s']} s")

    in_parallel(*(lambda lane=lane: work(lane) for lane in lanes))
    return len(done)


def load(path):
    pairs = {}
    for r in load_rows(path):
        pairs.setdefault(r["job"], {})[int(r["rep"])] = (float(r["native_s"]), float(r["lazy_s"]))
    return pairs


def summarize(pairs, jobs):
    """Returns (table rows, whether every median difference passes)."""
    table, good = [], True
    for name, _ in jobs:
        walls = list(pairs.get(name, {}).values())
        if not walls:
            continue
        base, wall = (statistics.median(w[i] for w in walls) for i in (0, 1))
        more = sorted(b - a for a, b in walls)
        difference = statistics.median(more)
        passes = difference <= max(SHARE * base, FLOOR_S)
        good &= passes
        table.append([name, len(walls), f"{base:.3f}", f"{wall:.3f}", f"{100 * difference / base:+.2f}",
                      f"{1000 * difference:+.0f}", f"{1000 * more[0]:+.0f}", f"{1000 * more[-1]:+.0f}",
                      "ok" if passes else "OVER"])
    return table, good


def main(directory):
    directory = os.path.abspath(directory)
    path = os.path.join(directory, "overhead.csv")
    jobs = catalog()
    pairs = load(path)
    left = [(rep, *job) for rep in range(REPS) for job in jobs if rep not in pairs.get(job[0], {})]
    expected = {name: max(max(w) for w in walls.values()) for name, walls in pairs.items()}
    done = measure(directory, path, left, expected) if left else 0
    if done < len(left):
        say(f"time is up: {len(left) - done} pairs left; call again to go on")
    table, good = summarize(load(path), jobs)
    print()
    print_table(["job", "pairs", "native, s", "lazy, s", "%", "ms", "least", "most", ""], table)
    print(f"\ns: medians; %, ms: the median of the pairs' differences, and the least and the most; "
          f"it passes within the larger of {SHARE:.0%} and {FLOOR_S * 1000:.0f} ms")
    return verdict(good, done == len(left))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
