/* hs: a step of the heat of a chip, whose N x N cells have a power each, in one launch. */
#include "node.h"

static const about what = {"Heat of N x N cells.", "heat", {64, 256, 1024}, 2, 1L << 16, FULL, 1L << 24};

/* next is the temperature of a cell after the step. */
__host__ __device__ static float next(const float *heat, const float *power, size_t n, size_t cell)
{
	const size_t row = cell / n, column = cell % n;
	const float own = heat[cell], up = heat[row > 0 ? cell - n : cell], down = heat[row < n - 1 ? cell + n : cell],
		    left = heat[column > 0 ? cell - 1 : cell], right = heat[column < n - 1 ? cell + 1 : cell];

	return own + 0.1f * (up + down + left + right - 4 * own) + 0.01f * (80 - own) + power[cell];
}

__global__ void heat(const float *before, const float *power, float *after, size_t n, long rounds, span *ran)
{
	const stamped all(ran);

	for (long r = 0; r < rounds; r++)
		for (size_t cell = first_item(); cell < n * n; cell += items_apart())
			after[cell] = next(before, power, n, cell);
}
KERNEL(heat);

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const size_t n = p.size, cells = n * n;
	float *before = p.allocate<float>(cells, "heat"), *power = p.allocate<float>(cells, "power"), *after = p.allocate<float>(cells, "next heat");
	p.begin(1, 12.0 * cells);
	const std::vector<float> of = upload(before, cells, [](size_t i) { return 323 + 20 * unit(i); }), by = upload(power, cells, [](size_t i) { return unit(~i); });
	p.phase("kernels");
	STEP(heat, p, before, power, after, n, p.rounds);
	p.phase("verify");
	if (p.chosen.verify) {
		const std::vector<float> got = download(after, cells);
		double error = 0;
		for (size_t cell = 0; cell < cells; cell++)
			keep_worst(&error, fabs(got[cell] - next(of.data(), by.data(), n, cell)));
		verify_report("cells", error, 1e-3);
	}
	return p.finish(after, cells * sizeof *after);
}
