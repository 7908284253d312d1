#!/usr/bin/env python3
"""Trains a residual convolutional network that classifies images."""
from program import run, torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.across = nn.Conv2d(inside, outside, 1, stride, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outside) for _ in range(2))

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.across(x))


def main(p):
    s = p.size
    widths = [s.width << k for k in range(4)]
    stages = [Residual(a, b, 2 if k else 1) for k, (a, b) in enumerate(zip([s.width] + widths, widths))]
    net = p.build(nn.Sequential(nn.Conv2d(3, s.width, 3, 1, 1), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                nn.Linear(widths[-1], s.classes)))
    patterns = p.numbers(s.classes, 3, s.pixels, s.pixels)

    def batch():
        # Each class has a pattern, which noise hides.
        labels = p.integers(s.classes, s.batch)
        return patterns[labels] + 2 * p.numbers(s.batch, 3, s.pixels, s.pixels), labels

    def loss(images, labels):
        return F.cross_entropy(net(images), labels)

    first, last = p.learn(net, torch.optim.SGD(net.parameters(), s.rate, momentum=0.9), batch, loss)
    p.check(last < first / 2, f"the loss fell from {first:.4f} only to {last:.4f}")
    p.gradients(Residual(2, 2, 1).double().to(p.device), (2, 2, 4, 4))
    p.finish(net[-1].weight, f"loss {first:.4f} to {last:.4f}")


run(main, __doc__,
    full=dict(steps=120, width=64, classes=16, pixels=64, batch=256, rate=0.05),
    tiny=dict(steps=30, width=4, classes=4, pixels=16, batch=16, rate=0.05))
