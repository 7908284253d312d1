#!/usr/bin/python3
"""Lower bounds for batches on simulated nodes: no schedule of the model is better.

Reads jobs.csv, which a test of runner/sim writes from the profiles, and writes bounds.csv.
docs/design/bounds.md has the derivation. Needs SciPy (Debian: apt-get install python3-scipy)."""

import argparse
import csv
import hashlib
import os
import sys

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

HERE = os.path.dirname(os.path.realpath(__file__))
SLOTS = (60, 90)  # of two linear programs on the makespan; what one shows is true
WIDENING_SLOTS = 150  # of that on the mean turnaround, with an open slot more
PRECISION = 0.001  # of the makespan's bisection
SHORT_S = 0.01  # phases that are shorter are left out of the linear programs
MOST_PATTERNS = 500


class Phase:
    def __init__(self, text, held):
        self.on, demand, seconds = text.split(":")  # cores, link or sms
        self.demand, self.s, self.held = float(demand), float(seconds), held


class Job:
    """count equal jobs of a mix."""

    def __init__(self, row):
        self.count, self.bytes = int(row["count"]), int(row["bytes"])
        self.phases = [Phase(text, column == "held") for column in ("before", "held", "after") for text in row[column].split()]
        self.alone_s = sum(p.s for p in self.phases)
        released = 0
        for p in self.phases:
            p.release, p.rest = released, self.alone_s - released - p.s
            released += p.s
        self.long = [p for p in self.phases if p.s >= SHORT_S]

    def held_s(self):
        return sum(p.s for p in self.phases if p.held)

    def held_from(self):
        return min((p.release for p in self.phases if p.held), default=0)

    def rest_s(self):
        """Returns how long the job takes at least from its release on."""
        return self.alone_s - self.held_from() - self.held_s()


