"""Prints PILOT's Table I from kernel times: with stop points over without, by program and size.

    table1.py FILE.csv     columns program, size, rep, build (pilot, pilot-plain), kernels_s
"""
import csv
import math
import statistics
import sys

SIZES = ("sm", "md", "lg")

times = {}
with open(sys.argv[1], newline="") as f:
    for row in csv.DictReader(f):
        times.setdefault((row["program"], row["size"], row["build"]), []).append(float(row["kernels_s"]))


def ratio(program, size):
    """The ratio of the medians, or None."""
    plain, stops = (times.get((program, size, build)) for build in ("pilot-plain", "pilot"))
    return statistics.median(stops) / statistics.median(plain) if plain and stops else None


def shown(name, ratios):
    print(f"{name:12}" + "".join("       -" if r is None else f"{r:8.3f}" for r in ratios))


programs = list(dict.fromkeys(program for program, _, _ in times))
print(f"{'program':12}" + "".join(f"{size:>8}" for size in SIZES))
for program in programs:
    shown(program, [ratio(program, size) for size in SIZES])
known = [[r for program in programs if (r := ratio(program, size)) is not None] for size in SIZES]
shown("geomean", [math.exp(statistics.fmean(map(math.log, rs))) if rs else None for rs in known])
