"""Batches in which one job faults beside others: episodes.py stall|misaligned PROGRAM CASERUN DIR COUNT SECONDS.

stall       the reproduction of a batch that stood still: a job of 2 GiB that faults, jobs beside it, and a newcomer of 4 GiB,
            on a device of 6 GiB
misaligned  a misaligned address, or in every fourth batch a trap, beside 1 to 5 jobs, with --isolate-faults

DIR/WHAT.txt gets a line for each batch, and DIR/WHAT-N.* what caserun said and recorded. The same number is the same batch.
Exit status: 0 all were made, and no innocent job was a fault; 1 one was, or something stood still for 5 s; 3 time is up.
"""
import os, random, sqlite3, subprocess, sys, time

what, program, caserun, directory = sys.argv[1:5]
count, limit = int(sys.argv[5]), float(sys.argv[6])
began = time.monotonic()


def stall(rng):
    kind = rng.choice(["illegal", "illegal", "misaligned", "trap"])
    at = rng.uniform(1.0, 2.0)
    ways = [["cycle", "1024", "10", "checks"], ["cycle", "1024", "10", "ignores"], ["host", "512", "8"], ["wait", "512", "6"], ["copies", "256", "6"]]
    neighbours = [ways[0], ways[0]] if rng.number == 0 else [ways[1], ways[1]] if rng.number == 1 else rng.sample(ways, rng.choice([2, 3]))
    jobs = [("fault", ["fault", kind, f"{at:.2f}", "2048"])] + [(n[0] + ("-ignores" if "ignores" in n else ""), n) for n in neighbours]
    scheduler = rng.choice(["case-alg3", "case-alg3", "schedgpu", "demand"]) if rng.number > 1 else "case-alg3"
    return kind, jobs + [("new", ["new", "4096"])], ["--sched", scheduler, "--mem-cap", "6GiB"] + (["--swap", "8GiB"] if scheduler == "demand" else [])


def misaligned(rng):
    ways = [["cycle", "256", "2.5", "checks"], ["wait", "256", "2.5"], ["copies", "256", "2.5"], ["host", "256", "2.2"]]
    kind = "misaligned" if rng.number % 4 else "trap"
    jobs = [(n[0], n) for n in (rng.choice(ways) for _ in range(rng.randint(1, 5)))]
    jobs.insert(rng.randrange(len(jobs) + 1), ("fault", ["fault", kind, f"{rng.uniform(0.3, 1.2):.2f}", "256"]))
    return kind, jobs, ["--sched", "case-alg3", "--isolate-faults"]


def standstill(faults, jobs, tasks):
    """The longest time after the first sign of a fault in which no job or task began or ended."""
    if not faults:
        return 0.0
    times = sorted(t for row in jobs + tasks for t in row if t is not None and t > faults[0])
    return max((b - a for a, b in zip([faults[0]] + times, times)), default=0.0)


def episode(number):
    rng = random.Random(number * 7919 + 50)
    rng.number = number
    kind, jobs, flags = {"stall": stall, "misaligned": misaligned}[what](rng)
    mix, db, runs, log = (f"{directory}/{what}-{number}.{e}" for e in ("yaml", "db", "runs", "log"))
    with open(mix, "w") as f:
        f.write("jobs:\n")
        for name, args in jobs:
            f.write(f"  - {{name: {name}, program: {program}, args: [{', '.join(repr(a) for a in args)}]}}\n")
    if os.path.exists(db):  # of a call that was stopped
        os.remove(db)
    with open(log, "w") as f:
        status = subprocess.run([caserun, "mix", mix, *flags, "--devices", "0", "--timeout", "40s", "--db", db, "--runs", runs],
                                stdout=f, stderr=f, timeout=150).returncode
    s = sqlite3.connect(db)
    rows = s.execute("SELECT job_index, name, outcome, start_s, end_s FROM job WHERE run_id = 1 ORDER BY job_index").fetchall()
    events = s.execute("SELECT at_s, kind, job_index FROM event WHERE run_id = 1 ORDER BY at_s").fetchall()
    tasks = s.execute("SELECT grant_s, release_s FROM task WHERE run_id = 1").fetchall()
    culprit = next(i for i, (name, _) in enumerate(jobs) if name == "fault")
    wrong = [r[0] for r in rows if r[2] == "fault" and r[0] != culprit]
    gap = standstill([e[0] for e in events if e[1] in ("fault", "mps-broken")], [r[3:] for r in rows], tasks)
    named = [e[2] for e in events if e[1] == "culprit"]
    return (f"{number} {kind} {flags[1]}: exit {status}; " + " ".join(f"{r[1]}={r[2]}" for r in rows)
            + f"; named {named or 'nobody'}, culprit is {culprit}, wrong {wrong or 'nobody'}; standstill {gap:.2f} s; "
            + " ".join(f"{e[1]}@{e[0]:.2f}" for e in events if e[1].startswith("mps") or e[1] == "fault")), bool(wrong) or gap > 5


lines = f"{directory}/{what}.txt"
done = len(open(lines).readlines()) if os.path.exists(lines) else 0
bad = False
for number in range(done, count):
    if time.monotonic() - began > limit:
        sys.exit(1 if bad else 3)
    line, fails = episode(number)
    bad = bad or fails
    print(line, flush=True)
    with open(lines, "a") as f:
        f.write(line + "\n")
sys.exit(1 if bad else 0)
