__global__ void times(float *p, int n, float by) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] *= by; }
int scale(float *host, int n, float by)
{
	float *d;
	if (cudaMalloc(&d, n * sizeof *d) != cudaSuccess)
		return 1;
	cudaMemcpy(d, host, n * sizeof *d, cudaMemcpyHostToDevice);
	times<<<(n + 63) / 64, 64>>>(d, n, by);
	cudaMemcpy(host, d, n * sizeof *d, cudaMemcpyDeviceToHost);
	return cudaFree(d);
}
