#!/usr/bin/env python3
"""Continues texts word by word with a language model and a cache of keys and values, in half precision."""
from program import run, torch
from torch import nn
from torch.nn import functional as F

PIECE = 128  # words by which the cache grows, so that it is never copied


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.wide, self.narrow = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x, cache, place):
        """Adds the words x, which begin at a place of the text, to the cache: a list of pieces with keys and values."""
        batch, length, width = x.shape
        split = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, *kv = split.permute(2, 0, 3, 1, 4)
        end = place + length
        while len(cache) * PIECE < end:
            cache.append([x.new_zeros(batch, self.heads, PIECE, width // self.heads) for _ in kv])
        for piece, first in zip(cache, range(0, end, PIECE)):
            low, high = max(place, first), min(end, first + PIECE)
            for kept, new in zip(piece, kv):
                if low < high:
                    kept[:, :, low - first:high - first] = new[:, :, low - place:high - place]
        keys, values = zip(*[[t[:, :, :end - k * PIECE] for t in piece] for k, piece in enumerate(cache)])
        scores = torch.cat([q @ k.transpose(-1, -2) for k in keys], -1) / (width // self.heads) ** 0.5
        future = torch.ones(length, end, dtype=torch.bool, device=x.device).triu(1 + place)
        parts = scores.masked_fill(future, float("-inf")).softmax(-1).split(PIECE, -1)
        mixed = sum(part @ v for part, v in zip(parts, values))
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class Model(nn.Module):
    def __init__(self, words, width, heads, depth):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.last = nn.LayerNorm(width)

    def forward(self, text, caches, place):
        """Returns what the model expects after each word of a text, as scores of all words."""
        x = self.words(text)
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache, place)
        return self.last(x) @ self.words.weight.T


def main(p):
    s = p.size
    net = Model(s.words, s.width, s.heads, s.depth).eval()
    net = p.build(net.half() if p.cuda else net)
    text, scores = p.send(p.integers(s.words, s.batch, s.prompt)), []
    with torch.no_grad():
        caches = [[] for _ in net.blocks]
        expected = net(text, caches, 0)[:, -1]
        for _ in range(s.steps):
            scores.append(expected[:2].float())
            word = expected.argmax(1, keepdim=True)
            expected = net(word, caches, text.shape[1])[:, -1]
            text = torch.cat([text, word], 1)
        del caches
        # All words of two texts at once must have the scores that they had one by one.
        whole = net(text[:2], [[] for _ in net.blocks], 0)[:, s.prompt - 1:-1].float()
    p.close(torch.stack(scores, 1), whole, 0.05 * whole.abs().max().item(), "scores with the cache and without")
    p.finish(text, f"{s.steps} words more in each of {s.batch} texts")


run(main, __doc__,
    full=dict(steps=480, prompt=128, words=8192, width=2048, heads=16, depth=16, batch=64),
    tiny=dict(steps=12, prompt=4, words=64, width=32, heads=2, depth=2, batch=3))
