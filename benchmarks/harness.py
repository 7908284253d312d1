"""Runs programs natively and under `caserun mix`, and reads the runs' records from
the store. The scripts of benchmarks/lazy and benchmarks/schedgpu use it; their shell
scripts put this folder into PYTHONPATH."""

import csv
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# BENCH_BIN names another folder with programs and caserun, to try these scripts without a
# GPU.
BIN = os.path.realpath(os.environ.get("BENCH_BIN", os.path.join(ROOT, "bin")))
CASERUN = os.path.join(BIN, "caserun")
STARTED = time.monotonic()

csv.field_size_limit(1 << 24)  # a run's configuration is one field


def elapsed():
    return time.monotonic() - STARTED


def say(text):
    print(f"[{elapsed():5.0f} s] {text}", flush=True)


def die(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def native_environment(gpu):
    """Returns the environment of a run without caserun on one device."""
    hidden = ("CASE_", "CASERUN_", "LD_PRELOAD")
    env = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    env.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(gpu))
    return env


def run_native(argv, cwd, limit_s=120, gpu=0, stdin=subprocess.DEVNULL):
    """Returns (exit status, stdout, stderr, wall seconds)."""
    start = time.monotonic()
    try:
        p = subprocess.run(argv, cwd=cwd, env=native_environment(gpu), stdin=stdin,
                           capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None, b"", b"timeout", time.monotonic() - start
    return p.returncode, p.stdout, p.stderr, time.monotonic() - start


def write_mix(path, name, jobs):
    """Writes a mix file. A job is a dict with the keys of docs/reference/mixes.md. Values are
    written as JSON, which is valid YAML."""
    lines = [f"name: {name}", "jobs:"]
    for job in jobs:
        for i, (key, value) in enumerate(job.items()):
            lines.append(f"  {'-' if i == 0 else ' '} {key}: {json.dumps(value)}")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")


def processes():
    """Returns {pid: (parent, executable)} of this user's processes. Zombies are left
    out, because they have no executable."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
            found[int(entry)] = (parent, os.readlink(f"/proc/{entry}/exe"))
        except (OSError, ValueError):
            continue
    return found


def of_a_job(path):
    return path.startswith(tuple(os.path.join(BIN, d) + "/" for d in ("suite", "suite-casecc", "lazy")))


def jobs_of(caserun):
    """Returns the processes that a running `caserun mix` has started for its jobs."""
    return [pid for pid, (parent, path) in processes().items() if parent == caserun.pid and of_a_job(path)]


class Store:
    """The store and the run directories of one measurement."""

    def __init__(self, directory):
        self.dir = os.path.abspath(directory)
        self.db = os.path.join(self.dir, "runs.db")
        self.runs = os.path.join(self.dir, "runs")
        os.makedirs(self.runs, exist_ok=True)

    def start(self, mix, sched, flags=()):
        """Starts a run; its messages go to a log beside the store."""
        before = set(os.listdir(self.runs))
        with open(os.path.join(self.dir, "caserun.log"), "ab") as log:
            process = subprocess.Popen(
                [CASERUN, "mix", mix, "--sched", sched, "--node", "local", "--db", self.db, "--runs", self.runs, *flags],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return process, before

    def finish(self, process, before):
        """Waits for the run and returns its records."""
        status = process.wait()
        new = sorted(set(os.listdir(self.runs)) - before, key=lambda name: int(name.split("-")[1]))
        if status not in (0, 1, 4) or not new:
            with open(os.path.join(self.dir, "caserun.log"), "rb") as log:
                die(f"caserun mix exited {status}: {last_line(log.read())}; see {self.dir}/caserun.log")
        # With --isolate-faults a second run follows, and corrects the first.
        return Run(self, status, os.path.join(self.runs, new[0]), isolated=len(new) > 1)

    def run(self, mix, sched, flags=()):
        return self.finish(*self.start(mix, sched, flags))


class Run:
    """The records of a run: rows as dicts of text, "" for NULL."""

    def __init__(self, store, status, directory, isolated=False):
        self.status, self.dir, self.isolated = status, directory, isolated
        number = os.path.basename(directory).split("-")[1]
        out = os.path.join(store.dir, "csv")
        subprocess.run([CASERUN, "export", number, "--csv", out, "--force", "--db", store.db],
                       cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        self.csv = out
        self.jobs, self.tasks, self.events = (self.rows(t) for t in ("job", "task", "event"))
        for job in self.jobs:
            if job["mode"] != "live":
                die("the run was simulated: this needs an NVIDIA GPU")

    def rows(self, table):
        """Returns a table of this run. It is valid until the next run, whose export
        replaces the files."""
        with open(os.path.join(self.csv, table + ".csv"), newline="") as f:
            return list(csv.DictReader(f))

    def output(self, job, suffix="out"):
        with open(os.path.join(self.dir, f"job-{int(job['job_index']):04d}.{suffix}"), "rb") as f:
            return f.read()


def load_rows(path):
    """Returns the rows of a file of results; [] if it does not exist yet."""
    if not os.path.exists(path):
        return []
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def append_row(path, fields, row):
    fresh = not os.path.exists(path)
    with open(path, "a", newline="") as f:
        writer = csv.DictWriter(f, fields)
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def print_table(header, rows):
    """Prints columns as wide as their widest cell. The first is left-aligned."""
    rows = [[str(c) for c in r] for r in [header, *rows]]
    widths = [max(len(r[i]) for r in rows) for i in range(len(header))]
    for r in rows:
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))).rstrip())


def verdict(good, finished):
    """Returns the exit status: 0 all checks passed, 1 a check failed, 3 unfinished."""
    return 1 if not good else 0 if finished else 3


def last_line(data):
    lines = data.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
