#!/usr/bin/env python3
"""Measures what CASE's compiler pass (docs/design/casecc.md) does with the builtin programs.

  benchmarks/casecc.py table       which launches and bytes of each program are static
  benchmarks/casecc.py time [N [PROGRAM...]]
                                   compile times by clang++ and by casecc, N times each (15)
  benchmarks/casecc.py plain DIR   builds the programs into DIR, with the host's code by clang++ alone
  benchmarks/casecc.py same DIR [JOB...]
                                   runs each job of the catalogs on a GPU (DEVICE, 0), twice with
                                   the programs of DIR and once with those of bin/suite-casecc,
                                   and compares exit statuses, outputs and result files

`table` and `time` print a table in Markdown. They compile each program from its sources to the
executable with the commands of its Makefile, in a temporary directory. `time` alternates the
compilers, and counts the processor time of all their processes: medians, by how much they differ,
and by how much the least times differ, which other work disturbs less. `table` prints the same for
the same sources, pass and toolkit.

These need what make casecc needs, with LLVM 16 or that of CASECC_LLVM. `same` needs an NVIDIA GPU
and data/ from caserun data (DATA names another folder). It runs AT_ONCE (4) jobs at the
same time. Exit status: 0 done; 1 a program does not compile, or an output differs."""

import concurrent.futures
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

from harness import last_line, run_native

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
DEVICE = os.environ.get("DEVICE", "0")
CASECC = os.path.join(ROOT, "native/pass/casecc")
LLVM = os.environ.setdefault("CASECC_LLVM", "/usr/lib/llvm-16")
# The folder with each program's Makefile, and the catalog's file with its jobs.
PROGRAMS = {
    **{p: ("rodinia", "rodinia.yaml") for p in ("backprop", "bfs", "srad_v1/srad", "srad_v2/srad", "dwt2d", "needle", "lavaMD")},
    "darknet": ("darknet", "darknet.yaml"),
}
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def die(text):
    sys.exit(f"casecc.py: {text}")


def run(command, folder, **options):
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode:
        die(f"exit status {done.returncode}: {shlex.join(command)}\n{done.stdout}")
    return done.stdout


def folder(program):
    return os.path.join(ROOT, "benchmarks", PROGRAMS[program][0])


def commands(program, out):
    """Returns the commands of casecc that build a program below the folder out."""
    made = run(["make", "-n", "-B", f"SUITE={out}", f"NVCC={CASECC}", f"{out}/{program}"], folder(program))
    found = [shlex.split(line) for line in made.splitlines() if line.startswith(CASECC)]
    if not found:
        die(f"make says no command that builds {program}")
    for command in found:
        os.makedirs(os.path.dirname(command[command.index("-o") + 1]), exist_ok=True)
    return found


def plain(command, program, work):
    """Returns clang++'s command that casecc makes of its own, without libcase, and with the pass for device code alone:
    the two programs compute alike."""
    llvm, record = os.path.join(work, "llvm"), os.path.join(work, "record")
    compiler = os.path.join(llvm, "bin/clang++")
    if not os.path.exists(compiler):
        os.makedirs(os.path.dirname(compiler))
        with open(compiler, "w") as file:
            file.write(f"""#!/bin/sh
[ "$1" != -dumpversion ] || exec {shlex.quote(LLVM)}/bin/clang++ "$@"
printf '%s\\n' "$@" >"$RECORD"
""")
        os.chmod(compiler, 0o755)
    run(command, folder(program), env={**os.environ, "CASECC_LLVM": llvm, "RECORD": record})
    with open(record) as file:
        arguments = file.read().splitlines()
    made = [os.path.join(LLVM, "bin/clang++")]
    for argument in arguments:
        if argument.startswith("-fpass-plugin="):
            made += ["-Xarch_device", argument]
        elif "/probe/libcase" not in argument and "/lazy/libcase" not in argument:
            made.append(argument)
    return made


def catalog(name):
    """Returns the jobs of a file of the catalog, as dicts of text."""
    jobs = []
    with open(os.path.join(ROOT, "mixes/catalog", name)) as file:
        for line in file:
            key, separator, value = line.strip().removeprefix("- ").partition(": ")
            if line.startswith("  - "):
                jobs.append({})
            if separator and line.startswith(("  - ", "    ")):
                jobs[-1][key] = value
    return jobs


def jobs_bytes(program):
    """Returns the memory that the catalog declares for the jobs of a program, in bytes."""
    sizes = [re.fullmatch(r"(\d+)([KMG]iB)?", job["memory"]) for job in catalog(PROGRAMS[program][1]) if job["program"] == program]
    found = [int(size[1]) * UNITS[size[2] or ""] for size in sizes]
    if not found:
        die(f"{PROGRAMS[program][1]} has no memory of {program}")
    return found


def gib(all_bytes):
    low, high = (f"{n / 2**30:.2f}" for n in (min(all_bytes), max(all_bytes)))
    return f"{low} GiB" if low == high else f"{low} to {high} GiB"


