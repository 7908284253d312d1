/* hs3d: heat in a chip of N x N x 16 cells (Rodinia's hotspot3D). A round is a kernel, which makes the temperatures after a step
 * of time from those before it.
 *
 * The chip begins as a wave over ambient temperature, and each cell gets equal power. So its temperature after any number of
 * steps is known: a wave keeps its form and shrinks by a factor, and what is the same everywhere stays so. */
#include "pilot.h"

static const about what = {"Heat in a chip of N x N x 16 cells.", "step", {512, 2048, 4096}, 2, 1 << 15, FULL * 75 / 100, 2000};

enum { LAYERS = 16 };

static const float along_x = 0.1f, along_y = 0.08f, along_z = 0.02f, to_ambient = 0.001f;
static const float ambient = 80, power_of_all = 0.004f, height = 40;

__host__ __device__ static double wave(double half_waves, size_t at, size_t cells) { return cos(M_PI * half_waves * (at + 0.5) / cells); }
__host__ __device__ static double half_waves(size_t n) { return n < 64 ? 1 : n / 64; }
__host__ __device__ static double first(size_t n, size_t x, size_t y, size_t z)
{
	return height * wave(half_waves(n), x, n) * wave(half_waves(n), y, n) * wave(1, z, LAYERS);
}

__global__ void fill(float *now, float *next, float *power, size_t n)
{
	for (size_t row = blockIdx.x; row < n * LAYERS; row += gridDim.x) {
		for (size_t x = threadIdx.x; x < n; x += blockDim.x) {
			now[row * n + x] = ambient + (float)first(n, x, row % n, row / n);
			next[row * n + x] = 0;
			power[row * n + x] = power_of_all;
		}
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

/* Cells outside are as warm as those at the edge. A row at a time for each block. */
__global__ void step(const float *now, float *next, const float *power, size_t n)
{
	for (size_t row = blockIdx.x; row < n * LAYERS; row += gridDim.x) {
		const size_t y = row % n, z = row / n, at = row * n, layer = n * n;
		const float *const west = now + at, *const north = y > 0 ? west - n : west, *const south = y + 1 < n ? west + n : west;
		const float *const above = z > 0 ? west - layer : west, *const below = z + 1 < LAYERS ? west + layer : west;
		for (size_t x = threadIdx.x; x < n; x += blockDim.x) {
			const float here = west[x];
			next[at + x] = here + power[at + x] + to_ambient * (ambient - here) +
			               along_x * (west[x > 0 ? x - 1 : x] + west[x + 1 < n ? x + 1 : x] - 2 * here) +
			               along_y * (north[x] + south[x] - 2 * here) + along_z * (above[x] + below[x] - 2 * here);
		}
		CASE_STOP_POINT();
	}
}
RESTARTABLE(step);

static void verify(const float *now, size_t n, long rounds)
{
	const double cell = M_PI * half_waves(n) / n;
	const double shrinks = 1 - to_ambient - 2 * along_x * (1 - cos(cell)) - 2 * along_y * (1 - cos(cell)) -
	                       2 * along_z * (1 - cos(M_PI / LAYERS));
	double mean = ambient, error = 0;

	for (long r = 0; r < rounds; r++)
		mean += power_of_all + to_ambient * (ambient - mean);
	for (int sample = 0; sample < 2000; sample++) {
		const size_t x = mixed(sample) % n, y = mixed(~sample) % n, z = sample % LAYERS;
		const double want = mean + first(n, x, y, z) * pow(shrinks, rounds);
		keep_worst(&error, fabs(peek(now + (z * n + y) * n + x) - want));
	}
	verify_report("temperatures", error, 0.01);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t n = p.size;
	float *now = p.allocate<float>(n * n * LAYERS, "temperatures");
	float *next = p.allocate<float>(n * n * LAYERS, "next temperatures");
	float *power = p.allocate<float>(n * n * LAYERS, "power");
	p.begin(12.0 * n * n * LAYERS);
	LAUNCH(fill, p, now, next, power, n);
	p.phase("kernels");
	for (long r = 0; r < p.rounds; r++)
		LAUNCH(step, p, r % 2 ? next : now, r % 2 ? now : next, power, n);
	p.phase("verify");
	float *const last = p.rounds % 2 ? next : now;
	if (p.chosen.verify)
		verify(last, n, p.rounds);
	return p.finish(last, n * n * LAYERS * sizeof *last);
}
