#!/usr/bin/env python3
"""Trains small networks on a table, one after another. Each learns the error that all earlier ones leave, as in gradient boosting."""
from program import run, torch
from torch import nn
from torch.nn import functional as F


def learner(columns, width):
    return nn.Sequential(nn.Linear(columns, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


def main(p):
    s = p.size
    table = p.send(p.numbers(s.rows, s.columns))
    wanted = torch.where(table[:, 0] > 0, 2 * table[:, 1] * table[:, 2], table[:, 3].abs()) + table[:, 4] ** 2
    wanted = wanted - wanted.mean()
    missing, before = wanted.clone(), wanted.pow(2).mean().item()
    for _ in range(s.learners):
        net = p.build(learner(s.columns, s.width))
        optimizer = torch.optim.Adam(net.parameters(), s.rate)

        def batch():
            rows = p.send(p.integers(s.rows, s.batch))
            return table[rows], missing[rows]

        p.learn(net, optimizer, batch, lambda x, y: F.mse_loss(net(x).squeeze(1), y))
        with torch.no_grad():
            missing -= s.shrink * net(table).squeeze(1)
    after = missing.pow(2).mean().item()
    p.check(after < before / 2, f"the mean square error fell from {before:.4f} only to {after:.4f}")
    p.gradients(learner(3, 4).double().to(p.device), (5, 3))
    p.finish(missing, f"mean square error {before:.4f} to {after:.4f}")


run(main, __doc__,
    full=dict(steps=150, learners=40, rows=1_000_000, columns=64, width=64, batch=8192, rate=1e-2, shrink=0.5),
    tiny=dict(steps=30, learners=6, rows=2000, columns=8, width=16, batch=256, rate=2e-2, shrink=0.7))
