#!/usr/bin/env python3
"""Trains a network with a large embedding, as recommenders have it: most of its memory is one table."""
from program import run, torch
from torch import nn
from torch.nn import functional as F


class Recommender(nn.Module):
    def __init__(self, fields, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(fields * width, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, entries):
        return self.layers(entries.flatten(1)).squeeze(1)


def main(p):
    s = p.size
    net = p.build(Recommender(s.fields, s.width))
    net.register_parameter("table", nn.Parameter(torch.zeros(s.rows, s.width, device=p.device)))
    liked = p.numbers(s.popular)

    def batch():
        # Few rows are popular. Who likes what is the sum of what is liked in a row.
        chosen = p.integers(s.popular, s.batch, s.fields)
        return chosen * (s.rows // s.popular), (liked[chosen].sum(1) > 0).float()

    def loss(chosen, likes):
        return F.binary_cross_entropy_with_logits(net(F.embedding(chosen, net.table)), likes)

    first, last = p.learn(net, torch.optim.Adam(net.parameters(), s.rate), batch, loss)
    p.check(last < first * 0.6, f"the loss fell from {first:.4f} only to {last:.4f}")
    small = Recommender(2, 3).double().to(p.device)
    p.gradients(lambda table: small(F.embedding(torch.tensor([[0, 1], [1, 1]], device=p.device), table)), (2, 3))
    net.table.data[::s.rows // s.popular] = 0
    p.check(not net.table.any(), "a row that no batch chose has changed")
    p.finish(net.layers[0].weight, f"loss {first:.4f} to {last:.4f}")


run(main, __doc__,
    full=dict(steps=250, rows=7_000_000, width=64, fields=24, popular=4096, batch=16384, rate=2e-3),
    tiny=dict(steps=40, rows=4096, width=8, fields=4, popular=64, batch=256, rate=1e-2))
