/* lavamd: forces between particles of N x N x N boxes with 100 particles each (Rodinia's lavaMD). Particles of the same box and
 * of boxes that touch act on each other. All rounds compute the same. */
#include "pilot.h"

static const about what = {"Forces between the particles of N x N x N boxes.", "forces", {10, 50, 100}, 1, 256, FULL * 56 / 100, 100};

enum { PARTICLES = 100, NEIGHBOURS = 26 };

static const double alpha = 0.5;

struct particle {
	double v, x, y, z;
};
struct place {
	int x, y, z, number;
	long first; /* its first particle */
};
struct box {
	place here;
	int neighbours;
	place near[NEIGHBOURS];
};
static_assert(sizeof(box) == 656, "as in Rodinia");

__host__ __device__ static double tenth(uint64_t i) { return (double)(mixed(i) % 10 + 1) / 10; }
__host__ __device__ static particle particle_of(size_t i)
{
	return particle{tenth(5 * i), tenth(5 * i + 1), tenth(5 * i + 2), tenth(5 * i + 3)};
}
__host__ __device__ static double charge_of(size_t i) { return tenth(5 * i + 4); }

__host__ __device__ static void interact(particle *force, const particle &a, const particle &b, double charge)
{
	const double u = exp(-2 * alpha * alpha * (a.v + b.v - (a.x * b.x + a.y * b.y + a.z * b.z)));

	force->v += charge * u;
	force->x += 2 * charge * u * (a.x - b.x);
	force->y += 2 * charge * u * (a.y - b.y);
	force->z += 2 * charge * u * (a.z - b.z);
}

__host__ __device__ static place place_of(int number, int side)
{
	return place{number % side, number / side % side, number / side / side, number, (long)number * PARTICLES};
}

/* neighbour returns the box at a place beside another one, or -1. The places are 0 to 26, and 13 is the box itself. */
__host__ __device__ static int neighbour(place of, int which, int side)
{
	const int x = of.x + which % 3 - 1, y = of.y + which / 3 % 3 - 1, z = of.z + which / 9 - 1;
	const bool inside = x >= 0 && y >= 0 && z >= 0 && x < side && y < side && z < side;

	return inside ? (z * side + y) * side + x : -1;
}

__global__ void fill(box *boxes, particle *position, double *charge, int side)
{
	for (size_t b = first_item(); b < (size_t)side * side * side; b += items_apart()) {
		const place here = place_of((int)b, side);
		int neighbours = 0;
		for (int which = 0; which < 27; which++) {
			const int other = neighbour(here, which, side);
			if (which != 13 && other >= 0)
				boxes[b].near[neighbours++] = place_of(other, side);
		}
		boxes[b].here = here;
		boxes[b].neighbours = neighbours;
		for (size_t i = here.first; i < (size_t)here.first + PARTICLES; i++) {
			position[i] = particle_of(i);
			charge[i] = charge_of(i);
		}
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

/* A box for each block. */
__global__ void forces(const box *boxes, const particle *position, const double *charge, particle *force, long count, long rounds)
{
	__shared__ particle other[PARTICLES];
	__shared__ double other_charge[PARTICLES];

	for (long item = blockIdx.x; item < count * rounds; item += gridDim.x) {
		const box *mine = &boxes[item % count];
		for (int round = 0; round * (int)blockDim.x < PARTICLES; round++) {
			const int t = round * blockDim.x + threadIdx.x;
			particle sum = {0, 0, 0, 0}, home = {0, 0, 0, 0};
			if (t < PARTICLES)
				home = position[mine->here.first + t];
			for (int n = 0; n <= mine->neighbours; n++) {
				const long first = n ? mine->near[n - 1].first : mine->here.first;
				__syncthreads();
				for (int j = threadIdx.x; j < PARTICLES; j += blockDim.x) {
					other[j] = position[first + j];
					other_charge[j] = charge[first + j];
				}
				__syncthreads();
				if (t < PARTICLES)
					for (int j = 0; j < PARTICLES; j++)
						interact(&sum, home, other[j], other_charge[j]);
			}
			if (t < PARTICLES)
				force[mine->here.first + t] = sum;
		}
		CASE_STOP_POINT_BLOCK();
	}
}
RESTARTABLE(forces);

static void verify(const particle *force, int side)
{
	double error = 0;

	for (int sample = 0; sample < 200; sample++) {
		const place here = place_of(mixed(sample) % (side * side * side), side);
		const long i = here.first + sample % PARTICLES;
		const particle got = peek(force + i);
		particle want = {0, 0, 0, 0};
		for (int which = 0; which < 27; which++) {
			const int other = neighbour(here, which, side);
			for (long j = (long)other * PARTICLES; other >= 0 && j < (long)(other + 1) * PARTICLES; j++)
				interact(&want, particle_of(i), particle_of(j), charge_of(j));
		}
		keep_worst(&error, relative_error(got.v, want.v, 1));
		keep_worst(&error, relative_error(got.x, want.x, want.v));
		keep_worst(&error, relative_error(got.y, want.y, want.v));
		keep_worst(&error, relative_error(got.z, want.z, want.v));
	}
	verify_report("forces", error, 1e-10);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t count = (size_t)p.size * p.size * p.size;
	box *boxes = p.allocate<box>(count, "boxes");
	particle *position = p.allocate<particle>(count * PARTICLES, "positions");
	double *charge = p.allocate<double>(count * PARTICLES, "charges");
	particle *force = p.allocate<particle>(count * PARTICLES, "forces");
	p.begin(2e6 * count);
	LAUNCH(fill, p, boxes, position, charge, p.size);
	p.phase("kernels");
	LAUNCH(forces, p, boxes, position, charge, force, count, p.rounds);
	p.phase("verify");
	if (p.chosen.verify)
		verify(force, p.size);
	return p.finish(force, count * PARTICLES * sizeof *force);
}
