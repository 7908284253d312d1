// grows.cc: a program whose memory grows step by step, drawn from a seed.
#include <stdlib.h>
#include <unistd.h>

#include <random>

#include "program.h"

struct Part {
	int *x;
	std::vector<int> want;
};

// is_right compares what is on the device with what must be there.
static bool is_right(const Part &p)
{
	std::vector<int> got(p.want.size());
	TRY(cudaMemcpy(got.data(), p.x, got.size() * sizeof(int), cudaMemcpyDeviceToHost));
	return got == p.want;
}

// grows SEED: takes memory in 4 to 8 steps, of up to 4 MiB each, sometimes gives some back, and adds to all that it has after each
// step. With seed 0 it takes 4 MiB in each of 5 steps.
void grows(const char *seed)
{
	std::mt19937 random(static_cast<unsigned>(atoi(seed)));
	const bool even = atoi(seed) == 0;
	const unsigned steps = even ? 5 : 4 + random() % 5;
	std::vector<Part> parts;
	Meeting meeting;
	bool right = true;

	for (unsigned step = 1; step <= steps; step++) {
		const size_t n = (even ? 8 : 1 + random() % 8) * (mib / 2) / sizeof(int);
		Part p = {nullptr, numbers(n, static_cast<int>(step))};
		if (cudaMalloc(reinterpret_cast<void **>(&p.x), n * sizeof(int)) != cudaSuccess) {
			say("no memory in step %u", step);
			exit(3);
		}
		TRY(cudaMemcpy(p.x, p.want.data(), n * sizeof(int), cudaMemcpyHostToDevice));
		parts.push_back(std::move(p));
		for (Part &q : parts) {
			const int count = static_cast<int>(q.want.size());
			TRY(LAUNCH(add, grid, block, 0, nullptr, q.x, count, static_cast<int>(step)));
			for (int &v : q.want)
				v += static_cast<int>(step);
		}
		TRY(cudaDeviceSynchronize());
		meeting.wait();
		if (!even && parts.size() > 2 && random() % 4 == 0) {
			const auto gone = parts.begin() + static_cast<long>(random() % parts.size());
			right = is_right(*gone) && right;
			TRY(cudaFree(gone->x));
			parts.erase(gone);
		}
		usleep(random() % 2000);
	}
	for (const Part &p : parts) {
		right = is_right(p) && right;
		TRY(cudaFree(p.x));
	}
	say(right ? "right" : "wrong");
	exit(right ? 0 : 4);
}
