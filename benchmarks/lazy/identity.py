"""Compares every program's output without caserun with its output under case-alg3,
byte for byte. Programs run one at a time and eight at once, with and without MPS."""

import os
import random
import sys

from harness import BIN, Store, die, elapsed, last_line, print_table, run_native, say, write_mix

LAZY = ["streams", "managed", "managed_variable", "nested", "late", "symbols", "pinned", "graphs", "shapes", "pools",
        "cooperative", "launch", "threads", "threads_own_default", "own_default_stream", "tasks", "interior",
        "snapshot", "reset", "queries", "forked", "before", "behind", "beyond", "margins", "deep", "driver_shared", "mixed",
        "memory", "memory_static", "cublas", "curand", "plugin", "asks", "asks_own_copy", "asks_static"]

# Programs whose calls cannot be intercepted (they have a static runtime or none) are
# recognised and placed by the footprint that the mix states.
UNSERVED = {"tasks_static": {"memory": "64MiB", "blocks": 16384, "threads_per_block": 256},
            "driver": {"memory": "2MiB", "blocks": 391, "threads_per_block": 256}}

# Programs that casecc compiled, with a static CUDA runtime. They are left out if they are not built.
COMPILED = [n for n in ["compiled_static", "compiled_lazy"] if os.access(os.path.join(BIN, "lazy", n), os.X_OK)]

# Programs that fail on purpose and exit 0: the correct outcomes, and keys that protect other
# jobs.
FAILING = {"oom": ({"oom", "refused"}, {}),
           "oom_first": ({"oom", "refused"}, {}),
           "fault": ({"fault"}, {"isolate": True}),
           "oom_static": ({"oom"}, {"memory": "16MiB"}),
           "fault_static": ({"fault"}, {"memory": "16MiB", "isolate": True})}

# The builtin suite, at sizes that take about a second or less.
BUILTIN = {"backprop": ["65536"], "bfs": ["gen:100000:7"], "srad_v1/srad": "10 0.5 502 458".split(),
           "srad_v2/srad": "1024 512 0 127 0 127 0.5 2".split(),
           "dwt2d": "pixels.bin -d 1024x1024 -f -5 -l 3".split(), "needle": ["1024", "10"], "lavaMD": ["-boxes1d", "6"]}


# Frameworks. They are left out if this Python lacks their modules.
PYTHON = ["with_torch", "with_cupy", "with_jax"]
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python")


class Program:
    def __init__(self, name, folder, args=(), outcomes=frozenset({"ok"}), keys=None, result=False, path=None):
        self.name, self.path, self.args = name, path or os.path.join(BIN, folder, name), list(args)
        self.outcomes, self.keys, self.result = outcomes, keys or {}, result
        self.native = None  # (stdout, result file)
        self.note = ""

    def argv(self, result_file):
        return self.args + (["--out", result_file] if self.result else [])

    def job(self, work, number):
        result_file = os.path.join(work, f"result-{number:03d}")
        if os.path.exists(result_file):
            os.remove(result_file)
        return {"program": self.path, "args": self.argv(result_file), "dir": work, "name": self.name, **self.keys}


