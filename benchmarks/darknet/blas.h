/* blas.h: matrix products through cuBLAS and random numbers through cuRAND, with
 * checked calls. */
#ifndef DARKNET_BLAS_H
#define DARKNET_BLAS_H

#include <cublas_v2.h>
#include <curand.h>
#include <stdint.h>

/* Products of row-major float32 matrices on the default stream. The same product gives
 * the same bits on GPUs of one kind, because cuBLAS uses only the caller's workspace as
 * scratch memory, and atomics are off (cuBLAS's default). */
class blas {
public:
	blas(void *workspace, size_t bytes);
	~blas();
	blas(const blas &) = delete;
	blas &operator=(const blas &) = delete;

	/* c (m x n) = a (m x k) b (k x n) + old * c. transpose_a: a is stored
	 * k x m; transpose_b: b is stored n x k. */
	void multiply(bool transpose_a, bool transpose_b, int m, int n, int k, const float *a, const float *b,
	              float old, float *c) const;

private:
	cublasHandle_t handle_;
};

/* Uniform numbers on the device, from cuRAND's default generator. */
class device_random {
public:
	explicit device_random(uint64_t seed);
	~device_random();
	device_random(const device_random &) = delete;
	device_random &operator=(const device_random &) = delete;

	void fill(float *values, size_t count) const;

private:
	curandGenerator_t generator_;
};

#endif
