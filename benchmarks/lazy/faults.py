"""Runs batches of eight programs under MPS, and four programs that start later. One of the
eight faults at a random moment. Checks after each batch:
- the culprit is named, or is one of the suspects, all of which had kernels running;
- no other job is named;
- the later jobs run, and no job waits for long.

In every ISOLATE-th batch, the jobs that the fault took down run again, each alone, which
names the culprit. WAIT=no turns off waiting for the MPS server, in the run and in libcase,
to show what the waiting achieves. DIR/faults.csv (or faults-no-wait.csv) gets one row for
each batch, and the next call continues after the last row."""

import os
import random
import sys

from harness import BIN, Store, append_row, elapsed, load_rows, print_table, say, verdict, write_mix

BATCHES = int(os.environ.get("BATCHES", "30"))
LIMIT_S = float(os.environ.get("LIMIT", "480"))
ISOLATE = int(os.environ.get("ISOLATE", "3"))  # every n-th batch; 0: none
WAITS = os.environ.get("WAIT", "yes") != "no"
KINDS = ["read", "write", "trap", "kill", "assert", "exit", "misaligned"]
WAYS = ["busy", "long", "copies", "host", "idle"]
GRACE_S = 10  # the time that libcase gives a server to recover
FIELDS = ["batch", "kind", "way", "verdict", "suspects", "in", "harmed", "later", "later_ok", "turned_away", "longest_wait_s",
          "isolated", "seconds"]


def jobs_of(number):
    """Returns the batch's jobs, the culprit's index, and what the culprit does. The later
    jobs do not depend on the culprit."""
    rng = random.Random(number)
    kind, way = KINDS[number % len(KINDS)], rng.choice(WAYS)
    program = os.path.join(BIN, "lazy", "bystander")
    jobs = [{"program": program, "args": [rng.choice(WAYS), f"{rng.uniform(1.2, 2.2):.2f}"], "memory": "64MiB"} for _ in range(12)]
    culprit = rng.randrange(8)
    jobs[culprit]["args"] = [way, "2.5", kind, f"{rng.uniform(0.1, 0.9):.2f}"]
    for i, job in enumerate(jobs):
        job["name"] = f"{'culprit' if i == culprit else 'job'}-{i}-{job['args'][0]}"
    return jobs, culprit, kind, way


def judge(run, culprit, kind):
    """Returns the finding, the suspects, and the harmed jobs."""
    outcomes = [j["outcome"] for j in run.jobs]
    named = [int(e["job_index"]) for e in run.events if e["kind"] == "culprit"]
    suspects = [i for i, o in enumerate(outcomes) if o == "fault-suspect"]
    faults = [i for i, o in enumerate(outcomes) if o == "fault"]
    harmed = [i for i, o in enumerate(outcomes) if i != culprit and o not in ("ok", "cancelled")]
    if any(i != culprit for i in named + faults):
        return "WRONG", suspects, harmed
    if culprit in named or culprit in faults:
        return "named", suspects, harmed
    if culprit in suspects:
        return "suspect", suspects, harmed
    if not harmed and kind in ("misaligned", "kill", "exit"):
        return "harmless", suspects, harmed  # under MPS no process gets an error for a misaligned address
    if suspects and kind in ("kill", "exit"):
        said = [e["detail"] for e in run.events if e["kind"] == "suspects"]
        return ("suspect" if any(f"job {culprit} (" in d for d in said) else "MISSED"), suspects, harmed
    return "MISSED", suspects, harmed


def batch(store, number):
    jobs, culprit, kind, way = jobs_of(number)
    mix = os.path.join(store.dir, "faults.yaml")
    write_mix(mix, "faults", jobs)
    isolate = WAITS and ISOLATE > 0 and number % ISOLATE == 0
    began = elapsed()
    run = store.run(mix, "case-alg3", ["--workers", "8", "--timeout", "60s"])
    found, suspects, harmed = judge(run, culprit, kind)
    isolated = ""
    if isolate and (suspects or harmed):
        again = store.run(mix, "case-alg3", ["--workers", "8", "--timeout", "60s", "--isolate-faults"])
        late, _, _ = judge(again, culprit, kind)
        isolated = late if again.isolated else "nothing to isolate"
    later = run.jobs[8:]
    for j in run.jobs:
        if j["outcome"] not in ("ok", "fault", "fault-suspect", "collateral", "crash"):
            say(f"FAIL batch {number}: job {j['job_index']} ({j['name']}): {j['outcome']}: {j['detail']}")
    return {"batch": number, "kind": kind, "way": way, "verdict": found, "suspects": len(suspects),
            "in": sum(j["outcome"] not in ("", "cancelled") for j in run.jobs[:8]), "harmed": sum(i < 8 for i in harmed),
            "later": len(later), "later_ok": sum(j["outcome"] == "ok" for j in later),
            "turned_away": sum(f"error {code} " in j["detail"] for j in run.jobs for code in (46, 805, 806, 807)),
            "longest_wait_s": max(float(j["wait_s"] or 0) for j in run.jobs), "isolated": isolated,
            "seconds": round(elapsed() - began, 1)}


def passes(row):
    return (row["verdict"] in ("named", "suspect", "harmless") and row["isolated"] in ("", "named", "harmless", "nothing to isolate") and
            (not WAITS or int(row["later_ok"]) == int(row["later"]) and int(row["turned_away"]) == 0))


def main(directory):
    store = Store(directory)
    if not WAITS:
        os.environ.update(CASERUN_BENCH_NO_RECOVERY="1", CASE_MPS_GRACE_MS="0")
    path = os.path.join(store.dir, "faults.csv" if WAITS else "faults-no-wait.csv")
    rows = load_rows(path)
    longest, finished = 10, True
    while len(rows) < BATCHES:
        if elapsed() + longest + 5 > LIMIT_S:
            say(f"time is up: {BATCHES - len(rows)} batches left; call again to go on")
            finished = False
            break
        row = batch(store, len(rows))
        append_row(path, FIELDS, row)
        rows.append(row)
        longest = max(longest, row["seconds"])
        say(f"batch {row['batch']} ({row['kind']}, {row['way']}): {row['verdict']}, {row['suspects']} suspects, {row['harmed']} harmed, "
            f"later {row['later_ok']} of {row['later']} ok: {'ok' if passes(row) else 'FAIL'}")
    print()
    print_table([*FIELDS, ""], [[*(r[f] for f in FIELDS), "ok" if passes(r) else "FAIL"] for r in rows])
    count = lambda v: sum(r["verdict"] == v for r in rows)
    print(f"\n{len(rows)} batches: {count('named')} named, {count('suspect')} suspect, {count('harmless')} harmless, "
          f"{len(rows) - count('named') - count('suspect') - count('harmless')} wrong or missed; "
          f"{sum(int(r['harmed']) for r in rows)} neighbours harmed; of {sum(int(r['later']) for r in rows)} later jobs "
          f"{sum(int(r['later_ok']) for r in rows)} ok")
    return verdict(all(map(passes, rows)), finished)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
