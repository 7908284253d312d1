/* srad_v1: speckle reducing anisotropic diffusion over a whole image (Yu and
 * Acton, "Speckle reducing anisotropic diffusion", IEEE TIP 11(11), 2002). The
 * image's mean and variance, which set each step's threshold, are reduced on
 * the device.
 *
 * Images are stored by columns: pixel (row, column) is at column * rows + row. */
#include "srad.h"
#include "common/suite.h"

#include <math.h>

static const char usage[] =
	"usage: srad ITERATIONS LAMBDA ROWS COLUMNS [options]\n"
	"Removes speckle from a synthetic image of ROWS x COLUMNS pixels and writes it\n"
	"as an ASCII PGM.\n";

enum { BLOCK = 512, SOURCE_ROWS = 502, SOURCE_COLUMNS = 458 };

static const float gray_levels = 255;

__device__ int pixel_index()
{
	return blockIdx.x * BLOCK + threadIdx.x;
}

__global__ void to_intensity(float *image, int pixels)
{
	const int p = pixel_index();

	if (p < pixels)
		image[p] = expf(image[p] / gray_levels);
}

__global__ void to_gray(float *image, int pixels)
{
	const int p = pixel_index();

	if (p < pixels)
		image[p] = logf(image[p]) * gray_levels;
}

__global__ void load_moments(const float *image, float *sum, float *squares, int pixels)
{
	const int p = pixel_index();

	if (p < pixels) {
		sum[p] = image[p];
		squares[p] = image[p] * image[p];
	}
}

/* Each block adds up 512 of the `count` values, which are `stride` apart, and writes the sum
 * to its first value. The order of additions is fixed. */
__global__ void reduce_moments(float *sum, float *squares, int count, long stride)
{
	__shared__ float part[BLOCK], square_part[BLOCK];
	const int t = threadIdx.x, i = pixel_index();

	part[t] = i < count ? sum[i * stride] : 0;
	square_part[t] = i < count ? squares[i * stride] : 0;
	__syncthreads();
	for (int half = BLOCK / 2; half > 0; half /= 2) {
		if (t < half) {
			part[t] += part[t + half];
			square_part[t] += square_part[t + half];
		}
		__syncthreads();
	}
	if (t == 0) {
		sum[i * stride] = part[0];
		squares[i * stride] = square_part[0];
	}
}

struct neighbours {
	const int *north, *south; /* by row */
	const int *west, *east;   /* by column */
};

/* The diffusion coefficient (equations 31 and 33), with q0sqr the squared
 * coefficient of variation of the image. */
__global__ void diffusion_coefficient(const float *image, neighbours near, derivatives d,
                                      float *coefficient, float q0sqr, int rows, int pixels)
{
	const int p = pixel_index();

	if (p >= pixels)
		return;
	const int row = p % rows, column = p / rows;
	const float here = image[p];
	const float north = image[near.north[row] + rows * column] - here;
	const float south = image[near.south[row] + rows * column] - here;
	const float west = image[row + rows * near.west[column]] - here;
	const float east = image[row + rows * near.east[column]] - here;

	set_coefficient(d, coefficient, p, here, north, south, west, east, q0sqr);
}

/* One step of the diffusion (equations 58 and 61). */
__global__ void diffuse(float *image, neighbours near, derivatives d, const float *coefficient,
                        float lambda, int rows, int pixels)
{
	const int p = pixel_index();

	if (p >= pixels)
		return;
	const int row = p % rows, column = p / rows;
	const float here = coefficient[p];
	const float south = coefficient[near.south[row] + rows * column];
	const float east = coefficient[row + rows * near.east[column]];

	diffuse_pixel(image, d, p, here, south, east, lambda);
}

static footprint footprint_of(uint64_t rows, uint64_t columns)
{
	const uint64_t pixels = rows * columns;
	footprint need;

	need.bytes = 8 * pixels * sizeof(float) + 2 * (rows + columns) * sizeof(int);
	need.kernel = "diffusion_coefficient";
	need.grid = dim3((pixels + BLOCK - 1) / BLOCK);
	need.block = dim3(BLOCK);
	return need;
}

/* make_source draws bright discs on a dark ground, under multiplicative
 * speckle: gray values 1 to 255. */
