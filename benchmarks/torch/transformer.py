#!/usr/bin/env python3
"""Trains a transformer that continues sequences, in bfloat16."""
from program import run, torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1).to(v.dtype) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class Transformer(nn.Module):
    def __init__(self, words, length, width, heads, depth):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, text):
        x = self.words(text) + self.places.weight[:text.shape[1]]
        return self.head(self.last(self.blocks(x)))


def main(p):
    s = p.size
    net = p.build(Transformer(s.words, s.length, s.width, s.heads, s.depth))

    def batch():
        # The next word is 5 * word + 1, so there is something to learn.
        text = [p.integers(s.words, s.batch)]
        for _ in range(s.length):
            text.append((5 * text[-1] + 1) % s.words)
        text = torch.stack(text, 1)
        return text[:, :-1], text[:, 1:]

    def loss(text, following):
        with torch.autocast(p.device.type, torch.bfloat16, enabled=p.cuda):
            return F.cross_entropy(net(text).flatten(0, 1), following.flatten())

    first, last = p.learn(net, torch.optim.AdamW(net.parameters(), s.rate), batch, loss)
    p.check(last < first / 2, f"the loss fell from {first:.4f} only to {last:.4f}")
    p.gradients(Block(8, 2).double().to(p.device), (1, 3, 8))
    p.finish(net.head.weight, f"loss {first:.4f} to {last:.4f}")


run(main, __doc__,
    full=dict(steps=150, words=2048, length=512, width=768, heads=12, depth=8, batch=16, rate=3e-4),
    tiny=dict(steps=40, words=32, length=16, width=32, heads=2, depth=2, batch=8, rate=3e-3))
