#!/usr/bin/env python3
"""What the store of benchmarks/moves.sh says: answers.py STORE QUESTION TAG [ARGUMENT]. It prints lines. Exit status 1: not as it should be."""

import glob
import os
import sqlite3
import statistics
import sys

db, question, tag, *arguments = sys.argv[1:]
store = sqlite3.connect(f"file:{db}?mode=ro", uri=True) if os.path.exists(db) else None
right = True


def rows(query):
    """Rows of the tag's runs."""
    return store.execute(query + " and run_id in (select id from run where tag = ?)", (tag,)).fetchall() if store else []


def moves(outcome):
    """Run, job, its name, the time without the wait for kernels that ran, that wait, the parts of the time, and bytes, in order."""
    return sorted(rows("select run_id, job_index, swap.ordinal, name, swap.end_s - swap.start_s - drain_s, drain_s, copy_s, bookkeeping_s, bytes, why "
                       f"from swap join job using (run_id, job_index) where action = 'move' and swap.outcome = '{outcome}'"), key=lambda r: r[:3])


def say(text, holds=True):
    global right
    right = right and holds
    print(text + ("" if holds else ": NOT AS WANTED"))


def middle(values):
    values = list(values)
    return f"{len(values)} times, median {statistics.median(values):.3f} s, at most {max(values):.3f} s" if values else "never"


def jobs_are_ok():
    bad = rows("select name, outcome, detail from job where coalesce(outcome, '') != 'ok'")
    for name, outcome, detail in bad:
        print(f"{name}: {outcome}: {detail}")
    return not bad


def random():
    jobs, wrong, want, kept = 0, 0, int(arguments[0]), arguments[1]
    for run, job in rows("select run_id, job_index from job where true"):
        [path] = glob.glob(f"{kept}/runs/run-{run}-*/job-{job:04}.out")
        jobs += 1
        with open(path) as got, open(f"{kept}/alone/{job}") as alone:
            if got.read() != alone.read():
                wrong += 1
                print(f"{path}: not what the program prints alone")
    done, unable = moves("done"), moves("unable")
    say(f"{len(done)} moves, want {want}, {len(moves('busy'))} times busy, {len(unable)} times unable; {jobs} jobs, other output: {wrong}", jobs_are_ok() and len(done) >= want and not wrong)
    for name in sorted({m[3] for m in done}):
        print(f"{name}, without the wait for its kernels: {middle(m[4] for m in done if m[3] == name)}")
    for name, why in sorted({(m[3], m[9]) for m in unable}):
        print(f"{name} is unable: {why}")


def large():
    first, later, seen = [], [], set()
    for m in moves("done"):
        (later if m[:2] in seen else first).append(m)
        seen.add(m[:2])
    for name, of, limit in ("without a context there", first, 0.3), ("with one", later, 0.15):
        times = [m[4] for m in of]
        say(f"{name}, want {limit} s: {middle(times)}", bool(times) and statistics.median(times) <= limit)
        print(f"{name}: copies {middle(m[6] for m in of)}; memory {middle(m[7] for m in of)}; kernels before it {middle(m[5] for m in of)}")
    sizes = [m[8] / 2**30 for m in first + later] or [0]
    say(f"{min(sizes):.2f} to {max(sizes):.2f} GiB each, {len(moves('busy'))} times busy, {len(moves('unable'))} times unable", jobs_are_ok())


def idle():
    waits = [wait for wait, in rows("select grant_s - submit_s from task where job_index > 0 and grant_s is not null")]
    taken = rows("select end_s - start_s, bytes from swap where job_index = 0 and action = 'yield' and outcome = 'done'")
    say(f"{tag}, from request to grant, want 0.110 s: {middle(waits)}", jobs_are_ok() and bool(taken) and statistics.median(waits) <= 0.11)
    print(f"{tag}, the slot is taken: {middle(t[0] for t in taken)}, with {max([t[1] for t in taken], default=0) / 2**30:.2f} GiB at most")


def arms():
    """Makespan, jobs that ended well, and jobs of each run, by mix and scheduler in the order of their names."""
    all_runs = rows("select cell.mix, cell.scheduler, makespan_s, jobs_ok, jobs from cell join run on run.id = run_id where status = 'complete'")
    return {mix: {sched: [r[2:] for r in all_runs if r[:2] == (mix, sched)] for sched in sorted({r[1] for r in all_runs if r[0] == mix})}
            for mix in sorted({r[0] for r in all_runs})}


def pairs():
    for mix, scheds in arms().items():
        well = {sched: [t[0] for t in times if t[1] == t[2]] for sched, times in scheds.items()}
        for sched, times in well.items():
            text = f"{mix} under {sched}: {middle(times)}; {len(scheds[sched]) - len(times)} runs with jobs that did not end well"
            if times and well.get("vgpu:n=1"):
                text += f"; {statistics.median(well['vgpu:n=1']) / statistics.median(times):.2f} times as fast as vgpu:n=1"
            print(text)


def cap():
    want = {"cap-0": 0.9, "cap-1": 1.3}
    for mix, scheds in arms().items():
        speed = {sched: statistics.median(t[1] / t[0] for t in times) for sched, times in scheds.items()}
        for sched, times in scheds.items():
            print(f"{mix} under {sched}: {middle(t[0] for t in times)}")
        if len(speed) == 2:
            ratio = speed["vgpu:n=4"] / speed["vgpu:n=1"]
            say(f"{mix}: throughput of n=4 over n=1, want {want[mix]}: {ratio:.2f}", ratio >= want[mix])
    say("all jobs end well", jobs_are_ok())


if question == "enough":
    sys.exit(len(moves("done")) < int(arguments[0]))
if question == "runs":
    print(len({run for run, in rows("select run_id from job where true")}))
else:
    {"random": random, "large": large, "idle": idle, "pairs": pairs, "cap": cap}[question]()
sys.exit(not right)
