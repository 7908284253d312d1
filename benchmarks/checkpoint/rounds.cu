/* rounds ROUNDS MIB PAUSE_MS: computes in rounds on MIB of device memory, rests on the host after each, and checks all of it after each. It keeps
 * streams, events and page-locked memory, and a handle of cuBLAS if it is built with -DUSE_CUBLAS. Exit status: 0 all was right; 1 something was
 * wrong; 2 CUDA failed. */
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#ifdef USE_CUBLAS
#include <cublas_v2.h>
#endif

#define CUDA(call)                                                                            \
  do {                                                                                        \
    const cudaError_t error = (call);                                                         \
    if (error != cudaSuccess) {                                                               \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                          \
      exit(2);                                                                                \
    }                                                                                         \
  } while (0)

__device__ unsigned done; /* rounds */

/* Item i begins as i, and a round makes 3 x + 1 of it. */
__global__ void begin(unsigned *x, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) x[i] = (unsigned)i;
}

__global__ void advance(unsigned *x, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) x[i] = 3 * x[i] + 1;
  if (blockIdx.x + threadIdx.x == 0) done++;
}

__global__ void compare(const unsigned *x, size_t n, unsigned factor, unsigned plus, unsigned rounds, unsigned *wrong) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
    if (x[i] != factor * (unsigned)i + plus) atomicAdd(wrong, 1);
  if (blockIdx.x + threadIdx.x == 0 && done != rounds) atomicAdd(wrong, 1);
}

#ifdef USE_CUBLAS
enum { SIDE = 1024 };

/* Products of ones: each item is SIDE, which a float holds exactly. */
static void product(cublasHandle_t handle, const float *ones, float *out, unsigned *wrong) {
  const float one = 1, zero = 0;
  float sum = 0;
  const cublasStatus_t made = cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, SIDE, SIDE, SIDE, &one, ones, SIDE, ones, SIDE, &zero, out, SIDE);
  const cublasStatus_t summed = cublasSasum(handle, SIDE * SIDE, out, 1, &sum);
  if (made != CUBLAS_STATUS_SUCCESS || summed != CUBLAS_STATUS_SUCCESS || sum != (float)SIDE * SIDE * SIDE) ++*wrong;
}
#endif

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: rounds ROUNDS MIB PAUSE_MS\n");
    return 2;
  }
  const unsigned rounds = (unsigned)atoi(argv[1]);
  const size_t n = (size_t)atoi(argv[2]) << 18;
  unsigned *x, *wrong, factor = 1, plus = 0;
  cudaStream_t stream;
  cudaEvent_t over;
  CUDA(cudaMalloc(&x, n * sizeof *x));
  CUDA(cudaMallocHost(&wrong, sizeof *wrong));
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaEventCreate(&over));
  *wrong = 0;
  begin<<<1024, 256, 0, stream>>>(x, n);
#ifdef USE_CUBLAS
  static float ones[SIDE * SIDE];
  float *a, *b;
  cublasHandle_t handle;
  for (float &v : ones) v = 1;
  CUDA(cudaMalloc(&a, sizeof ones));
  CUDA(cudaMalloc(&b, sizeof ones));
  CUDA(cudaMemcpy(a, ones, sizeof ones, cudaMemcpyHostToDevice));
  if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS || cublasSetStream(handle, stream) != CUBLAS_STATUS_SUCCESS) {
    fprintf(stderr, "cuBLAS cannot be started\n");
    return 2;
  }
#endif
  for (unsigned r = 1; r <= rounds; r++) {
    advance<<<1024, 256, 0, stream>>>(x, n);
    factor *= 3, plus = 3 * plus + 1;
    compare<<<1024, 256, 0, stream>>>(x, n, factor, plus, r, wrong);
    CUDA(cudaGetLastError());
    CUDA(cudaEventRecord(over, stream));
    CUDA(cudaEventSynchronize(over));
#ifdef USE_CUBLAS
    product(handle, a, b, wrong);
#endif
    if (*wrong != 0) {
      printf("round %u: %u items are wrong\n", r, *wrong);
      return 1;
    }
    usleep(1000u * (unsigned)atoi(argv[3]));
  }
  printf("%u rounds right\n", rounds);
  return 0;
}
