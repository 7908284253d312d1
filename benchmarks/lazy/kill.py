"""Kills random processes of running batches with kill -9 at random moments, with and
without MPS. It checks after each batch:
- the device memory in use, and the host's, is what it was before;
- no process is left;
- the store says that every granted task was released;
- the jobs that were not killed ended ok, or as collateral under MPS.

DIR/kill.csv gets one row for each batch, and the next call continues after the last
row."""

import os
import random
import signal
import subprocess
import sys
import time

from harness import (BIN, ROOT, Store, append_row, elapsed, jobs_of, load_rows, of_a_job, print_table, processes, say,
                     verdict, write_mix)

KILLS = int(os.environ.get("KILLS", "200"))
LIMIT_S = float(os.environ.get("LIMIT", "480"))  # no batch starts that would end later if it took as long as the longest
JOBS_PER_BATCH = int(os.environ.get("BATCH", "80"))
DATA = os.environ.get("DATA", os.path.join(ROOT, "data"))
SCHED = os.environ.get("SCHED", "case-alg3")
MEM_CAP = os.environ.get("MEM_CAP", "")
TOLERANCE_MIB = 16
HOST_TOLERANCE_MIB = 4096  # a swap area that is left is larger; other programs use memory too
FIELDS = ["batch", "mps", "jobs", "kills", "killed", "ok", "collateral", "harmed", "unreleased", "swaps", "leaked_mib", "host_leaked_mib",
          "processes_left", "seconds"]

# Small and medium jobs of the catalog, and programs that allocate, free and launch all the
# time.
CATALOG = ["needle-16384", "dwt2d-8192", "srad_v2-8192", "backprop-8388608", "dwt2d-16384"]
LAZY = ["late", "threads", "tasks", "snapshot", "symbols", "streams"]


def memory_used_mib():
    text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True).stdout
    return [int(line) for line in text.split()]


def host_available_mib():
    with open("/proc/meminfo") as f:
        return int(next(line for line in f if line.startswith("MemAvailable:")).split()[1]) // 1024


def left_over(before):
    """Returns processes of jobs and of MPS that were not there before."""
    return [pid for pid, (_, path) in processes().items()
            if pid not in before and (of_a_job(path) or "nvidia-cuda-mps" in path)]


def settle(value, good, limit_s=15):
    """Polls value() until good() accepts it or time is up. Returns the last value."""
    end = time.monotonic() + limit_s
    while True:
        now = value()
        if good(now) or time.monotonic() > end:
            return now
        time.sleep(0.25)


def kill_some(harness, rng, most):
    """Kills jobs of the running harness until it ends or `most` are dead."""
    kills = 0
    while harness.poll() is None:
        time.sleep(rng.uniform(0.02, 0.7))
        victims = sorted(jobs_of(harness))
        if kills == most or not victims:
            continue
        try:
            os.kill(rng.choice(victims), signal.SIGKILL)
            kills += 1
        except ProcessLookupError:
            pass  # the process has just ended by itself
    return kills


def batch(store, number, mps, most):
    rng = random.Random(number)
    jobs = [{"job": CATALOG[i % len(CATALOG)]} if i % 2 else
            {"program": os.path.join(BIN, "lazy", LAZY[i // 2 % len(LAZY)])} for i in range(JOBS_PER_BATCH)]
    rng.shuffle(jobs)
    mix = os.path.join(store.dir, "kill.yaml")
    write_mix(mix, "kill", jobs)
    memory, host, before = memory_used_mib(), host_available_mib(), set(processes())
    start = time.monotonic()
    flags = ["--data", DATA, "--workers", "8", "--timeout", "120s", *([] if mps else ["--no-mps"]),
             *(["--mem-cap", MEM_CAP] if MEM_CAP else [])]
    harness, runs = store.start(mix, SCHED, flags)
    kills = kill_some(harness, rng, most)
    run = store.finish(harness, runs)

    leaked = settle(lambda: max(b - a for a, b in zip(memory, memory_used_mib())), lambda mib: mib <= TOLERANCE_MIB)
    host_leaked = settle(lambda: host - host_available_mib(), lambda mib: mib <= HOST_TOLERANCE_MIB)
    left = settle(lambda: left_over(before), lambda pids: not pids)
    killed = [j for j in run.jobs if j["signal"] == "SIGKILL"]
    others = [j for j in run.jobs if j["signal"] != "SIGKILL"]
    fine = {"ok", "collateral"} if mps else {"ok"}
    harmed = [j for j in others if j["outcome"] not in fine]
    for j in harmed:
        say(f"FAIL batch {number}: job {j['job_index']} ({j['name']}), not killed: "
            f"{j['outcome'] or 'no outcome'}: {j['detail']}")
    unreleased = [t for t in run.tasks if t["grant_s"] and not t["release_s"]]
    return {"batch": number, "mps": "yes" if mps else "no", "jobs": len(run.jobs), "kills": kills, "killed": len(killed),
            "ok": sum(j["outcome"] == "ok" for j in others),
            "collateral": sum(j["outcome"] == "collateral" for j in others), "harmed": len(harmed),
            "unreleased": len(unreleased), "swaps": len(run.rows("swap")), "leaked_mib": max(leaked, 0),
            "host_leaked_mib": max(host_leaked, 0), "processes_left": len(left),
            "seconds": round(time.monotonic() - start)}


def passes(row):
    """Fewer jobs than kills may have died, because a process may have just ended by
    itself. Never more."""
    return (int(row["killed"]) <= int(row["kills"]) and int(row["harmed"]) == 0 and int(row["unreleased"]) == 0 and
            int(row["leaked_mib"]) <= TOLERANCE_MIB and int(row["host_leaked_mib"]) <= HOST_TOLERANCE_MIB and int(row["processes_left"]) == 0)


def main(directory):
    store = Store(directory)
    path = os.path.join(store.dir, "kill.csv")
    rows = load_rows(path)
    longest, finished = 60, True
    while True:
        killed = sum(int(r["killed"]) for r in rows)
        if killed >= KILLS:
            break
        if elapsed() + longest + 10 > LIMIT_S:
            say(f"time is up: {KILLS - killed} kills left; call again to go on")
            finished = False
            break
        number = len(rows)
        row = batch(store, number, number % 2 == 0, min(JOBS_PER_BATCH // 2, KILLS - killed))
        append_row(path, FIELDS, row)
        rows.append(row)
        longest = max(longest, row["seconds"])
        say(f"batch {number}{' under MPS' if row['mps'] == 'yes' else ''}: {row['killed']} killed, {row['ok']} ok, "
            f"{row['collateral']} collateral: {'ok' if passes(row) else 'FAIL'}")
    print()
    print_table([*FIELDS, ""], [[*(r[f] for f in FIELDS), "ok" if passes(r) else "FAIL"] for r in rows])
    print(f"\n{sum(int(r['killed']) for r in rows)} of {KILLS} kills")
    return verdict(all(map(passes, rows)), finished)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
