/* lavaMD: potential and forces between particles within a cut-off radius, over
 * a cube of boxes (Szafaryn, Gamblin, de Supinski and Skadron, "Experiences
 * with achieving portability across heterogeneous architectures", WOLFHPC
 * 2011). Each box interacts with itself and its up to 26 neighbours. */
#include "common/suite.h"

#include <math.h>
#include <string.h>

static const char usage[] =
	"usage: lavaMD -boxes1d N [options]\n"
	"Forces on the particles of N x N x N boxes of 100 particles.\n";

enum { PARTICLES = 100, BLOCK = 128, NEIGHBOURS = 26 };

static const double alpha = 0.5; /* width of the interaction */

struct vector4 {
	double v, x, y, z;
};

struct place {
	int x, y, z, number;
	long first; /* index of the box's first particle */
};

struct box {
	place here;
	int neighbours;
	place near[NEIGHBOURS];
};

static_assert(sizeof(box) == 656, "the footprint counts 656 bytes per box");

/* interact adds to `force` the force of a particle at `b` on a particle at `a`. */
__device__ inline void interact(vector4 *force, const vector4 &a, const vector4 &b, double charge,
                                double a2)
{
	const double r2 = a.v + b.v - (a.x * b.x + a.y * b.y + a.z * b.z);
	const double potential = exp(-a2 * r2);
	const double field = 2 * potential;

	force->v += charge * potential;
	force->x += charge * field * (a.x - b.x);
	force->y += charge * field * (a.y - b.y);
	force->z += charge * field * (a.z - b.z);
}

/* One block per box, one thread per particle of the box. */
__global__ void box_forces(const box *boxes, const vector4 *position, const double *charge,
                           vector4 *force, double a2)
{
	__shared__ vector4 home[PARTICLES], other[PARTICLES];
	__shared__ double other_charge[PARTICLES];
	const int t = threadIdx.x;
	const box *mine = &boxes[blockIdx.x];
	const bool active = t < PARTICLES;
	vector4 sum;

	if (active) {
		home[t] = position[mine->here.first + t];
		sum = force[mine->here.first + t];
	}
	for (int n = 0; n <= mine->neighbours; n++) {
		const long first = n ? mine->near[n - 1].first : mine->here.first;
		__syncthreads();
		if (active) {
			other[t] = position[first + t];
			other_charge[t] = charge[first + t];
		}
		__syncthreads();
		if (active)
			for (int j = 0; j < PARTICLES; j++)
				interact(&sum, home[t], other[j], other_charge[j], a2);
	}
	if (active)
		force[mine->here.first + t] = sum;
}

static footprint footprint_of(uint64_t boxes)
{
	footprint need;

	need.bytes = boxes * (sizeof(box) + PARTICLES * (2 * sizeof(vector4) + sizeof(double)));
	need.kernel = "box_forces";
	need.grid = dim3(boxes);
	need.block = dim3(BLOCK);
	return need;
}

static place place_of(int x, int y, int z, int side)
{
	const int number = (z * side + y) * side + x;

	return place{x, y, z, number, (long)number * PARTICLES};
}

static void set_up_boxes(box *boxes, int side)
{
	for (int z = 0; z < side; z++)
		for (int y = 0; y < side; y++)
			for (int x = 0; x < side; x++) {
				box *b = &boxes[(z * side + y) * side + x];
				memset(b, 0, sizeof *b);
				b->here = place_of(x, y, z, side);
				for (int near = 0; near < 27; near++) {
					int nx = x + near % 3 - 1, ny = y + near / 3 % 3 - 1, nz = z + near / 9 - 1;
					if (near == 13 || nx < 0 || ny < 0 || nz < 0 || nx >= side || ny >= side || nz >= side)
						continue;
					b->near[b->neighbours++] = place_of(nx, ny, nz, side);
				}
			}
}

/* verify sums over all pairs of boxes that touch, found by distance rather
 * than by the boxes' neighbour lists, in extended precision. */
