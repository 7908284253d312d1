#!/usr/bin/env python3
"""Decides for a cluster as cluster-rr does: caserun mix W7 --node sim:2x2xV100 --sched exec:benchmarks/policies/turns.py/case-alg3

Each rank goes to the next node in turn. docs/reference/policy-protocol.md describes the questions and the answers.
"""

import json
import sys


def assign(question):
    job, latest, nodes = question["job"], question["latest"], [n["node"] for n in question["nodes"] if n["open"]]
    if latest is not None:  # begin behind it
        nodes.sort(key=lambda node: node <= latest)
    if job["one_node"]:
        return [{"node": nodes[0], "ranks": job["ranks"]}]
    rounds, more = divmod(job["ranks"], len(nodes))
    turns = [{"node": node, "ranks": rounds + (i < more)} for i, node in enumerate(nodes)]
    turns = turns[more:] + turns[:more]  # the node of the last rank comes last
    return [share for share in turns if share["ranks"] > 0]


for line in sys.stdin:
    question = json.loads(line)
    answer = {"protocol": 1} if question["kind"] == "hello" else {"shares": assign(question)}
    answer["id"] = question["id"]
    print(json.dumps(answer), flush=True)
