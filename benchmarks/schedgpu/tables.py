"""Measures Tables 1 to 3 and Figure 11 of schedGPU's paper (Reano et al., TPDS 2018) on
one GPU. It runs 1 to 12 instances of an application in three ways: one after the other,
packed by hand into the memory, and under schedGPU. It also runs four instances each of
three applications without schedGPU and under its four policies.

The paper's applications (ARA, MUMmerGPU, GPU-BLAST) have low, moderate and high use of
the GPU. Here three programs of the builtin suite replace them. DIR/runs.csv gets one row
for each run, and the next call continues after the last row."""

import os
import sys

from harness import Store, append_row, elapsed, load_rows, print_table, say, verdict, write_mix

LIMIT_S = float(os.environ.get("LIMIT", "480"))
REPS = int(os.environ.get("REPS", "1"))
CAP_MIB = int(os.environ.get("CAP_MIB", "10240"))
INSTANCES = [int(n) for n in os.environ.get("INSTANCES", "1 2 4 6 8 10 12").split()]
DEVICE = os.environ.get("DEVICE", "0")
ONLY = os.environ.get("ONLY", "low moderate high workload").split()
CONTEXT_MIB = 544  # of each process, as runs reserve it
MOST = 12

# The job that replaces each of the paper's applications.
APPS = {
    "low": {"job": "backprop-8388608"},
    "moderate": {"job": "darknet-detect"},
    "high": {"job": "darknet-predict"},
}
LONGEST = "low"  # has the high priority in Table 3
POLICIES = ["fifo", "mmu", "priority-fifo", "priority-mmu"]
FIELDS = ["what", "scenario", "instances", "rep", "makespan_s", "mean_run_s", "gpu", "memory", "ok"]


def jobs_of(apps, count):
    return [{**APPS[a], "name": f"{a}-{i}", **({"priority": 1} if len(apps) > 1 and a == LONGEST else {})}
            for i in range(count) for a in apps]


