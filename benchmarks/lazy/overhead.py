"""Wall time of the 17 jobs of the catalog, each alone on one GPU: without
caserun, under sa (the library is loaded and passive) and under zero (the lazy
runtime at work). Repetitions interleave the arms in seeded order. Results are
kept in DIR/overhead.csv, and a later call goes on where this one stopped."""

import os
import random
import re
import statistics
import sys

from harness import (BIN, ROOT, Store, append_row, die, elapsed, last_line, load_rows, no_mps_flags, print_table,
                     run_native, say, verdict, write_mix)

ARMS = os.environ.get("ARMS", "native sa zero").split()
REPS = int(os.environ.get("REPS", "3"))
JOBS = os.environ.get("JOBS", "")
LIMIT_S = float(os.environ.get("LIMIT", "480"))  # nothing starts that would end later
DATA = os.environ.get("DATA", os.path.join(ROOT, "data"))
FIELDS = ["rep", "job", "arm", "wall_s"]

# Within which a difference passes: the larger of the two.
SHARE, FLOOR_S = 0.02, 0.050


def catalog():
    """The names and commands of mixes/catalog/rodinia.yaml, in its order."""
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
    return [j for j in jobs if re.search(JOBS, j[0])]


def plan(jobs):
    """Every (repetition, job, arm), with the arms of a job in seeded order."""
    steps = []
    for rep in range(REPS):
        for name, command in jobs:
            arms = list(ARMS)
            random.Random(f"{rep} {name}").shuffle(arms)
            steps += [(rep, name, command, arm) for arm in arms]
    return steps


def measure(store, name, command, arm, flags):
    if arm == "native":
        status, _, err, wall = run_native([os.path.join(BIN, "suite", command[0]), *command[1:]], DATA, 600)
        if status != 0:
            die(f"{name} without caserun exited {status}: {last_line(err)}")
        return wall
    mix = os.path.join(store.dir, name + ".yaml")
    write_mix(mix, name, [{"job": name}])
    run = store.run(mix, arm, ["--data", DATA, *(flags if arm != "sa" else [])])
    job = run.jobs[0]
    if job["outcome"] != "ok":
        die(f"{name} under {arm}: {job['outcome']}: {job['detail']}")
    return float(job["end_s"]) - float(job["start_s"])


def summarize(rows, jobs):
    """Returns (table rows, whether every difference passes)."""
    walls = {}
    for r in rows:
        walls.setdefault((r["job"], r["arm"]), []).append(r["wall_s"])
    table, good = [], True
    for name, _ in jobs:
        if (name, "native") not in walls:
            continue
        base = statistics.median(walls[name, "native"])
        row = [name, len(walls[name, "native"]), f"{base:.3f}"]
        for arm in ARMS:
            if arm == "native":
                continue
            if (name, arm) not in walls:
                row += ["-", "-", "-", "-"]
                continue
            wall = statistics.median(walls[name, arm])
            passes = wall - base <= max(SHARE * base, FLOOR_S)
            good &= passes
            row += [f"{wall:.3f}", f"{100 * (wall - base) / base:+.2f}", f"{1000 * (wall - base):+.0f}",
                    "ok" if passes else "OVER"]
        table.append(row)
    return table, good


def main(directory):
    store = Store(directory)
    path = os.path.join(store.dir, "overhead.csv")
    jobs = catalog()
    rows = [{**r, "rep": int(r["rep"]), "wall_s": float(r["wall_s"])} for r in load_rows(path)]
    done = {(r["rep"], r["job"], r["arm"]) for r in rows}
    flags = no_mps_flags()
    if flags is None:
        say("caserun mix has no switch that turns MPS off: zero runs under MPS, native does not")
        flags = []
    left = [s for s in plan(jobs) if (s[0], s[1], s[3]) not in done]
    finished = True
    for i, (rep, name, command, arm) in enumerate(left):
        known = [r["wall_s"] for r in rows if r["job"] == name]
        if elapsed() + (max(known) if known else 45) + 5 > LIMIT_S:
            say(f"time is up: {len(left) - i} measurements left; call again to go on")
            finished = False
            break
        row = {"rep": rep, "job": name, "arm": arm, "wall_s": measure(store, name, command, arm, flags)}
        append_row(path, FIELDS, row)
        rows.append(row)
        say(f"{name} {arm}: {row['wall_s']:.3f} s")
    table, good = summarize(rows, jobs)
    header = ["job", "n", "native, s"]
    for arm in ARMS:
        if arm != "native":
            header += [f"{arm}, s", "%", "ms", ""]
    print()
    print_table(header, table)
    print(f"\nmedians; a difference passes within the larger of {SHARE:.0%} and {FLOOR_S * 1000:.0f} ms")
    return verdict(good, finished)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
