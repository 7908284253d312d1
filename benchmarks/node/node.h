/* node.h: programs whose host works after each kernel, for a part of the kernel's length. They are programs of the kind of
 * ../pilot, with the option --cpu-fraction. README.md says more. */
#ifndef NODE_H
#define NODE_H

#define PILOT_STOPS 0
#include "../pilot/pilot.h"

#include <time.h>

/* When the first block of a kernel began and the last one ended, in nanoseconds of the device's clock. It is in memory
 * of the device: kernels that write to the host slow the page tables of neighbours. */
struct span {
	unsigned long long from, to;
};

inline double now_s()
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__device__ inline unsigned long long device_ns()
{
#ifdef FAKE_NVCC
	return (unsigned long long)(now_s() * 1e9);
#else
	unsigned long long ns;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
#endif
}

/* stamped notes in a kernel when its block begins and ends. All threads of the block come to the end. */
class stamped {
public:
	__device__ explicit stamped(span *ran) : ran_(ran)
	{
		if (threadIdx.x == 0)
			atomicMin(&ran_->from, device_ns());
	}
	__device__ ~stamped()
	{
		__syncthreads();
		if (threadIdx.x == 0)
			atomicMax(&ran_->to, device_ns());
	}

private:
	span *ran_;
};

/* work_until works on the host until a time of now_s. */
inline void work_until(double end)
{
	volatile uint64_t work = 0;

	while (now_s() < end)
		for (int i = 0; i < 1000; i++)
			work = work * 6364136223846793005u + 1;
}

static double cpu_fraction, repeats;

class node_program : public program {
public:
	node_program(int argc, char **argv, const about &what, std::vector<own_option> own = {})
		: program(argc, argv, what, (own.insert(own.end(), {{"--cpu-fraction", &cpu_fraction, 0, nullptr}, {"--repeats", &repeats, 1, nullptr}}), own)), ran(allocate<span>(1, "times"))
	{
	}

	span *const ran;

	/* times is how often the program does what it repeats, in place of its own number. */
	int times(int own) const { return repeats > 0 ? (int)repeats : own; }

	/* begin is program::begin for so many launches that each move so many bytes in a round: by default they move 0.5 TB
	 * together, which a C2050 does in four seconds. */
	void begin(long launches, double bytes) { program::begin(4 * launches * bytes); }

	/* before and after are called before and after a launch whose kernel is stamped. after returns how long it ran. */
	void before()
	{
		const span none = {~0ull, 0};

		copy_to_device(ran, &none, sizeof none);
		launched_ = now_s();
	}
	double after()
	{
		GPU(cudaDeviceSynchronize());
		const span it = peek(ran);
		const double over = now_s(), seconds = it.to < it.from ? 0 : (double)(it.to - it.from) * 1e-9;

		work_until(over + cpu_fraction * seconds);
		kernels_s_ += seconds;
		waited_s_ += over - launched_ - seconds;
		host_s_ += now_s() - over;
		return seconds;
	}

	int finish(const void *result, size_t bytes)
	{
		print_times();
		return program::finish(result, bytes);
	}
	int finish_on_host(const void *result, size_t bytes)
	{
		print_times();
		return program::finish_on_host(result, bytes);
	}

private:
	void print_times() const { fprintf(stderr, "kernels %.3f s, host work %.3f s, waited %.3f s\n", kernels_s_, host_s_, waited_s_); }

	double launched_ = 0, kernels_s_ = 0, waited_s_ = 0, host_s_ = 0;
};

/* STEP_ON launches a stamped kernel, whose last argument is the program's `ran`, and waits for it. STEP does so on the program's grid. */
#define STEP_ON(kernel, p, blocks, ...) ((p).before(), LAUNCH_ON(kernel, blocks, (p).threads, __VA_ARGS__, (p).ran), (p).after())
#define STEP(kernel, p, ...) STEP_ON(kernel, p, (p).blocks, __VA_ARGS__)

/* upload fills device memory with what `of` says of each index, and returns a copy. */
template <class T, class F> std::vector<T> upload(T *device, size_t count, F of)
{
	std::vector<T> values(count);

	for (size_t i = 0; i < count; i++)
		values[i] = (T)of(i);
	copy_to_device(device, values.data(), count * sizeof(T));
	return values;
}

template <class T> std::vector<T> download(const T *device, size_t count)
{
	std::vector<T> values(count);

	copy_to_host(values.data(), device, count * sizeof(T));
	return values;
}

#endif
