#!/usr/bin/env python3
"""Samples images with a U-Net, as diffusion models do, in bfloat16. Its weights are drawn, so images are not pretty."""
from program import run, torch
from torch import nn
from torch.nn import functional as F


class Stage(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.norm, self.time = nn.GroupNorm(4, inside), nn.Linear(16, outside)
        self.first, self.second = nn.Conv2d(inside, outside, 3, 1, 1), nn.Conv2d(outside, outside, 3, 1, 1)
        self.across = nn.Conv2d(inside, outside, 1)

    def forward(self, x, time):
        y = self.first(F.silu(self.norm(x))) + self.time(time)[:, :, None, None]
        return self.across(x) + self.second(F.silu(y))


class UNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        widths = [width << k for k in range(depth)]
        self.begin, self.end = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)
        self.down = nn.ModuleList(Stage(w, 2 * w) for w in widths)
        self.up = nn.ModuleList(Stage(4 * w, w) for w in reversed(widths))

    def forward(self, x, time):
        x, skipped = self.begin(x), []
        for stage in self.down:
            x = stage(x, time)
            skipped.append(x)
            x = F.avg_pool2d(x, 2)
        for stage in self.up:
            x = stage(torch.cat([F.interpolate(x, scale_factor=2), skipped.pop()], 1), time)
        return self.end(x)


def main(p):
    s = p.size
    net = p.build(UNet(s.width, s.depth)).eval()
    kept = torch.linspace(0.999, 0.01, s.steps + 1, dtype=torch.double)  # what is left of the image at each step

    def denoised(x, step):
        now, then = (kept[s.steps - step - k].item() for k in (0, 1))
        time = torch.cos(torch.arange(16) * step / s.steps).expand(x.shape[0], 16).to(p.device)
        with torch.autocast(p.device.type, torch.bfloat16, enabled=p.cuda):
            noise = net(x, time).float()
        image = ((x - (1 - now) ** 0.5 * noise) / now ** 0.5).clamp(-1, 1)
        return then ** 0.5 * image + (1 - then) ** 0.5 * noise

    with torch.no_grad():
        start = p.send(p.numbers(s.batch, 3, s.pixels, s.pixels))
        p.same(denoised(start, 0), denoised(start, 0), "a step")
        p.close(denoised(start, 0)[:1], denoised(start[:1], 0), 0.1, "an image beside others and alone")
        x = start
        for step in range(s.steps):
            x = denoised(x, step)
    p.check(x.abs().max().item() < 10, "an image has values beyond those of images")
    p.finish(x, f"mean {x.mean().item():.4f} of {s.batch} images")


run(main, __doc__,
    full=dict(steps=100, width=64, depth=3, pixels=256, batch=16),
    tiny=dict(steps=5, width=8, depth=2, pixels=16, batch=2))
