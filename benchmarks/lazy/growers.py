"""Runs CUDA programs that grow beside each other (grows) in 6 GiB under each scheduler: four that need 2.5 GiB each, and
programs that grow and shrink at random, which differ for each scheduler. They may be started again. Each checks its
memory, and all must end ok.

DIR/growers.csv gets one row for each run, and the next call makes the runs that it lacks."""

import collections
import os
import random
import sys

from harness import BIN, Store, append_row, elapsed, load_rows, print_table, say, verdict, write_mix

SCHEDS = os.environ.get("SCHEDS", "case-alg3 vgpu:n=4 demand").split()
LIMIT_S = float(os.environ.get("LIMIT", "480"))
GROWERS = int(os.environ.get("GROWERS", "34"))
RUN_S = 60  # no run starts when less is left
FIELDS = ["scheduler", "programs", "jobs", "ok", "others", "restarts", "restarted_jobs", "makespan_s"]


def job(seed):
    most = random.Random(seed).randrange(1200, 5000) if seed else 2560
    return {"program": os.path.join(BIN, "lazy", "grows"), "args": [str(seed), str(most)], "name": f"grows-{seed}",
            "check_status": 4, "restartable": True}


def main(directory):
    store = Store(os.path.join(directory, "growers"))
    path = os.path.join(directory, "growers.csv")
    rows = load_rows(path)
    finished = True
    for number, sched in enumerate(SCHEDS):
        for programs, seeds in ("four", [0] * 4), ("random", range(1 + number * GROWERS, 1 + (number + 1) * GROWERS)):
            if any((r["scheduler"], r["programs"]) == (sched, programs) for r in rows):
                continue
            if elapsed() > LIMIT_S - RUN_S:
                finished = False
                continue
            mix = os.path.join(store.dir, f"{programs}.yaml")
            write_mix(mix, f"growers-{programs}", [job(seed) for seed in seeds])
            run = store.run(mix, sched, ["--devices", os.environ.get("DEVICE", "0"), "--mem-cap", "6GiB", "--workers", "8",
                                         "--no-footprints", "--require-live", "--timeout", "60s"])
            others = collections.Counter(j["outcome"] for j in run.jobs if j["outcome"] != "ok")
            restarts = [int(j["restarts"] or 0) for j in run.jobs]
            row = {"scheduler": sched, "programs": programs, "jobs": len(run.jobs), "ok": len(run.jobs) - sum(others.values()),
                   "others": " ".join(f"{o}:{n}" for o, n in sorted(others.items())), "restarts": sum(restarts),
                   "restarted_jobs": sum(r > 0 for r in restarts),
                   "makespan_s": f"{max(float(j['end_s'] or 0) for j in run.jobs):.1f}"}
            append_row(path, FIELDS, row)
            rows.append(row)
            say(f"{sched}, {programs}: {row['ok']} of {row['jobs']} ok")
    print_table(FIELDS, [[r[f] for f in FIELDS] for r in rows])
    return verdict(all(not r["others"] for r in rows), finished)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