static void verify(const vector4 *position, const double *charge, const vector4 *got, int side)
{
	const double a2 = 2 * alpha * alpha;
	const int boxes = side * side * side;
	double error = 0;

	for (int a = 0; a < boxes; a++)
		for (int i = a * PARTICLES; i < (a + 1) * PARTICLES; i++) {
			long double v = 0, x = 0, y = 0, z = 0;
			const vector4 &p = position[i];
			for (int b = 0; b < boxes; b++) {
				if (abs(a % side - b % side) > 1 || abs(a / side % side - b / side % side) > 1 ||
				    abs(a / side / side - b / side / side) > 1)
					continue;
				for (int j = b * PARTICLES; j < (b + 1) * PARTICLES; j++) {
					const vector4 &q = position[j];
					double dot = p.x * q.x + p.y * q.y + p.z * q.z;
					long double u = charge[j] * exp(a2 * (dot - p.v - q.v));
					v += u;
					x += 2 * u * (p.x - q.x);
					y += 2 * u * (p.y - q.y);
					z += 2 * u * (p.z - q.z);
				}
			}
			keep_worst(&error, relative_error(got[i].v, v, 1));
			keep_worst(&error, relative_error(got[i].x, x, (double)v));
			keep_worst(&error, relative_error(got[i].y, y, (double)v));
			keep_worst(&error, relative_error(got[i].z, z, (double)v));
		}
	verify_report("forces", error, 1e-10);
}

/* tenth draws 0.1, 0.2, ... 1.0. */
static double tenth(c_random *random)
{
	return (random->below(10) + 1) / 10.0;
}

int main(int argc, char **argv)
{
	const options opts = take_options(&argc, argv, usage);
	if (argc != 3 || strcmp(argv[1], "-boxes1d"))
		usage_error(usage);
	const int side = parse_int(argv[2], "-boxes1d", 1, 256);
	const size_t boxes = (size_t)side * side * side, particles = boxes * PARTICLES;
	const footprint need = footprint_of(boxes);
	if (opts.footprint) {
		print_footprint(need);
		return EXIT_OK;
	}

	phase_clock phase(opts.phases);
	phase.start("boxes");
	box *host_boxes = host_alloc<box>(boxes, "boxes");
	set_up_boxes(host_boxes, side);
	phase.start("particles");
	c_random random(7);
	vector4 *position = host_alloc<vector4>(particles, "positions");
	for (size_t i = 0; i < particles; i++) {
		position[i].v = tenth(&random);
		position[i].x = tenth(&random);
		position[i].y = tenth(&random);
		position[i].z = tenth(&random);
	}
	double *charge = host_alloc<double>(particles, "charges");
	for (size_t i = 0; i < particles; i++)
		charge[i] = tenth(&random);
	vector4 *force = host_alloc<vector4>(particles, "forces");
	for (size_t i = 0; i < particles; i++)
		force[i] = vector4{0, 0, 0, 0};

	phase.start("copy in");
	box *d_boxes = device_alloc<box>(boxes, "boxes");
	vector4 *d_position = device_alloc<vector4>(particles, "positions");
	double *d_charge = device_alloc<double>(particles, "charges");
	vector4 *d_force = device_alloc<vector4>(particles, "forces");
	copy_to_device(d_boxes, host_boxes, boxes * sizeof(box));
	copy_to_device(d_position, position, particles * sizeof(vector4));
	copy_to_device(d_charge, charge, particles * sizeof(double));
	copy_to_device(d_force, force, particles * sizeof(vector4));

	phase.start("forces");
	box_forces<<<need.grid, need.block>>>(d_boxes, d_position, d_charge, d_force, 2 * alpha * alpha);
	GPU_LAUNCHED("box_forces");
	GPU(cudaDeviceSynchronize());
	phase.start("copy out");
	copy_to_host(force, d_force, particles * sizeof(vector4));
	device_free(d_position);
	device_free(d_charge);
	device_free(d_force);
	device_free(d_boxes);
	check_footprint(need);

	phase.start("result");
	print_checksum(checksum(force, particles * sizeof(vector4)));
	if (opts.out) {
		FILE *file = open_output(opts.out);
		for (size_t i = 0; i < particles; i++)
			fprintf(file, "%.17g %.17g %.17g %.17g\n", force[i].v, force[i].x, force[i].y, force[i].z);
		close_output(file, opts.out);
	}
	if (opts.verify)
		verify(position, charge, force, side);

	phase.start("tear-down");
	free(position);
	free(charge);
	free(force);
	free(host_boxes);
	phase.finish();
	return EXIT_OK;
}
