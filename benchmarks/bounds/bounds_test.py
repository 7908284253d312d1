#!/usr/bin/python3
"""Holds the bounds to the best of all schedules of small random batches. Needs SciPy, as bounds.py does.

Cores, links and SMs are plenty in these batches, so that memory alone makes jobs wait. Then the best schedule is among
those that place the jobs one by one, each at the earliest time at which its memory is free for all of its held time:
all orders of the jobs, on all devices, are tried."""

import itertools
import random
import unittest

import bounds

CAPACITY = 10


def batch(r, devices, jobs):
    def seconds(least, most):
        return r.randint(least, most) / 2

    return bounds.Batch([{"node": "small", "mix": "random", "devices": devices, "cores": 99, "capacity_bytes": CAPACITY, "count": 1,
                          "bytes": r.randint(2, CAPACITY), "before": f"cores:1:{seconds(1, 9)}", "held": f"cores:1:{seconds(1, 18)}",
                          "after": f"cores:1:{seconds(1, 5)}"} for _ in range(jobs)])


def earliest(spans, job):
    """Returns when the job can have its memory on a device where others have theirs."""
    at = job.held_from()
    while True:
        moments = [at] + [begin for begin, _, _ in spans if at < begin < at + job.held_s()]
        if all(sum(b for begin, end, b in spans if begin <= m < end) + job.bytes <= CAPACITY for m in moments):
            return at
        at = min(end for _, end, _ in spans if end > at)


def best(b):
    """Returns the least makespan and the least mean turnaround."""
    makespan = mean = float("inf")
    for jobs in itertools.permutations(b.jobs):
        for devices in itertools.product(range(b.devices), repeat=len(jobs)):
            spans, ends = [[] for _ in range(b.devices)], []
            for job, d in zip(jobs, devices):
                at = earliest(spans[d], job)
                spans[d].append((at, at + job.held_s(), job.bytes))
                ends.append(at + job.held_s() + job.rest_s())
            makespan, mean = min(makespan, max(ends)), min(mean, sum(ends) / len(ends))
    return makespan, mean


class Bounds(unittest.TestCase):
    def test_no_schedule_is_better(self):
        r = random.Random(1)
        reached = 0
        for n in range(120):
            b = batch(r, devices=r.randint(1, 2), jobs=r.randint(2, 5))
            makespan, mean = best(b)
            in_turn = max(b.in_turn(), default=0)
            least = bounds.makespan(b)
            for name, bound, value in (("simple", b.simple(), makespan), ("makespan", least, makespan), ("in turn", in_turn, makespan),
                                       ("turnaround", bounds.turnaround(b, 1.5 * least), mean)):
                self.assertLessEqual(bound, value + 1e-6, f"batch {n}: {name}")
            reached += in_turn > makespan - 1e-6
        self.assertGreater(reached, 20, "the bound of jobs in turn is never as large as the makespan")


if __name__ == "__main__":
    unittest.main()