static float *make_source()
{
	float *source = host_alloc<float>(SOURCE_ROWS * SOURCE_COLUMNS, "source image");
	c_random random(11);

	for (int column = 0; column < SOURCE_COLUMNS; column++)
		for (int row = 0; row < SOURCE_ROWS; row++) {
			int y = row % 126 - 63, x = column % 115 - 57;
			double level = x * x + y * y < 40 * 40 ? 170 : 60;
			double gray = level * (0.5 + random.uniform());
			source[column * SOURCE_ROWS + row] = (float)(int)fmin(fmax(gray, 1), 255);
		}
	return source;
}

/* resize repeats the source over an image of the wanted size. */
static void resize(const float *source, float *image, int rows, int columns)
{
	for (int column = 0; column < columns; column++)
		for (int row = 0; row < rows; row++)
			image[(size_t)column * rows + row] =
				source[column % SOURCE_COLUMNS * SOURCE_ROWS + row % SOURCE_ROWS];
}

static void write_pgm(const float *image, int rows, int columns, const char *path)
{
	FILE *file = open_output(path);

	fprintf(file, "P2\n%d %d\n%d\n", columns, rows, (int)gray_levels);
	for (int row = 0; row < rows; row++) {
		for (int column = 0; column < columns; column++)
			fprintf(file, "%d ", (int)image[(size_t)column * rows + row]);
		fputc('\n', file);
	}
	close_output(file, path);
}

/* verify repeats the whole computation on the host in double precision. */
static void verify(const float *source, const float *got, int iterations, double lambda, int rows,
                   int columns)
{
	const size_t pixels = (size_t)rows * columns;
	double *image = host_alloc<double>(pixels, "reference image");
	double *c = host_alloc<double>(pixels, "reference coefficients");
	double *step = host_alloc<double>(pixels, "reference step");
	double error = 0;

	for (int x = 0; x < columns; x++)
		for (int y = 0; y < rows; y++)
			image[(size_t)x * rows + y] =
				exp(source[x % SOURCE_COLUMNS * SOURCE_ROWS + y % SOURCE_ROWS] / 255.0);
	for (int i = 0; i < iterations; i++) {
		double sum = 0, squares = 0;
		for (size_t p = 0; p < pixels; p++) {
			sum += image[p];
			squares += image[p] * image[p];
		}
		double mean = sum / pixels, q0 = (squares / pixels - mean * mean) / (mean * mean);
		for (int x = 0; x < columns; x++)
			for (int y = 0; y < rows; y++) {
				size_t p = (size_t)x * rows + y;
				double I = image[p];
				double n = (y > 0 ? image[p - 1] : I) - I, s = (y < rows - 1 ? image[p + 1] : I) - I;
				double w = (x > 0 ? image[p - rows] : I) - I;
				double e = (x < columns - 1 ? image[p + rows] : I) - I;
				c[p] = reference_coefficient(I, n, s, w, e, q0);
			}
		for (int x = 0; x < columns; x++)
			for (int y = 0; y < rows; y++) {
				size_t p = (size_t)x * rows + y;
				double I = image[p];
				double n = y > 0 ? image[p - 1] - I : 0, w = x > 0 ? image[p - rows] - I : 0;
				double s = y < rows - 1 ? c[p + 1] * (image[p + 1] - I) : 0;
				double e = x < columns - 1 ? c[p + rows] * (image[p + rows] - I) : 0;
				step[p] = c[p] * (n + w) + s + e;
			}
		for (size_t p = 0; p < pixels; p++)
			image[p] += 0.25 * lambda * step[p];
	}
	for (size_t p = 0; p < pixels; p++)
		keep_worst(&error, fabs(got[p] - 255 * log(image[p])));
	verify_report("gray values", error, 0.05);
	free(image);
	free(c);
	free(step);
}

static int *to_device(const int *index, int count, const char *name)
{
	int *device = device_alloc<int>(count, name);

	copy_to_device(device, index, count * sizeof(int));
	return device;
}

