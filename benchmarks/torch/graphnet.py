#!/usr/bin/env python3
"""Trains a graph network: nodes sum what their neighbours send, with index_add, and guess their communities."""
from program import run, torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.own, self.sent = nn.Linear(inside, outside), nn.Linear(inside, outside)

    def forward(self, x, source, target, degree):
        messages = self.sent(x)[source]
        gathered = torch.zeros(x.shape[0], messages.shape[1], dtype=x.dtype, device=x.device)
        return self.own(x) + gathered.index_add(0, target, messages) / degree


class GraphNet(nn.Module):
    def __init__(self, communities, width, depth):
        super().__init__()
        sizes = [communities] + [width] * depth
        self.layers = nn.ModuleList(Layer(a, b) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(width, communities)

    def forward(self, x, *graph):
        for layer in self.layers:
            x = F.relu(layer(x, *graph))
        return self.head(x)


def main(p):
    s = p.size
    # Two of three edges stay in a community. What a node knows of its own is mostly wrong.
    community = p.integers(s.communities, s.nodes)
    members = community.argsort(stable=True)
    begins = torch.searchsorted(community[members], torch.arange(s.communities + 1))
    target = p.integers(s.nodes, s.edges)
    low, high = begins[community[target]], begins[community[target] + 1]
    near = members[low + p.integers(1 << 30, s.edges) % (high - low)]
    source = torch.where(p.integers(3, s.edges) > 0, near, p.integers(s.nodes, s.edges))
    known = torch.where(p.integers(3, s.nodes) == 0, community, p.integers(s.communities, s.nodes))

    source, target, community = p.send(source), p.send(target), p.send(community)
    ones = torch.ones(s.edges, 1, device=p.device)
    count = torch.zeros(s.nodes, 1, device=p.device).index_add(0, target, ones)
    p.same(count.squeeze(1).long(), torch.bincount(target.cpu(), minlength=s.nodes).to(p.device), "how many neighbours nodes have")
    graph, features = (source, target, count.clamp(min=1)), F.one_hot(p.send(known), s.communities).float()
    net = p.build(GraphNet(s.communities, s.width, s.depth))

    def loss(nodes):
        return F.cross_entropy(net(features, *graph)[nodes], community[nodes])

    first, last = p.learn(net, torch.optim.Adam(net.parameters(), s.rate), lambda: [p.integers(s.nodes, s.batch)], loss)
    p.check(last < first / 2, f"the loss fell from {first:.4f} only to {last:.4f}")
    small, ring = Layer(2, 3).double().to(p.device), torch.arange(4, device=p.device)
    p.gradients(lambda x: small(x, ring, ring.roll(1), 2.0), (4, 2))
    p.finish(net.head.weight, f"loss {first:.4f} to {last:.4f}")


run(main, __doc__,
    full=dict(steps=60, nodes=400_000, edges=3_000_000, communities=16, width=64, depth=3, batch=50_000, rate=1e-2),
    tiny=dict(steps=40, nodes=300, edges=4000, communities=4, width=16, depth=2, batch=100, rate=2e-2))