def programs():
    found = [Program(n, "lazy") for n in LAZY + COMPILED]
    found += [Program(n, "lazy", keys=k) for n, k in UNSERVED.items()]
    found += [Program(n, "lazy", outcomes=o, keys=k) for n, (o, k) in FAILING.items()]
    found += [Program(n, "suite", args=a, result=True) for n, a in BUILTIN.items()]
    found += [Program(n, "", args=[os.path.join(SCRIPTS, n + ".py")], path=sys.executable) for n in PYTHON]
    wanted = os.environ.get("PROGRAMS", "").split()
    return [p for p in found if not wanted or p.name in wanted]


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def run_natively(all_programs, work):
    """Records what each program does alone. Returns False if a program fails. Removes
    programs whose Python modules are missing."""
    good = True
    result_file = os.path.join(work, "result-native")
    for p in list(all_programs):
        if os.path.exists(result_file):
            os.remove(result_file)
        status, out, err, wall = run_native([p.path, *p.argv(result_file)], work)
        if b"ModuleNotFoundError" in err:
            say(f"{p.name} is left out: {last_line(err)}")
            all_programs.remove(p)
            continue
        p.native = (out, read(result_file) if p.result else None)
        p.note = f"{wall:.2f}"
        if p.result and p.native[1] is None:
            say(f"FAIL native {p.name}: no result file")
            good = False
        if out.startswith(b"cannot run here"):
            p.note += " " + last_line(out)
        if status != 0:
            p.note += f" exits {status}"
            say(f"FAIL native {p.name}: exit status {status}: {last_line(err)}")
            good = False
    return good


def first_difference(got, want):
    got, want = ([*d.decode(errors="replace").splitlines(), None] for d in (got, want))
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b:
            return f"line {i + 1} is {a!r}, natively {b!r}"
    return "only at the end of a line"


def judge(p, run, job, work, number):
    """Returns what is wrong with a job of a run; "" if nothing is."""
    if job["outcome"] not in p.outcomes:
        why = job["detail"] or last_line(run.output(job, "err"))
        return f"outcome {job['outcome'] or 'none'}, want {' or '.join(sorted(p.outcomes))}: {why}"
    out, result = p.native
    got = run.output(job)
    if got != out:
        return f"stdout differs: {first_difference(got, out)}"
    if p.result and read(os.path.join(work, f"result-{number:03d}")) != result:
        return "the result file differs"
    return ""


def compare(store, all_programs, work, name, workers, copies, flags):
    """Runs the programs as one batch; returns the failures by program."""
    order = [p for p in all_programs for _ in range(copies)]
    random.Random(1).shuffle(order)
    mix = os.path.join(work, name + ".yaml")
    write_mix(mix, name, [p.job(work, i) for i, p in enumerate(order)])
    say(f"{name}: {len(order)} jobs, {workers} at once")
    run = store.run(mix, "case-alg3", ["--workers", str(workers), "--timeout", "120s", *flags])
    failures = {}
    if len(run.jobs) != len(order):
        die(f"{name}: the store has {len(run.jobs)} jobs of {len(order)}")
    for job in run.jobs:
        number = int(job["job_index"])
        wrong = judge(order[number], run, job, work, number)
        if wrong:
            failures.setdefault(order[number].name, []).append(wrong)
            say(f"FAIL {name} {order[number].name}: {wrong}")
    return failures


def main(directory):
    store = Store(directory)
    work = os.path.join(store.dir, "work")
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, "pixels.bin"), "wb") as f:
        f.write(bytes(random.Random(2).randrange(256) for _ in range(100003)))
    all_programs = programs()
    missing = [p.path for p in all_programs if not os.access(p.path, os.X_OK)]
    if missing:
        die("not built: " + " ".join(missing))
    say(f"{len(all_programs)} programs without caserun")
    good = run_natively(all_programs, work)

    configurations = [("alone, MPS", 1, 1, []), ("8 at once, MPS", 8, 2, []),
                      ("alone", 1, 1, ["--no-mps"]), ("8 at once", 8, 2, ["--no-mps"])]
    results = [compare(store, all_programs, work, name.replace(", ", "-").replace(" ", "-"), workers, copies, flags)
               for name, workers, copies, flags in configurations]

    print()
    rows = [[p.name, p.note, *("FAIL" if p.name in r else "PASS" for r in results)] for p in all_programs]
    print_table(["program", "native, s", *(c[0] for c in configurations)], rows)
    failed = sum(row.count("FAIL") for row in rows)
    print(f"\n{len(rows)} programs, {len(configurations)} configurations, {failed} failed; {elapsed():.0f} s")
    return 0 if good and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
