#!/usr/bin/env python3
"""Answers requests with a captured CUDA graph of a mixing network: much work for the host without the graph, and
little with it. On a CPU it does the same without a graph."""
from program import run, torch
from torch import nn
from torch.nn import functional as F


class Mixer(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.across = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.within = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norms[1](x))


def captured(net, place):
    """Returns the graph of net(place), and where its result will be."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net(place)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = net(place)
    return graph, result


def main(p):
    s = p.size
    net = p.build(nn.Sequential(*[Mixer(s.places, s.width) for _ in range(s.depth)], nn.Linear(s.width, s.classes))).eval()
    requests = [p.numbers(s.batch, s.places, s.width) for _ in range(s.requests)]
    total = torch.zeros(s.batch, s.places, s.classes, device=p.device)
    with torch.no_grad():
        place = p.send(requests[0]).clone()
        graph, result = captured(net, place) if p.cuda else (None, net(place))
        for step in range(s.steps):
            place.copy_(p.send(requests[step % s.requests]))
            if graph:
                graph.replay()
            else:
                result = net(place)
            total += result.softmax(-1)
        p.same(result, net(place), "an answer with the graph and without")
    p.close(total.sum(-1), torch.full_like(total.sum(-1), s.steps), 1e-3 * s.steps, "probabilities and their sum")
    p.gradients(Mixer(2, 3).double().to(p.device), (1, 2, 3))
    p.finish(total / s.steps, f"{s.steps} requests")


run(main, __doc__,
    full=dict(steps=6000, requests=64, places=64, width=512, depth=12, classes=100, batch=8),
    tiny=dict(steps=20, requests=3, places=8, width=16, depth=2, classes=5, batch=2))
