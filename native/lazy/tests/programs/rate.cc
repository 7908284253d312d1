// rate.cc: what a call costs, natively or with the lazy runtime in between.
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "program.h"

static double nanoseconds()
{
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <class Call> static double each(int times, Call call)
{
	const double start = nanoseconds();
	for (int i = 0; i < times; i++)
		call();
	return (nanoseconds() - start) / times;
}

// Page-locked memory is timed while the task is unbound, together with the first write to it, because
// programs make it first. For all later calls the task is bound: the first launch, which is not
// timed, pays for the grant.
void rate()
{
	const int times = 20000;
	const size_t mib = 256;
	void *pinned = nullptr;
	const double filled = each(1, [&] {
		TRY(cudaMallocHost(&pinned, mib << 20));
		memset(pinned, 1, mib << 20);
	});
	int *kept = device<int>(16), number = 1;
	void *p = nullptr;

	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	const double launches = each(times, [] { LAUNCH(nothing, grid, block, 0, nullptr); });
	TRY(cudaDeviceSynchronize());
	const double copies = each(times, [&] { cudaMemcpy(kept, &number, sizeof number, cudaMemcpyHostToDevice); });
	const double pairs = each(times, [&] { cudaMalloc(&p, 4096), cudaFree(p); });
	TRY(cudaFree(kept));
	TRY(cudaFreeHost(pinned));
	say("launch %.1f copy %.1f malloc_free %.1f pinned_mib %.1f", launches, copies, pairs, filled / mib);
}

// launch_rate says what is spent before CUDA in a launch that is given memory, in the default stream and in one of the
// program's, in ns: the least of many rounds.
void launch_rate()
{
	double least[] = {1e9, 1e9};
	int *x = device<int>(1 << 20);
	cudaStream_t streams[] = {nullptr, nullptr};

	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 0, 1));
	TRY(cudaStreamCreate(&streams[1]));
	TRY(cudaDeviceSynchronize());
	skip_launches();
	for (int round = 0; round < 200; round++)
		for (int i : {0, 1})
			least[i] = std::min(least[i], each(5000, [&] { LAUNCH(add, grid, block, 0, streams[i], x, 0, 1); }));
	TRY(cudaStreamDestroy(streams[1]));
	TRY(cudaFree(x));
	say("launch %.1f in_stream %.1f", least[0], least[1]);
}

// burst_rate says what is spent before CUDA in a launch after 4 ms on the host, where a burst would have ended, in us: the median.
void burst_rate()
{
	int *x = device<int>(1 << 20);
	std::vector<double> launches;

	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 0, 1));
	for (int i = 0; i < 101; i++) {
		TRY(cudaDeviceSynchronize());
		usleep(4000);
		launches.push_back(each(1, [&] { LAUNCH(add, grid, block, 0, nullptr, x, 0, 1); }));
	}
	TRY(cudaFree(x));
	std::sort(launches.begin(), launches.end());
	say("launch %.1f", launches[launches.size() / 2] / 1e3);
}

// allocation_rate says what an allocation takes where the program has few others, and where it has many, in ns.
void allocation_rate()
{
	const int few = 500, all = 8000;
	const size_t bytes = 600 << 10;
	std::vector<void *> made;
	const auto allocate = [&] {
		made.push_back(nullptr);
		TRY(cudaMalloc(&made.back(), bytes));
	};

	allocate();
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	const double first = each(few, allocate);
	each(all - 2 * few, allocate);
	const double last = each(few, allocate);
	for (void *p : made)
		TRY(cudaFree(p));
	say("few %.0f many %.0f", first, last);
}
