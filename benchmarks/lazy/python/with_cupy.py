"""CuPy: a CUDA runtime linked statically into its modules, NVRTC, cuFFT, cuBLAS,
cuSOLVER, pools, managed memory, a captured graph. Prints what it computed."""
import cupy as cp
import numpy as np


def show(name, a):
    print(name, f"{float(cp.asnumpy(a).astype(np.float64).sum()):.6e}")


print("count", cp.cuda.runtime.getDeviceCount(), "current", cp.cuda.runtime.getDevice())
x = cp.arange(1 << 20, dtype=cp.float32)
show("elementwise", cp.sqrt(x) * 2 + 1)
add = cp.RawKernel(r"""extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) c[i] = a[i] + 2 * b[i]; }""", "add")
out = cp.empty_like(x)
add((4096,), (256,), (x, x, out, np.int32(x.size)))
show("kernel", out)
module = cp.RawModule(code=r"""__constant__ float f[4]; extern "C" __global__ void scale(float *a, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) a[i] *= f[i & 3]; }""")
cp.ndarray(4, cp.float32, module.get_global("f"))[:] = cp.arange(4, dtype=cp.float32)
module.get_function("scale")((4096,), (256,), (out, np.int32(out.size)))
show("constant", out)
show("transform", cp.abs(cp.fft.rfft(x[:4096])))
a = cp.asarray(np.random.RandomState(1).rand(256, 256).astype(np.float32))
show("product", a @ a)
show("solution", cp.linalg.solve(a + 256 * cp.eye(256, dtype=cp.float32), a[:, :4]))
stream = cp.cuda.Stream(non_blocking=True)
with stream:
    tripled = x * 3
    done = stream.record()
done.synchronize()
show("stream", tripled)
pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(4096), np.float32, 1024)
pinned[:] = 5
d = cp.empty(1024, cp.float32)
d.set(pinned, stream=stream)
stream.synchronize()
show("pinned", d)
cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
show("asynchronous pool", cp.ones(1 << 20, cp.float32) + x)
cp.cuda.set_allocator(cp.cuda.MemoryPool(cp.cuda.malloc_managed).malloc)
show("managed", cp.ones(1 << 20, cp.float32) + x)
with cp.cuda.Stream(non_blocking=True) as s:
    s.begin_capture()
    w = d * 2
    graph = s.end_capture()
    graph.launch()
    s.synchronize()
show("graph", w)
show("sort", cp.sort(-x)[:10])
