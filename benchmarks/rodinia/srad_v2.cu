/* srad_v2: speckle reducing anisotropic diffusion with 16 x 16 tiles in shared
 * memory (Yu and Acton, "Speckle reducing anisotropic diffusion", IEEE TIP
 * 11(11), 2002). The threshold of each step comes from a region of interest,
 * whose statistics the host computes, so the image crosses to the device and
 * back in every step. Images are stored by rows; the border repeats the edge
 * pixels. */
#include "srad.h"
#include "common/suite.h"

#include <math.h>

static const char usage[] =
	"usage: srad ROWS COLUMNS Y1 Y2 X1 X2 LAMBDA ITERATIONS [options]\n"
	"Removes speckle from a random image of ROWS x COLUMNS pixels (multiples of 16);\n"
	"rows Y1 to Y2 and columns X1 to X2 are the homogeneous region.\n";

enum { TILE = 16 };

/* The diffusion coefficient (equations 31 and 33). */
__global__ void diffusion_coefficient(const float *image, derivatives d, float *coefficient,
                                      int columns, int rows, float q0sqr)
{
	__shared__ float tile[TILE + 2][TILE + 2];
	const int tx = threadIdx.x, ty = threadIdx.y;
	const int x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
	const size_t p = (size_t)y * columns + x;
	const float here = image[p];

	tile[ty + 1][tx + 1] = here;
	if (ty == 0)
		tile[0][tx + 1] = y > 0 ? image[p - columns] : here;
	if (ty == TILE - 1)
		tile[TILE + 1][tx + 1] = y < rows - 1 ? image[p + columns] : here;
	if (tx == 0)
		tile[ty + 1][0] = x > 0 ? image[p - 1] : here;
	if (tx == TILE - 1)
		tile[ty + 1][TILE + 1] = x < columns - 1 ? image[p + 1] : here;
	__syncthreads();

	const float north = tile[ty][tx + 1] - here, south = tile[ty + 2][tx + 1] - here;
	const float west = tile[ty + 1][tx] - here, east = tile[ty + 1][tx + 2] - here;

	set_coefficient(d, coefficient, p, here, north, south, west, east, q0sqr);
}

/* One step of the diffusion (equations 58 and 61). */
__global__ void diffuse(float *image, derivatives d, const float *coefficient, int columns, int rows,
                        float lambda)
{
	__shared__ float tile[TILE + 1][TILE + 1];
	const int tx = threadIdx.x, ty = threadIdx.y;
	const int x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
	const size_t p = (size_t)y * columns + x;
	const float here = coefficient[p];

	tile[ty][tx] = here;
	if (ty == TILE - 1)
		tile[TILE][tx] = y < rows - 1 ? coefficient[p + columns] : here;
	if (tx == TILE - 1)
		tile[ty][TILE] = x < columns - 1 ? coefficient[p + 1] : here;
	__syncthreads();

	const float south = tile[ty + 1][tx], east = tile[ty][tx + 1];

	diffuse_pixel(image, d, p, here, south, east, lambda);
}

static footprint footprint_of(uint64_t rows, uint64_t columns)
{
	footprint need;

	need.bytes = 6 * rows * columns * sizeof(float);
	need.kernel = "diffusion_coefficient";
	need.grid = dim3(columns / TILE, rows / TILE);
	need.block = dim3(TILE, TILE);
	return need;
}

struct region {
	int y1, y2, x1, x2;
};

/* squared_variation is the squared coefficient of variation in the region. */
static float squared_variation(const float *image, int columns, region r)
{
	float sum = 0, squares = 0;

	for (int y = r.y1; y <= r.y2; y++)
		for (int x = r.x1; x <= r.x2; x++) {
			float value = image[(size_t)y * columns + x];
			sum += value;
			squares += value * value;
		}
	const float size = (float)(r.y2 - r.y1 + 1) * (r.x2 - r.x1 + 1);
	const float mean = sum / size;
	return (squares / size - mean * mean) / (mean * mean);
}

