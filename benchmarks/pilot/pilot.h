/* pilot.h: what the programs of this folder share: arguments, memory, launches, phases and results. It adds to what the
 * builtin suite shares (../rodinia/common). README.md has the options.
 *
 * A program makes its `program`, allocates all that it needs, and then calls begin. All its memory exists from there on. */
#ifndef PILOT_H
#define PILOT_H

#include "../rodinia/common/suite.h"

#include <math.h>
#include <string.h>

#include <vector>

/* PILOT_STOPS is whether kernels can be stopped. */
#ifndef PILOT_STOPS
#define PILOT_STOPS 1
#endif
#ifndef ENDLESS /* on the host a kernel without end returns (host/cuda_runtime.h) */
#define ENDLESS(condition) ((void)0)
#endif
#if defined(CASE_STOP_POINT)
#define CASE_RESTARTABLE(kernel)
#elif PILOT_STOPS
#include "../../native/stop/case_stop.h"
#else
#define CASE_STOP_POINT() ((void)0)
#define CASE_STOP_POINT_BLOCK() ((void)0)
#define CASE_RESTARTABLE(kernel)
#endif

/* KERNEL(k) follows the kernel k, and RESTARTABLE(k) one that does the same if it is begun again. LAUNCH runs it on the program's grid, LAUNCH_ON on another number of blocks of so many threads. */
#ifndef KERNEL
#define KERNEL(kernel) static_assert(true, "")
#define LAUNCH_ON(kernel, grid, threads, ...) \
	(kernel<<<grid, threads>>>(__VA_ARGS__), gpu_check(cudaGetLastError(), #kernel, __FILE__, __LINE__))
#endif
#ifndef RESTARTABLE
#define RESTARTABLE(kernel) CASE_RESTARTABLE(kernel) KERNEL(kernel)
#endif
#define LAUNCH(kernel, program, ...) LAUNCH_ON(kernel, (program).blocks, (program).threads, __VA_ARGS__)

/* mixed is a hash of a number (the finalizer of splitmix64), and unit its value in [0, 1), the same on host and device. */
__host__ __device__ inline uint64_t mixed(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}
__host__ __device__ inline double unit(uint64_t x) { return (double)(mixed(x) >> 40) / (1 << 24); }

/* first_item and items_apart are a thread's part of a loop over a kernel's items. */
__device__ inline size_t first_item() { return blockIdx.x * (size_t)blockDim.x + threadIdx.x; }
__device__ inline size_t items_apart() { return gridDim.x * (size_t)blockDim.x; }

/* What a program is. */
struct about {
	const char *does;          /* a sentence */
	const char *kernel;        /* that takes longest */
	long sizes[3];             /* sm, md and lg */
	long smallest, largest;    /* that it takes */
	unsigned blocks;           /* of its grid by default */
	long most_rounds;          /* by default; 0: the default is endless rounds */
};

/* An option of one program: a number of at least `least`, or a text. */
struct own_option {
	const char *name;
	double *number;
	double least;
	const char **text;
};

/* An H200 holds so many blocks of 256 threads. */
enum { FULL = 132 * 8 };

class program {
public:
	/* The arguments are read. Errors in them end the process. */
	program(int argc, char **argv, const about &what, const std::vector<own_option> &own = {});

	long size, rounds;
	unsigned blocks, threads;
	options chosen;

	/* allocate never returns nullptr but where nothing runs (--footprint). */
	template <typename T> T *allocate(size_t count, const char *name)
	{
		return static_cast<T *>(allocate_bytes(count * sizeof(T), name));
	}

	/* begin ends the set of allocations: with --footprint it prints them and ends the process. Unless --rounds says how many
	 * rounds there are, they are as many as move 2 TB, if a round moves so many bytes: half a second on an H200. */
	void begin(double bytes_a_round);

	/* phase waits for the device, and begins the next phase. */
	void phase(const char *name);

	/* finish prints the checksum of the result, which is in device memory, writes it with --out, and frees all memory. */
	int finish(const void *result, size_t bytes);

	/* finish_on_host does so with a result in memory of the host. */
	int finish_on_host(const void *result, size_t bytes);

private:
	int tear_down();
	void *allocate_bytes(size_t bytes, const char *name);

	const about what_;
	bool managed_ = false;
	std::vector<void *> memory_;
	uint64_t bytes_ = 0;
	phase_clock clock_;
};

/* peek returns an element of device memory. */
template <typename T> T peek(const T *device)
{
	T value;
	copy_to_host(&value, device, sizeof value);
	return value;
}

#endif
