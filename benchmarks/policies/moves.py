#!/usr/bin/env python3
"""Moves as an external policy: caserun mix W7 --sched exec:benchmarks/policies/moves.py

A task goes where most memory is free. Every MOVES_MS milliseconds (50) a process is chosen at random and told to move to another
device. MOVES_SEED (1) is the seed. docs/reference/policy-protocol.md describes the questions.
"""

import json
import os
import random
import sys

EVERY = int(float(os.environ.get("MOVES_MS", "50")) * 1e6)  # nanoseconds, as all times
SEED = os.environ.get("MOVES_SEED", "1")


def greet(question):
    return {"protocol": 2, "takes_back": True, "asks": ["tick"]}


def place(question):
    free = {d["device"]: d["free_bytes"] - d["context_bytes"] for d in question["devices"] if d["open"]}
    fits = [device for device in free if free[device] >= question["task"]["need_bytes"]]
    return {"device": max(fits, key=free.get, default=None)}  # None: the task waits


def revoke(question):
    chance = random.Random(f"{SEED} {question['now_ns']}")
    devices = range(len(question["devices"]))
    moves = [(r["task"]["id"], to) for d in question["devices"] for r in d["residents"] if "move" in r["can"] and not r["asked"]
             for to in devices if to != d["device"]]
    if not moves:
        return {"revocations": []}
    task, to = chance.choice(moves)
    return {"revocations": [{"task": task, "action": "move", "bytes": 0, "deadline_ns": 1_000_000_000, "device": to}]}


def tick(question):
    return {"at_ns": (question["now_ns"] // EVERY + 1) * EVERY} if any(d["residents"] for d in question["devices"]) else {}  # {}: never


kinds = {"hello": greet, "place": place, "revoke": revoke, "tick": tick}

for line in sys.stdin:
    question = json.loads(line)
    answer = kinds[question["kind"]](question)
    print(json.dumps({**answer, "id": question["id"]}), flush=True)