int main(int argc, char **argv)
{
	const options opts = take_options(&argc, argv, usage);
	if (argc != 5)
		usage_error(usage);
	const int iterations = parse_int(argv[1], "ITERATIONS", 0, 1000000);
	const double lambda = parse_real(argv[2], "LAMBDA");
	const int rows = parse_int(argv[3], "ROWS", 2, 1 << 20);
	const int columns = parse_int(argv[4], "COLUMNS", 2, 1 << 20);
	const int limit = 0x7fffffff - BLOCK;
	if ((long)rows * columns > limit)
		die(EXIT_INPUT, "an image of %d x %d pixels exceeds %d pixels", rows, columns, limit);
	const int pixels = rows * columns;
	const size_t image_bytes = pixels * sizeof(float);
	const footprint need = footprint_of(rows, columns);
	if (opts.footprint) {
		print_footprint(need);
		return EXIT_OK;
	}

	phase_clock phase(opts.phases);
	phase.start("image");
	float *source = make_source();
	float *image = host_alloc<float>(pixels, "image");
	resize(source, image, rows, columns);
	int *north = host_alloc<int>(rows, "north"), *south = host_alloc<int>(rows, "south");
	int *west = host_alloc<int>(columns, "west"), *east = host_alloc<int>(columns, "east");
	for (int row = 0; row < rows; row++) {
		north[row] = row > 0 ? row - 1 : 0;
		south[row] = row < rows - 1 ? row + 1 : row;
	}
	for (int column = 0; column < columns; column++) {
		west[column] = column > 0 ? column - 1 : 0;
		east[column] = column < columns - 1 ? column + 1 : column;
	}

	phase.start("copy in");
	float *d_image = device_alloc<float>(pixels, "image");
	int *d_north = to_device(north, rows, "north");
	int *d_south = to_device(south, rows, "south");
	int *d_east = to_device(east, columns, "east");
	int *d_west = to_device(west, columns, "west");
	float *d_sum = device_alloc<float>(pixels, "sums");
	float *d_squares = device_alloc<float>(pixels, "sums of squares");
	derivatives slope;
	slope.north = device_alloc<float>(pixels, "north derivative");
	slope.south = device_alloc<float>(pixels, "south derivative");
	slope.west = device_alloc<float>(pixels, "west derivative");
	slope.east = device_alloc<float>(pixels, "east derivative");
	float *d_coefficient = device_alloc<float>(pixels, "coefficients");
	copy_to_device(d_image, image, image_bytes);
	const neighbours near = {d_north, d_south, d_west, d_east};

	phase.start("diffusion");
	to_intensity<<<need.grid, need.block>>>(d_image, pixels);
	GPU_LAUNCHED("to_intensity");
	for (int i = 0; i < iterations; i++) {
		float sum, squares;
		load_moments<<<need.grid, need.block>>>(d_image, d_sum, d_squares, pixels);
		GPU_LAUNCHED("load_moments");
		long stride = 1;
		for (int count = pixels; count > 1; stride *= BLOCK) {
			int blocks = (count - 1) / BLOCK + 1;
			reduce_moments<<<blocks, BLOCK>>>(d_sum, d_squares, count, stride);
			GPU_LAUNCHED("reduce_moments");
			count = blocks;
		}
		copy_to_host(&sum, d_sum, sizeof sum);
		copy_to_host(&squares, d_squares, sizeof squares);
		const float mean = sum / pixels;
		const float q0sqr = (squares / pixels - mean * mean) / (mean * mean);
		diffusion_coefficient<<<need.grid, need.block>>>(d_image, near, slope, d_coefficient, q0sqr,
		                                                 rows, pixels);
		GPU_LAUNCHED("diffusion_coefficient");
		diffuse<<<need.grid, need.block>>>(d_image, near, slope, d_coefficient, (float)lambda, rows,
		                                   pixels);
		GPU_LAUNCHED("diffuse");
	}
	to_gray<<<need.grid, need.block>>>(d_image, pixels);
	GPU_LAUNCHED("to_gray");

	phase.start("copy out");
	copy_to_host(image, d_image, image_bytes);
	print_checksum(checksum(image, image_bytes));
	phase.start("write");
	write_pgm(image, rows, columns, opts.out);
	if (opts.verify)
		verify(source, image, iterations, lambda, rows, columns);

	phase.start("tear-down");
	free(source);
	free(image);
	free(north);
	free(south);
	free(west);
	free(east);
	device_free(d_image);
	device_free(d_north);
	device_free(d_south);
	device_free(d_east);
	device_free(d_west);
	device_free(d_sum);
	device_free(d_squares);
	device_free(slope.north);
	device_free(slope.south);
	device_free(slope.west);
	device_free(slope.east);
	device_free(d_coefficient);
	check_footprint(need);
	phase.finish();
	return EXIT_OK;
}