class Batch:
    """A mix on a node."""

    def __init__(self, rows):
        self.node, self.mix = rows[0]["node"], rows[0]["mix"]
        self.devices, self.cores, self.capacity = (int(rows[0][c]) for c in ("devices", "cores", "capacity_bytes"))
        self.jobs = [Job(r) for r in rows]
        self.count = sum(j.count for j in self.jobs)
        self.large, self.patterns = patterns(self.jobs, self.capacity)

    def resource(self, on):
        return self.cores if on == "cores" else self.devices

    def simple(self):
        """Returns the largest of the simple bounds on the makespan."""
        bounds = [j.alone_s for j in self.jobs]
        for on in ("cores", "link", "sms"):
            work = sum(j.count * p.s * p.demand for j in self.jobs for p in j.phases if p.on == on)
            bounds.append(work / self.resource(on))
        for since in self.jobs:
            later = [j for j in self.jobs if j.held_from() >= since.held_from()]
            filled = sum(j.count * j.held_s() * j.bytes / self.capacity for j in later)
            alone = sum(j.count * j.held_s() for j in later if 2 * j.bytes > self.capacity)
            bounds.append(since.held_from() + max(filled, alone) / self.devices)
        return max(bounds + self.in_turn())

    def in_turn(self):
        """Returns bounds from jobs of which no two fit a device together."""
        bounds = []
        for smallest in self.jobs:
            larger = [j for j in self.jobs if j is not smallest and j.bytes >= smallest.bytes and j.bytes + smallest.bytes > self.capacity]
            jobs = [j for j in larger for _ in range(j.count)]
            jobs += [smallest] * (smallest.count if 2 * smallest.bytes > self.capacity else 1)
            jobs.sort(key=Job.held_s, reverse=True)
            for turns in range(1, (len(jobs) - 1) // self.devices + 1):
                longest = jobs[: turns * self.devices + 1]  # some device has turns + 1 of these
                held = sum(j.held_s() for j in longest[-turns - 1 :])
                bounds.append(min(j.held_from() for j in longest) + held + min(j.rest_s() for j in longest))
        return bounds


def patterns(jobs, capacity):
    """Returns the large jobs, and what of them fits a device at one time: maximal counts of each."""
    for part in range(12, 50):
        large = [j for j in jobs if j.bytes > capacity * part / 100]
        found = maximal([j.bytes for j in large], [j.count for j in large], capacity)
        if len(found) <= MOST_PATTERNS:
            return large, found
    return [], []


def maximal(sizes, counts, capacity):
    found = []

    def fill(i, left, chosen):
        if len(found) > MOST_PATTERNS:
            return
        if i == len(sizes):
            if all(n == most or size > left for n, most, size in zip(chosen, counts, sizes)):
                found.append(chosen)
            return
        for n in range(min(counts[i], left // sizes[i]), -1, -1):
            fill(i + 1, left - n * sizes[i], chosen + (n,))

    if sizes:
        fill(0, capacity, ())
    return found


class Program:
    """A linear program. Variables are at least 0."""

    def __init__(self):
        self.most, self.cost = [], []
        self.rows = {"<=": ([], []), "==": ([], [])}  # terms of each row, and right-hand sides

    def variable(self, most=None, cost=0.0):
        self.most.append(most)
        self.cost.append(cost)
        return len(self.most) - 1

    def add(self, terms, relation, right):
        left, rights = self.rows[relation]
        left.append(terms)
        rights.append(right)

    def matrix(self, relation):
        left, rights = self.rows[relation]
        entries = [(r, v, c) for r, terms in enumerate(left) for v, c in terms]
        if not entries:
            return None, None
        r, v, c = zip(*entries)
        return coo_matrix((c, (r, v)), shape=(len(left), len(self.most))).tocsr(), np.array(rights)

    def solve(self):
        """Returns the least cost, or None if nothing solves it."""
        a, b = self.matrix("<=")
        a_equal, b_equal = self.matrix("==")
        for method in ("highs", "highs-ipm"):  # the first sometimes fails by its arithmetic
            answer = linprog(self.cost, A_ub=a, b_ub=b, A_eq=a_equal, b_eq=b_equal, bounds=[(0, m) for m in self.most], method=method)
            if answer.status == 0 and answer.success:
                return answer.fun
            if answer.status == 2:
                return None
        raise Unsolved(answer.message)


class Unsolved(Exception):
    """The solver failed."""


def overlap(slot, begin, end):
    return max(0.0, min(slot[1], end) - max(slot[0], begin))


def schedule(program, batch, slots, deadline):
    """Adds what every schedule obeys. Returns for each job and long phase the variables of the
    slots: the part of the phase that a copy of the job does there, in the mean over the copies."""
    done = [[[program.variable(min(1.0, overlap(slot, p.release, deadline - p.rest) / p.s)) for slot in slots]
             for p in j.long] for j in batch.jobs]
    for j, phases in zip(batch.jobs, done):
        for p, parts in zip(j.long, phases):
            program.add([(v, 1.0) for v in parts], "==", 1.0)
        for before, after in zip(phases, phases[1:]):
            for i in range(len(slots) - 1):
                program.add([(v, 1.0) for v in after[:i + 1]] + [(v, -1.0) for v in before[:i + 1]], "<=", 0.0)
    for i, (begin, end) in enumerate(slots):
        if end == float("inf"):
            continue
        length = end - begin
        for j, phases in zip(batch.jobs, done):
            program.add([(parts[i], p.s) for p, parts in zip(j.long, phases)], "<=", length)
        for on in ("cores", "link", "sms"):
            program.add([(parts[i], j.count * p.s * p.demand) for j, phases in zip(batch.jobs, done)
                         for p, parts in zip(j.long, phases) if p.on == on], "<=", batch.resource(on) * length)
        held = {id(j): [(parts[i], j.count * p.s) for p, parts in zip(j.long, phases) if p.held]
                for j, phases in zip(batch.jobs, done)}
        program.add([(v, c * j.bytes / batch.capacity) for j in batch.jobs for v, c in held[id(j)]], "<=", batch.devices * length)
        if batch.patterns:
            used = [program.variable() for _ in batch.patterns]  # device-seconds of each pattern
            program.add([(u, 1.0) for u in used], "<=", batch.devices * length)
            for k, j in enumerate(batch.large):
                program.add(held[id(j)] + [(u, -p[k]) for u, p in zip(used, batch.patterns) if p[k]], "<=", 0.0)
    return done


def makespan(batch):
    """Returns a time in which no schedule ends the batch, as late as PRECISION allows."""

    def possible(deadline):
        """Returns False if it is shown that no schedule ends the batch by then."""
        for n in SLOTS:
            program = Program()
            edges = np.linspace(0, deadline, n + 1)
            schedule(program, batch, list(zip(edges, edges[1:])), deadline)
            try:
                if program.solve() is None:
                    return False
            except Unsolved:
                pass
        return True

    low = batch.simple()
    if possible(low * (1 + PRECISION)):
        return low
    low *= 1 + PRECISION
    high = low * 1.1
    while not possible(high):
        low, high = high, high * 1.1
    while high > low * (1 + PRECISION):
        middle = (low + high) / 2
        if possible(middle):
            high = middle
        else:
            low = middle
    return low


def turnaround(batch, horizon):
    """Returns a bound on the mean turnaround. After the horizon everything is possible."""
    program = Program()
    edges = horizon * (np.arange(WIDENING_SLOTS + 1) / WIDENING_SLOTS) ** 1.5
    slots = list(zip(edges, edges[1:])) + [(horizon, float("inf"))]
    done = schedule(program, batch, slots, float("inf"))
    for j, phases in zip(batch.jobs, done):
        ends = []
        for last, p in enumerate(j.long):
            ends.append(program.variable())
            least = j.alone_s - p.rest
            program.add([(ends[-1], -1.0)], "<=", -least)
            if last > 0:
                program.add([(ends[-2], 1.0), (ends[-1], -1.0)], "<=", -p.s)
            # Work that lasts `length` alone and has the mean time m ends at m + length/2 or later.
            for first in range(last + 1):
                among = j.long[first:last + 1]
                length = sum(q.s for q in among)
                mean = [(v, max(slot[0], q.release) * q.s / length)
                        for q, parts in zip(among, phases[first:last + 1]) for v, slot in zip(parts, slots)]
                program.add(mean + [(ends[-1], -1.0)], "<=", -length / 2)
        program.cost[ends[-1]] = j.count / batch.count
    rest = sum(j.count * j.long[-1].rest for j in batch.jobs) / batch.count
    alone = sum(j.count * j.alone_s for j in batch.jobs) / batch.count
    return max(program.solve() + rest, alone)


def read(path):
    with open(path, newline="") as f:
        lines = f.read().splitlines()
    batches = {}
    for line, row in zip(lines[1:], csv.DictReader(lines)):
        batches.setdefault((row["node"], row["mix"]), []).append((line, row))
    return batches


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--jobs", default=os.path.join(HERE, "jobs.csv"), help="what the batches' jobs do")
    options.add_argument("--out", default=os.path.join(HERE, "bounds.csv"), help="the bounds; batches that it has already are kept")
    o = options.parse_args()
    known = {}
    if os.path.exists(o.out):
        with open(o.out, newline="") as f:
            known = {(r["node"], r["mix"], r["jobs_sha256"]): r for r in csv.DictReader(f)}
    rows = []
    for (node, mix), batch in read(o.jobs).items():
        digest = hashlib.sha256("\n".join(line for line, _ in batch).encode()).hexdigest()
        row = known.get((node, mix, digest))
        if row is None:
            b = Batch([r for _, r in batch])
            least = makespan(b)
            row = {"node": node, "mix": mix, "simple_makespan_s": f"{b.simple():.3f}", "makespan_s": f"{least:.3f}",
                   "turnaround_mean_s": f"{turnaround(b, 1.5 * least):.3f}", "jobs_sha256": digest}
        print(*list(row.values())[:-1], file=sys.stderr, flush=True)
        rows.append(row)
        with open(o.out, "w", newline="") as f:
            out = csv.DictWriter(f, fieldnames=rows[0], lineterminator="\n")
            out.writeheader()
            out.writerows(rows)


if __name__ == "__main__":
    main()