/* verify repeats the steps on the host in double precision. */
static void verify(const float *start, const float *got, int rows, int columns, region r, double lambda,
                   int iterations)
{
	const size_t pixels = (size_t)rows * columns;
	double *image = host_alloc<double>(pixels, "reference image");
	double *c = host_alloc<double>(pixels, "reference coefficients");
	double *step = host_alloc<double>(pixels, "reference step");
	double error = 0;

	for (size_t p = 0; p < pixels; p++)
		image[p] = exp((double)start[p]);
	for (int i = 0; i < iterations; i++) {
		double sum = 0, squares = 0, count = 0;
		for (int y = r.y1; y <= r.y2; y++)
			for (int x = r.x1; x <= r.x2; x++, count++) {
				double value = image[(size_t)y * columns + x];
				sum += value;
				squares += value * value;
			}
		double mean = sum / count, q0 = (squares / count - mean * mean) / (mean * mean);
		for (int y = 0; y < rows; y++)
			for (int x = 0; x < columns; x++) {
				size_t p = (size_t)y * columns + x;
				double I = image[p];
				double n = y > 0 ? image[p - columns] - I : 0, w = x > 0 ? image[p - 1] - I : 0;
				double s = y < rows - 1 ? image[p + columns] - I : 0;
				double e = x < columns - 1 ? image[p + 1] - I : 0;
				c[p] = reference_coefficient(I, n, s, w, e, q0);
			}
		for (int y = 0; y < rows; y++)
			for (int x = 0; x < columns; x++) {
				size_t p = (size_t)y * columns + x;
				double I = image[p], sum = 0;
				sum += y > 0 ? c[p] * (image[p - columns] - I) : 0;
				sum += x > 0 ? c[p] * (image[p - 1] - I) : 0;
				sum += y < rows - 1 ? c[p + columns] * (image[p + columns] - I) : 0;
				sum += x < columns - 1 ? c[p + 1] * (image[p + 1] - I) : 0;
				step[p] = sum;
			}
		for (size_t p = 0; p < pixels; p++)
			image[p] += 0.25 * lambda * step[p];
	}
	for (size_t p = 0; p < pixels; p++)
		keep_worst(&error, relative_error(got[p], image[p], 1));
	verify_report("intensities", error, 1e-3);
	free(image);
	free(c);
	free(step);
}

int main(int argc, char **argv)
{
	const options opts = take_options(&argc, argv, usage);
	if (argc != 9)
		usage_error(usage);
	const int rows = parse_int(argv[1], "ROWS", TILE, 1 << 20);
	const int columns = parse_int(argv[2], "COLUMNS", TILE, 1 << 20);
	region roi;
	roi.y1 = parse_int(argv[3], "Y1", 0, rows - 1);
	roi.y2 = parse_int(argv[4], "Y2", roi.y1, rows - 1);
	roi.x1 = parse_int(argv[5], "X1", 0, columns - 1);
	roi.x2 = parse_int(argv[6], "X2", roi.x1, columns - 1);
	const double lambda = parse_real(argv[7], "LAMBDA");
	const int iterations = parse_int(argv[8], "ITERATIONS", 0, 1000000);
	if (rows % TILE || columns % TILE)
		die(EXIT_INPUT, "ROWS and COLUMNS are %d and %d, want multiples of %d", rows, columns, TILE);
	const size_t pixels = (size_t)rows * columns, image_bytes = pixels * sizeof(float);
	const footprint need = footprint_of(rows, columns);
	if (opts.footprint) {
		print_footprint(need);
		return EXIT_OK;
	}

	phase_clock phase(opts.phases);
	phase.start("allocate");
	float *start = host_alloc<float>(pixels, "start image");
	float *image = host_alloc<float>(pixels, "image");
	float *d_image = device_alloc<float>(pixels, "image");
	float *d_coefficient = device_alloc<float>(pixels, "coefficients");
	derivatives slope;
	slope.east = device_alloc<float>(pixels, "east derivative");
	slope.west = device_alloc<float>(pixels, "west derivative");
	slope.south = device_alloc<float>(pixels, "south derivative");
	slope.north = device_alloc<float>(pixels, "north derivative");

	phase.start("random image");
	c_random random(7);
	for (size_t p = 0; p < pixels; p++)
		start[p] = (float)random.uniform();
	for (size_t p = 0; p < pixels; p++)
		image[p] = (float)exp(start[p]);

	phase.start("diffusion");
	for (int i = 0; i < iterations; i++) {
		const float q0sqr = squared_variation(image, columns, roi);
		copy_to_device(d_image, image, image_bytes);
		diffusion_coefficient<<<need.grid, need.block>>>(d_image, slope, d_coefficient, columns, rows,
		                                                 q0sqr);
		GPU_LAUNCHED("diffusion_coefficient");
		diffuse<<<need.grid, need.block>>>(d_image, slope, d_coefficient, columns, rows, (float)lambda);
		GPU_LAUNCHED("diffuse");
		copy_to_host(image, d_image, image_bytes);
	}

	phase.start("result");
	print_checksum(checksum(image, image_bytes));
	if (opts.out) {
		FILE *file = open_output(opts.out);
		for (size_t p = 0; p < pixels; p++)
			fprintf(file, "%.9g%c", image[p], p % columns == columns - 1u ? '\n' : ' ');
		close_output(file, opts.out);
	}
	if (opts.verify)
		verify(start, image, rows, columns, roi, lambda, iterations);

	phase.start("tear-down");
	free(start);
	device_free(d_coefficient);
	device_free(d_image);
	device_free(slope.east);
	device_free(slope.west);
	device_free(slope.north);
	device_free(slope.south);
	check_footprint(need);
	free(image);
	phase.finish();
	return EXIT_OK;
}
