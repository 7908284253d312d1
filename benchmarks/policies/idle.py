#!/usr/bin/env python3
"""Idle preemption as an external policy: caserun mix W7 --sched exec:benchmarks/policies/idle.py

One process of a device may launch at a time. Once it has been idle for 10 ms and another waits, it gives way, and as much
of its memory moves to the host as the other lacks. docs/reference/policy-protocol.md describes the questions.
"""

import json
import sys

IDLE = 10_000_000  # nanoseconds, as all times


def greet(question):
    return {"protocol": 2, "takes_back": True, "asks": ["tick"]}


def place(question):
    for device in question["devices"]:
        free = device["free_bytes"] - device["context_bytes"]
        if device["open"] and device["permits"] == device["permit_here"] and question["task"]["need_bytes"] <= free:
            return {"device": device["device"]}
    return {"device": None}  # the task waits


def idle_at(resident):
    return float("inf") if resident["running"] or resident["busy"] else resident["last_ns"] + IDLE


def revoke(question):
    revocations = []
    for request in question["waiting"]:
        for device, to in zip(question["devices"], request["devices"]):
            if request["asked"] or not to["open"]:
                continue
            lacks = request["bytes"] + to["context_bytes"] - device["free_bytes"]
            for other in sorted(device["residents"], key=idle_at):
                moves = max(0, min(lacks, other["movable_bytes"]))
                own = other["task"]["job"] == request["task"]["job"]
                ready = idle_at(other) <= question["now_ns"] and "yield" in other["can"] and not other["asked"]
                if not own and ready and (moves or other["permit"] and not request["grows"]):
                    lacks -= moves
                    revocations.append({"task": other["task"]["id"], "action": "yield", "bytes": moves, "deadline_ns": 50_000_000, "for": request["task"]["id"]})
    return {"revocations": revocations}


def tick(question):
    times = [idle_at(resident) for device in question["devices"] for resident in device["residents"]]
    times = [t for t in times if question["now_ns"] < t < float("inf")]
    return {"at_ns": min(times)} if times and question["waiting"] else {}  # {}: never


kinds = {"hello": greet, "place": place, "revoke": revoke, "tick": tick}

for line in sys.stdin:
    question = json.loads(line)
    answer = kinds[question["kind"]](question)
    print(json.dumps({**answer, "id": question["id"]}), flush=True)