def table(work):
    print("| program | static launches | lazy launches | static bytes | lazy bytes | why lazy |")
    print("|---|---|---|---|---|---|")
    for program in PROGRAMS:
        report = os.path.join(work, "report")
        for command in commands(program, work):
            run(command + [f"--case-report={report}"], folder(program))
        with open(report) as file:
            launches = [json.loads(line) for line in file]
        os.remove(report)
        why = [l["why"] for l in launches if l["task"] == "lazy"]
        lazy, static = len(why), len(launches) - len(why)
        need = gib(jobs_bytes(program))
        # The report has no sizes, so the bytes of a program with both kinds are not known.
        bytes_of = ["?", "?"] if lazy and static else ["0", need] if lazy else [need, "0"]
        reasons = "; ".join(f"{r} ({why.count(r)})" for r in sorted(set(why), key=lambda r: (-why.count(r), r)))
        print(f"| `{program}` | {static} | {lazy} | {' | '.join(bytes_of)} | {reasons or '-'} |", flush=True)


def spent(all_commands, program):
    """Runs commands, and returns their processor time in seconds."""
    before = os.times()
    for command in all_commands:
        run(command, folder(program))
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def times(work, repetitions, programs):
    print("| program | clang++, s | casecc, s | medians | least |")
    print("|---|---|---|---|---|")
    for program in programs:
        ours = commands(program, work)
        compilers = [("clang++", [plain(c, program, work) for c in ours]), ("casecc", ours)]
        taken = {name: [] for name, _ in compilers}
        for _, by in compilers:
            spent(by, program)  # the files come into memory
        for n in range(repetitions):
            for name, by in compilers if n % 2 == 0 else reversed(compilers):
                taken[name].append(spent(by, program))
        medians, least = ({name: of(t) for name, t in taken.items()} for of in (statistics.median, min))
        changes = " | ".join(f"{100 * (t['casecc'] / t['clang++'] - 1):+.1f} %" for t in (medians, least))
        print(f"| `{program}` | {medians['clang++']:.2f} | {medians['casecc']:.2f} | {changes} |", flush=True)


def build_plain(directory):
    directory = os.path.abspath(directory)
    with tempfile.TemporaryDirectory() as work:
        for program in PROGRAMS:
            for command in commands(program, directory):
                run(plain(command, program, work), folder(program))


def outcome(suite, job, data, out):
    """Runs a job, and returns all that it leaves behind, by name."""
    command = [os.path.join(suite, job["program"]), *job.get("args", "").split(), "--out", out]
    stdin = os.path.join(data, job["stdin"]) if "stdin" in job else os.devnull
    with open(stdin) as file:
        status, stdout, stderr, wall = run_native(command, data, 600, DEVICE, file)
    result = None
    if os.path.exists(out):
        with open(out, "rb") as file:
            result = file.read()
        os.remove(out)
    return {"exit status": status, "stdout": stdout, "stderr": stderr, "result file": result}, wall


def same(suite, names):
    """Returns whether the jobs leave the same behind with both builds."""
    jobs = [job for file in ("rodinia.yaml", "darknet.yaml") for job in catalog(file)]
    unknown = set(names) - {job["name"] for job in jobs}
    if unknown:
        die(f"the catalogs have no job {', '.join(sorted(unknown))}")
    data = os.environ.get("DATA", os.path.join(ROOT, "data"))
    suites = [os.path.abspath(suite), os.path.join(ROOT, "bin/suite-casecc")]

    def compare(job):
        with tempfile.TemporaryDirectory() as work:
            (want, _), (got, wall), (again, _) = (outcome(s, job, data, os.path.join(work, "result")) for s in suites + suites[:1])
        what = {name: [text for text in want if other[text] != want[text]] for name, other in (("casecc", got), ("again", again))}
        ok = got["exit status"] == 0 and got["result file"] is not None and not what["casecc"]
        verdict = "the same" if ok else f"DIFFERS in {', '.join(what['casecc'])}" if what["casecc"] else "FAILED"
        if what["again"]:
            verdict += f"; two runs of {suite} differ in {', '.join(what['again'])}"
        size = len(got["result file"] or b"")
        print(f"{job['name']:20} {verdict} ({wall:.1f} s, {len(got['stdout'])} B of output, {size} B of result; "
              f"{last_line(got['stdout'] or got['stderr'])[:60]})", flush=True)
        return ok

    chosen = [job for job in jobs if not names or job["name"] in names]
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("AT_ONCE", "4"))) as pool:
        results = list(pool.map(compare, chosen))
    print(f"{len(results)} jobs, {results.count(True)} the same")
    return all(results)


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["plain"] and len(arguments) == 2:
        return build_plain(arguments[1])
    if arguments[:1] == ["same"] and len(arguments) > 1:
        return sys.exit(0 if same(arguments[1], arguments[2:]) else 1)
    with tempfile.TemporaryDirectory() as work:
        if arguments == ["table"]:
            table(work)
        elif arguments[:1] == ["time"] and all(a.isdigit() and int(a) > 0 for a in arguments[1:2]) and set(arguments[2:]) <= set(PROGRAMS):
            times(work, int(arguments[1]) if arguments[1:] else 15, arguments[2:] or list(PROGRAMS))
        else:
            die(f"usage: benchmarks/casecc.py table, or time [N [PROGRAM...]] with programs of {', '.join(PROGRAMS)}, or plain DIR, or same DIR [JOB...]")


main()
