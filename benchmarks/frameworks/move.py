#!/usr/bin/env python3
"""move.py SEED: 60 training steps of matrix products, convolutions, attention and an embedding. It pauses every ten steps,
so that its memory can leave the device, and prints losses and a checksum of the weights."""
import os
import sys
import time
import zlib

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
generator = torch.Generator().manual_seed(int(sys.argv[1]))
began = time.monotonic()


def weights(*shape):
    return (torch.rand(*shape, generator=generator) * 0.1 - 0.05).to("cuda")


table = weights(300000, 512).requires_grad_()
products = [weights(2048, 2048).requires_grad_() for _ in range(8)]
filters = [weights(64, 64, 3, 3).requires_grad_() for _ in range(4)]
qkv = weights(512, 1536).requires_grad_()
parameters = [table, qkv, *products, *filters]
momenta = [torch.zeros_like(p) for p in parameters]
images = weights(32, 64, 64, 64)
for step in range(1, 61):
    ids = torch.randint(300000, (8, 512), generator=generator).to("cuda")
    q, k, v = (F.embedding(ids, table) @ qkv).view(8, 512, 3, 8, 64).permute(2, 0, 3, 1, 4)
    with torch.autocast("cuda", torch.bfloat16):
        attended = torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v
    x = attended.float().transpose(1, 2).reshape(1024, 2048)
    for product in products:
        x = torch.relu(x @ product) + x
    y = images
    for f in filters:
        y = torch.relu(F.conv2d(y, f, padding=1)) + y
    loss = x.square().mean() + y.square().mean()
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, momentum, gradient in zip(parameters, momenta, gradients):
            momentum.mul_(0.9).add_(gradient)
            parameter.sub_(momentum, alpha=0.01)
    del gradients
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.9e}", flush=True)
        time.sleep(0.1)
checksum = 0
for parameter in parameters:
    checksum = zlib.crc32(parameter.detach().cpu().numpy().tobytes(), checksum)
print(f"checksum {checksum:08x}", flush=True)
print(f"{time.monotonic() - began:.1f} s, {torch.cuda.max_memory_reserved() / 2**30:.2f} GiB", file=sys.stderr)