def fit(app, store):
    """Runs an application once, and returns how many instances a person would pack into the
    capped memory."""
    footprint = max(int(j["footprint_bytes"]) for j in store.run(mix_of(store, [app], 1), "sa", flags()).jobs) / 2**20
    return max(1, min(MOST, int(CAP_MIB // (footprint + CONTEXT_MIB))))


def flags():
    return ["--mem-cap", f"{CAP_MIB}MiB", "--devices", DEVICE, "--workers", str(MOST), "--timeout", "300s"]


def mix_of(store, apps, count):
    path = os.path.join(store.dir, f"{'-'.join(apps)}-{count}.yaml")
    write_mix(path, f"{'-'.join(apps)}-{count}", jobs_of(apps, count))
    return path


def mean_over(rows, series, end, base=0.0):
    """Returns the time-weighted mean of a series over [0, end]. A value holds until the
    next value."""
    steps = sorted((float(r["first_s"]), float(r["value"])) for r in rows if r["series"] == series)
    total = 0.0
    for i, (at, value) in enumerate(steps):
        until = min(end, steps[i + 1][0] if i + 1 < len(steps) else end)
        total += max(0.0, until - max(0.0, at)) * (value - base)
    return total / end if end > 0 else 0.0


def measure(store, what, scenario, apps, count, sched, rep):
    run = store.run(mix_of(store, apps, count), sched, flags())
    end = max(float(j["end_s"]) for j in run.jobs)
    samples = run.rows("utilization")
    before = [r for r in samples if r["series"] == "memory"]
    base = float(min(before, key=lambda r: float(r["first_s"]))["value"]) if before else 0.0
    ok = [j for j in run.jobs if j["outcome"] == "ok"]
    return {"what": what, "scenario": scenario, "instances": count, "rep": rep, "makespan_s": round(end, 3),
            "mean_run_s": round(sum(float(j["end_s"]) - float(j["start_s"]) for j in ok) / max(1, len(ok)), 3),
            "gpu": round(100 * mean_over(samples, "gpu", end), 2),
            "memory": round(100 * mean_over(samples, "memory", end, base) / (CAP_MIB * 2**20), 2),
            "ok": f"{len(ok)} of {len(run.jobs)}"}


def plan(packed):
    for rep in range(REPS):
        for app in packed:
            for n in sorted({*INSTANCES, 1, packed[app], MOST}):
                yield app, "sequential", [app], n, "sa", rep
                yield app, "packed", [app], n, f"cg:workers={packed[app]}", rep
                yield app, "schedgpu", [app], n, "schedgpu", rep
        if "workload" in ONLY:
            everything = list(APPS)
            yield "workload", "without", everything, 4, "sa", rep
            for policy in POLICIES:
                yield "workload", policy, everything, 4, f"schedgpu:queue={policy}", rep


def main(directory):
    store = Store(directory)
    path = os.path.join(store.dir, "runs.csv")
    rows = load_rows(path)
    done = {(r["what"], r["scenario"], r["instances"], r["rep"]) for r in rows}
    packed = {r["what"]: int(r["instances"]) for r in rows if r["scenario"] == "fit"}
    for app in APPS:
        if app in ONLY and app not in packed:
            packed[app] = fit(app, store)
            append_row(path, FIELDS, {f: "" for f in FIELDS} | {"what": app, "scenario": "fit", "instances": str(packed[app])})
    say("packed by hand: " + ", ".join(f"{n} of {a}" for a, n in packed.items()))
    longest, finished = 20, True
    for what, scenario, apps, n, sched, rep in plan(packed):
        if (what, scenario, str(n), str(rep)) in done:
            continue
        if elapsed() + longest + 5 > LIMIT_S:
            say("time is up: call again to go on")
            finished = False
            break
        began = elapsed()
        row = {k: str(v) for k, v in measure(store, what, scenario, apps, n, sched, rep).items()}
        append_row(path, FIELDS, row)
        rows.append(row)
        longest = max(longest, elapsed() - began)
        say(f"{what}, {scenario}, {n}: {row['makespan_s']} s, GPU {row['gpu']} %, memory {row['memory']} %, {row['ok']} ok")
    rows = [r for r in rows if r["scenario"] != "fit"]
    tables(rows, packed)
    return verdict(all(r["ok"].split()[0] == r["ok"].split()[2] for r in rows), finished)


def tables(rows, packed):
    def of(what, scenario, n, field):
        values = sorted(float(r[field]) for r in rows if (r["what"], r["scenario"], r["instances"]) == (what, scenario, str(n)))
        return values[len(values) // 2] if values else None

    def show(value, form="{:.1f}"):
        return "" if value is None else form.format(value)

    print("\nFigure 11: makespan in seconds, and speedup over one after the other")
    print_table(["application", "instances", "sequential", "packed", "schedgpu", "speedup packed", "speedup schedgpu"],
                [[a, n, *(show(of(a, s, n, "makespan_s")) for s in ("sequential", "packed", "schedgpu")),
                  *(show(of(a, "sequential", n, "makespan_s") / of(a, s, n, "makespan_s"), "{:.2f}")
                    if of(a, "sequential", n, "makespan_s") and of(a, s, n, "makespan_s") else "" for s in ("packed", "schedgpu"))]
                 for a in packed for n in INSTANCES])
    print(f"\nTable 1: GPU utilization, %, and memory in use, % of {CAP_MIB} MiB")
    print_table(["application", "1 instance", "memory", "as many as fit", "memory", "12 under schedgpu", "memory"],
                [[a, *(show(of(a, s, n, f)) for s, n in (("sequential", 1), ("packed", packed[a]), ("schedgpu", MOST))
                       for f in ("gpu", "memory"))] for a in packed])
    print("\nTable 2: seconds of one instance")
    print_table(["application", "alone", "mean of 12 under schedgpu"],
                [[a, show(of(a, "sequential", 1, "mean_run_s"), "{:.2f}"), show(of(a, "schedgpu", MOST, "mean_run_s"), "{:.2f}")] for a in packed])
    print("\nTable 3: four instances of each of the three")
    print_table(["configuration", "time, s", "GPU utilization, %", "memory, %"],
                [[s, *(show(of("workload", s, 4, f), "{:.2f}") for f in ("makespan_s", "gpu", "memory"))]
                 for s in ["without", *POLICIES]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
