#!/usr/bin/env python3
"""CASE's Algorithm 3 as an external policy: caserun mix W7 --sched exec:benchmarks/policies/alg3.py

Among the devices where the task's memory fits, take the one with the fewest warps in use.
docs/reference/policy-protocol.md describes the questions and the answers.
"""

import json
import sys


def greet(question):
    if question["protocol"] != 1:
        sys.exit(f"caserun speaks protocol {question['protocol']}, and this policy protocol 1")
    return {"protocol": 1, "promises": ["memory-hard", "places-what-fits"]}


def place(question):
    task, best = question["task"], None
    for device in question["devices"]:  # in the node's order, which breaks ties
        fits = task["bytes"] + device["context_bytes"] <= device["free_bytes"]
        if not fits or not device["open"]:
            continue
        if best is None or device["used_warps"] < best["used_warps"]:
            best = device
    return {"device": best["device"]} if best else {"device": None}  # None: the task waits


kinds = {"hello": greet, "place": place}

for line in sys.stdin:
    question = json.loads(line)
    decide = kinds[question["kind"]]
    answer = decide(question)
    answer["id"] = question["id"]
    print(json.dumps(answer), flush=True)
