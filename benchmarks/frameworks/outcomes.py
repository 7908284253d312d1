"""outcomes.py DIR: prints what benchmarks/frameworks.sh has in DIR. Exit status: 1 a job did not end ok, or printed
another result than natively."""

import collections
import csv
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import CASERUN, ROOT, load_rows, print_table  # noqa: E402

GOOD = ("ok", "ok-after-oom")


def mib(values):
    """Returns the largest of some bytes in MiB."""
    known = [int(v) for v in values if v]
    return f"{max(known) / (1 << 20):.0f}" if known else "-"


def result(directory, run, job):
    """Compares what a job printed with what its program printed natively."""
    native = os.path.join(directory, "native", os.path.basename(job["command"].replace(" ", "-")) + ".out")
    out = glob.glob(os.path.join(directory, "runs", f"run-{run['id']}-*", f"job-{int(job['job_index']):04d}.out"))
    if not os.path.exists(native) or not out:
        return "unknown"
    with open(native, "rb") as a, open(out[0], "rb") as b:
        return "native" if a.read() == b.read() else "OTHER"


def main(directory):
    if not os.path.exists(os.path.join(directory, "frameworks.db")):
        return alone(directory)
    tables = os.path.join(directory, "csv")
    subprocess.run([CASERUN, "export", "--tag", "frameworks", "--csv", tables, "--force", "--db", os.path.join(directory, "frameworks.db")],
                   cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    rows = {}
    for table in ("sweep", "run", "job", "task", "event"):
        with open(os.path.join(tables, table + ".csv"), newline="") as f:
            rows[table] = list(csv.DictReader(f))
    steps = {s["id"]: s["name"] for s in rows["sweep"]}
    runs = {r["id"]: r for r in rows["run"] if r["status"] == "complete"}
    restarted, charged = collections.defaultdict(list), collections.defaultdict(int)
    for e in rows["event"]:
        if e["kind"] == "restarted":
            restarted[e["run_id"], e["job_index"]].append(float(e["at_s"]))
    for t in rows["task"]:
        # A job that started again has the tasks of each start.
        if t["bytes"] and float(t["submit_s"]) >= max(restarted[t["run_id"], t["job_index"]], default=0):
            charged[t["run_id"], t["job_index"]] += int(t["bytes"]) + int(t["grown_bytes"] or 0)
    groups = collections.defaultdict(list)
    for j in rows["job"]:
        if j["run_id"] in runs:
            run = runs[j["run_id"]]
            groups[steps[run["sweep_id"]], j["name"]].append((run, j))
    arms, table, bad = collections.defaultdict(list), [], []
    for (step, name), made in groups.items():
        outcomes = collections.Counter(j["outcome"] for _, j in made)
        results = collections.Counter(result(directory, r, j) for r, j in made if j["outcome"] in GOOD)
        restarts = sum(len(restarted[j["run_id"], j["job_index"]]) for _, j in made)
        table.append([step, name, ", ".join(f"{o} {n}" for o, n in sorted(outcomes.items())),
                      ", ".join(f"{o} {n}" for o, n in sorted(results.items())), restarts,
                      mib(charged[j["run_id"], j["job_index"]] for _, j in made), mib(j["used_bytes"] for _, j in made),
                      mib(j.get("unaccounted_bytes") for _, j in made)])
        arms[step] += made
        for r, j in made:
            if j["outcome"] not in GOOD:
                bad.append(f"{step} run {r['id']} {name}: {j['outcome']}: {j['detail'] or j['stderr_tail'].strip().splitlines()[-1:]}")
            elif result(directory, r, j) == "OTHER":
                bad.append(f"{step} run {r['id']} {name}: another result than natively")
    print("One row a job, over all repetitions; bytes are the largest, in MiB. charged: what the tasks asked for and grew by, without the")
    print("context. used: what CUDA's calls allocated. unaccounted: what NVML showed above the charge.")
    print_table(["step", "job", "outcomes", "results", "restarts", "charged", "used", "unaccounted"], table)
    print()
    print_table(["step", "runs", "jobs", "ok", "ok-after-oom", "others", "makespan, s"],
                [[step, len({r["id"] for r, _ in made}), len(made), *(sum(j["outcome"] == o for _, j in made) for o in GOOD),
                  sum(j["outcome"] not in GOOD for _, j in made),
                  " ".join(f"{float(runs[i]['makespan_s']):.0f}" for i in sorted({r["id"] for r, _ in made}, key=int))]
                 for step, made in arms.items()])
    for line in bad:
        print(line)
    return max(alone(directory), 1 if bad else 0)


def alone(directory):
    """Prints what alone.py has found."""
    rows = load_rows(os.path.join(directory, "alone.csv"))
    if rows:
        print("\nAlone under case-alg3, in MiB. shown: the most that the device showed, with the context and MPS.")
        print_table(list(rows[0]), [list(r.values()) for r in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
