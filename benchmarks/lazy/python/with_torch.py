"""PyTorch: the shared CUDA runtime, cuBLAS, cuDNN, cuFFT, cuSOLVER, streams, a
graph, pinned memory, its own allocator and a few steps of training. It counts GPUs
through NVML. Prints what it computed."""
import os

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch

torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.manual_seed(1)
device = torch.device("cuda")
random = torch.Generator().manual_seed(2)


def show(name, t):
    print(name, f"{t.double().sum().item():.6e}", f"{t.double().abs().max().item():.6e}")


def draw(*shape):
    return torch.randn(*shape, generator=random).to(device)


print("count", torch.cuda.device_count(), "current", torch.cuda.current_device())
x, y = draw(512, 512), draw(512, 512)
show("product", x @ y)
show("half", (x.half() @ y.half()).float())
image = draw(4, 3, 64, 64)
show("convolution", torch.nn.functional.conv2d(image, draw(16, 3, 3, 3), padding=1))
show("transform", torch.fft.rfft2(image).abs())
show("solution", torch.linalg.solve(x[:64, :64] + 64 * torch.eye(64, device=device), y[:64, :8]))

first, second, done = torch.cuda.Stream(), torch.cuda.Stream(priority=-1), torch.cuda.Event()
pinned, out = torch.arange(1 << 20, dtype=torch.float32).pin_memory(), torch.empty(1 << 20, pin_memory=True)
with torch.cuda.stream(first):
    doubled = pinned.to(device, non_blocking=True).mul_(2)
    done.record()
second.wait_event(done)
with torch.cuda.stream(second):
    out.copy_(doubled + 1, non_blocking=True)
second.synchronize()
show("streams", out)

fixed, layer, side = torch.zeros(1024, 256, device=device), torch.nn.Linear(256, 256).to(device), torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side), torch.no_grad():
    for _ in range(3):
        layer(fixed).relu()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph), torch.no_grad():
    result = layer(fixed).relu()
for k in range(5):
    fixed.fill_(k)
    graph.replay()
torch.cuda.synchronize()
show("graph", result)

net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
                          torch.nn.Linear(8 * 30 * 30, 10)).to(device)
steps, inputs = torch.optim.Adam(net.parameters(), 1e-3), draw(32, 3, 32, 32)
labels = torch.randint(0, 10, (32,), generator=random).to(device)
for _ in range(10):
    steps.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(net(inputs), labels)
    loss.backward()
    steps.step()
print("loss", f"{loss.item():.6f}")
free, total = torch.cuda.mem_get_info()
print("memory", 0 < free <= total, torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved() > 0)
