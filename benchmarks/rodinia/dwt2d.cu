/* dwt2d: the reversible 5/3 wavelet transform of an RGB image, by lifting (Le
 * Gall and Tabatabai, ICASSP 1988; ISO/IEC 15444-1 (JPEG 2000), annex F).
 *
 * A level of w x h values becomes four bands, one after the other: LL, HL (high
 * in x), LH and HH. The next level transforms LL in place. */
#include "common/suite.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char usage[] =
	"usage: dwt2d FILE -d WIDTHxHEIGHT -f -5 -l LEVELS [options]\n"
	"Forward (-f) 5/3 (-5) wavelet transform of an image. FILE's bytes are taken as\n"
	"interleaved RGB pixels, repeated as often as needed.\n";

enum {
	COMPONENTS = 3,
	STRIP = 8,        /* rows that a block transforms at a time */
	MARGIN = 2,       /* rows and columns needed before a strip; after it one is needed */
	ROWS = STRIP + MARGIN + 1,
	STRIPS_Y = 15,    /* blocks over the height of a level */
	WIDE = 192, NARROW = 64, WIDE_FROM = 960
};

/* mirror reflects an index into [0, size) at the first and the last value. It clamps indices
 * that are further out; no output depends on them. */
__device__ int mirror(int i, int size)
{
	i = i < 0 ? -i : i;
	i = i < size ? i : 2 * (size - 1) - i;
	return max(i, 0);
}

/* Each block transforms `strips` strips of WINDOW columns, walking down. Rows
 * that two strips share keep their horizontal transform. */
template <int WINDOW>
__global__ void __launch_bounds__(WINDOW)
lift_5_3(const int *in, int *out, int width, int height, int strips)
{
	__shared__ int tile[ROWS][WINDOW + MARGIN + 1];
	const int t = threadIdx.x, columns = WINDOW + MARGIN + 1, pairs = WINDOW / 2;
	const int x0 = blockIdx.x * WINDOW, x = x0 + t;
	const int low_width = (width + 1) / 2, low_height = (height + 1) / 2;
	/* The destination of this thread's column: its band's width, and the band's offset for
	 * even rows (LL or HL) and for odd rows (LH or HH). */
	const int band_width = x % 2 ? width / 2 : low_width;
	const size_t even_rows = x % 2 ? (size_t)low_width * low_height : 0;
	const size_t odd_rows = (size_t)width * low_height +
	                         (x % 2 ? (size_t)low_width * (height / 2) : 0);
	int y0 = blockIdx.y * strips * STRIP, fresh = 0;

	for (int strip = 0; strip < strips && y0 < height; strip++, y0 += STRIP) {
		for (int c = t; c < columns; c += WINDOW) {
			for (int r = 0; r < fresh; r++)
				tile[r][c] = tile[r + STRIP][c];
			for (int r = fresh; r < ROWS; r++)
				tile[r][c] = in[(size_t)mirror(y0 - MARGIN + r, height) * width +
				                mirror(x0 - MARGIN + c, width)];
		}
		__syncthreads();
		for (int i = t; i < (ROWS - fresh) * (pairs + 1); i += WINDOW) {
			int r = fresh + i / (pairs + 1), c = 2 * (i % (pairs + 1)) + 1;
			tile[r][c] -= (tile[r][c - 1] + tile[r][c + 1]) >> 1;
		}
		__syncthreads();
		for (int i = t; i < (ROWS - fresh) * pairs; i += WINDOW) {
			int r = fresh + i / pairs, c = 2 * (i % pairs) + 2;
			tile[r][c] += (tile[r][c - 1] + tile[r][c + 1] + 2) >> 2;
		}
		__syncthreads();
		int v[ROWS];
		for (int r = 0; r < ROWS; r++)
			v[r] = tile[r][t + MARGIN];
		for (int r = 1; r < ROWS - 1; r += 2)
			v[r] -= (v[r - 1] + v[r + 1]) >> 1;
		for (int r = 2; r < ROWS - 1; r += 2)
			v[r] += (v[r - 1] + v[r + 1] + 2) >> 2;
		for (int r = MARGIN; r < MARGIN + STRIP; r++) {
			int y = y0 + r - MARGIN;
			if (x < width && y < height)
				out[(y % 2 ? odd_rows : even_rows) + (size_t)(y / 2) * band_width + x / 2] = v[r];
		}
		__syncthreads();
		fresh = MARGIN + 1;
	}
}

/* unpack splits interleaved bytes into components centred on 0. */
__global__ void unpack(const unsigned char *rgb, int *r, int *g, int *b, size_t pixels)
{
	const size_t threads = (size_t)gridDim.x * gridDim.y * blockDim.x;
	size_t p = ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;

	for (; p < pixels; p += threads) {
		r[p] = rgb[3 * p] - 128;
		g[p] = rgb[3 * p + 1] - 128;
		b[p] = rgb[3 * p + 2] - 128;
	}
}

/* digest adds to *sum a mix of each value with its position, because the image is not copied
 * back to the host, as in the original program. */
__global__ void digest(const int *values, size_t count, uint64_t salt, unsigned long long *sum)
{
	const size_t threads = (size_t)gridDim.x * gridDim.y * blockDim.x;
	size_t i = ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
	unsigned long long local = 0;

	for (; i < count; i += threads) {
		uint64_t z = (salt + i) * 0x9e3779b97f4a7c15u ^ (unsigned)values[i];
		z = (z ^ z >> 32) * 0x9fb21c651e98df25u;
		local += z ^ z >> 29;
	}
	for (int lane = 16; lane > 0; lane /= 2)
		local += __shfl_down_sync(0xffffffff, local, lane);
	if (threadIdx.x % 32 == 0)
		atomicAdd(sum, local);
}

static int divide_up(int a, int b)
{
	return (a + b - 1) / b;
}

struct level_shape {
	dim3 grid, block;
	int strips;
};

static level_shape shape_of(int width, int height)
{
	level_shape shape;
	int window = width >= WIDE_FROM ? WIDE : NARROW;

	shape.strips = divide_up(height, STRIP * STRIPS_Y);
	shape.grid = dim3(divide_up(width, window), divide_up(height, STRIP * shape.strips));
	shape.block = dim3(window);
	return shape;
}

static footprint footprint_of(int width, int height)
{
	const uint64_t pixels = (uint64_t)width * height;
	const level_shape shape = shape_of(width, height);
	footprint need;

	need.bytes = pixels * COMPONENTS + (2 * COMPONENTS + 1) * pixels * sizeof(int);
	need.kernel = "lift_5_3";
	need.grid = shape.grid;
	need.block = shape.block;
	return need;
}

/* transform leaves the bands of all levels in out. scratch holds the LL band
 * that a level reads. */
static void transform(const int *in, int *out, int *scratch, int width, int height, int levels)
{
	for (int level = 1;; level++) {
		const level_shape shape = shape_of(width, height);
		if (shape.block.x == WIDE)
			lift_5_3<WIDE><<<shape.grid, shape.block>>>(in, out, width, height, shape.strips);
		else
			lift_5_3<NARROW><<<shape.grid, shape.block>>>(in, out, width, height, shape.strips);
		GPU_LAUNCHED("lift_5_3");
		if (level == levels)
			return;
		width = (width + 1) / 2;
		height = (height + 1) / 2;
		GPU(cudaMemcpy(scratch, out, (size_t)width * height * sizeof(int), cudaMemcpyDeviceToDevice));
		in = scratch;
	}
}

/* lift_line transforms n values in place on the host, `step` apart. */
static void lift_line(int *line, int n, size_t step, int *spare)
{
	for (int i = 1; i < n; i += 2)
		line[i * step] -= (int)floor((line[(i - 1) * step] + line[(i + 1 < n ? i + 1 : i - 1) * step]) / 2.0);
	for (int i = 0; i < n; i += 2)
		line[i * step] += (int)floor((line[(i > 0 ? i - 1 : 1) * step] +
		                              line[(i + 1 < n ? i + 1 : i - 1) * step] + 2) / 4.0);
	for (int i = 0; i < n; i++)
		spare[i % 2 ? (n + 1) / 2 + i / 2 : i / 2] = line[i * step];
	for (int i = 0; i < n; i++)
		line[i * step] = spare[i];
}

/* verify transforms whole lines of one component on the host, level by level,
 * in an image whose quadrants are the bands. */
static double verify_component(const unsigned char *rgb, int component, const int *got, int width,
                               int height, int levels)
{
	const size_t stride = width, pixels = (size_t)width * height;
	int *image = host_alloc<int>(pixels, "reference image");
	int *spare = host_alloc<int>(width > height ? width : height, "reference line");
	double error = 0;

	for (size_t p = 0; p < pixels; p++)
		image[p] = rgb[COMPONENTS * p + component] - 128;
	for (int level = 1; level <= levels; level++) {
		const int low_width = (width + 1) / 2, low_height = (height + 1) / 2;
		for (int y = 0; y < height; y++)
			lift_line(image + y * stride, width, 1, spare);
		for (int x = 0; x < width; x++)
			lift_line(image + x, height, stride, spare);
		const int *band = got;
		for (int quadrant = 0; quadrant < 4; quadrant++) {
			const int left = quadrant % 2 ? low_width : 0, top = quadrant / 2 ? low_height : 0;
			const int w = quadrant % 2 ? width - low_width : low_width;
			const int h = quadrant / 2 ? height - low_height : low_height;
			for (int y = 0; y < h && (quadrant || level == levels); y++)
				for (int x = 0; x < w; x++)
					keep_worst(&error, abs(band[(size_t)y * w + x] - image[(top + y) * stride + left + x]));
			band += (size_t)w * h;
		}
		width = low_width;
		height = low_height;
	}
	free(image);
	free(spare);
	return error;
}

/* read_pixels fills `bytes` bytes from the file, starting over at its end. */
static void read_pixels(FILE *file, const char *path, unsigned char *pixels, size_t bytes)
{
	size_t have = fread(pixels, 1, bytes, file);

	if (have == 0)
		die(EXIT_INPUT, "read %s: %s", path, ferror(file) ? strerror(errno) : "the file is empty");
	for (size_t period = have; have < bytes;) {
		size_t more = bytes - have < period ? bytes - have : period;
		memcpy(pixels + have, pixels, more);
		have += more;
	}
	fclose(file);
}

static void parse_size(const char *text, int *width, int *height)
{
	char *end;
	long w = strtol(text, &end, 10), h = *end == 'x' ? strtol(end + 1, &end, 10) : 0;

	if (*end || w < 8 || h < 8 || w > 65536 || h > 65536)
		die(EXIT_INPUT, "-d is \"%s\", want WIDTHxHEIGHT, each from 8 to 65536", text);
	*width = (int)w;
	*height = (int)h;
}

int main(int argc, char **argv)
{
	const options opts = take_options(&argc, argv, usage);
	const char *path = nullptr;
	int width = 0, height = 0, levels = 0;
	bool forward = false, reversible = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-d") && i + 1 < argc)
			parse_size(argv[++i], &width, &height);
		else if (!strcmp(argv[i], "-l") && i + 1 < argc)
			levels = parse_int(argv[++i], "-l", 1, 16);
		else if (!strcmp(argv[i], "-f"))
			forward = true;
		else if (!strcmp(argv[i], "-5"))
			reversible = true;
		else if (argv[i][0] != '-' && !path)
			path = argv[i];
		else
			usage_error(usage);
	}
	if (!path || !width || !levels || !forward || !reversible)
		usage_error(usage);
	if ((width < height ? width : height) >> (levels - 1) < 4)
		die(EXIT_INPUT, "%d levels are too many for %d x %d pixels", levels, width, height);
	const size_t pixels = (size_t)width * height, rgb_bytes = pixels * COMPONENTS;
	const footprint need = footprint_of(width, height);
	if (opts.footprint) {
		print_footprint(need);
		return EXIT_OK;
	}

	phase_clock phase(opts.phases);
	phase.start("device");
	FILE *file = fopen(path, "rb");
	if (!file)
		die(EXIT_INPUT, "open %s: %s", path, strerror(errno));
	GPU(cudaFree(nullptr)); /* creates the context, so that cudaMallocHost needs only host memory */
	unsigned char *rgb;
	if (cudaMallocHost((void **)&rgb, rgb_bytes) != cudaSuccess)
		die(EXIT_INPUT, "out of pinned host memory: pixels (%zu bytes)", rgb_bytes);
	phase.start("read");
	read_pixels(file, path, rgb, rgb_bytes);

	phase.start("transform");
	int *d_red_out = device_alloc<int>(pixels, "coefficients");
	int *d_green_out = device_alloc<int>(pixels, "coefficients");
	int *d_blue_out = device_alloc<int>(pixels, "coefficients");
	int *scratch = device_alloc<int>(pixels, "scratch");
	int *d_red = device_alloc<int>(pixels, "component");
	int *d_green = device_alloc<int>(pixels, "component");
	int *d_blue = device_alloc<int>(pixels, "component");
	unsigned char *d_rgb = device_alloc<unsigned char>(rgb_bytes, "pixels");
	copy_to_device(d_rgb, rgb, rgb_bytes);
	unpack<<<need.grid, need.block>>>(d_rgb, d_red, d_green, d_blue, pixels);
	GPU_LAUNCHED("unpack");
	transform(d_red, d_red_out, scratch, width, height, levels);
	transform(d_green, d_green_out, scratch, width, height, levels);
	transform(d_blue, d_blue_out, scratch, width, height, levels);

	phase.start("result");
	unsigned long long sum, *d_sum = reinterpret_cast<unsigned long long *>(scratch);
	GPU(cudaMemset(d_sum, 0, sizeof sum));
	digest<<<need.grid, need.block>>>(d_red_out, pixels, 0, d_sum);
	GPU_LAUNCHED("digest");
	digest<<<need.grid, need.block>>>(d_green_out, pixels, pixels, d_sum);
	GPU_LAUNCHED("digest");
	digest<<<need.grid, need.block>>>(d_blue_out, pixels, 2 * pixels, d_sum);
	GPU_LAUNCHED("digest");
	copy_to_host(&sum, d_sum, sizeof sum);
	print_checksum(sum);
	if (opts.out || opts.verify) {
		int *plane = host_alloc<int>(pixels, "coefficients");
		FILE *result = opts.out ? open_output(opts.out) : nullptr;
		double error = 0;
		const auto deliver = [&](const int *d_plane, int component) {
			copy_to_host(plane, d_plane, pixels * sizeof(int));
			if (result)
				fwrite(plane, sizeof(int), pixels, result);
			if (opts.verify)
				keep_worst(&error, verify_component(rgb, component, plane, width, height, levels));
		};
		deliver(d_red_out, 0);
		deliver(d_green_out, 1);
		deliver(d_blue_out, 2);
		if (result)
			close_output(result, opts.out);
		if (opts.verify)
			verify_report("coefficients", error, 0);
		free(plane);
	}

	phase.start("tear-down");
	device_free(d_rgb);
	device_free(d_red);
	device_free(d_red_out);
	device_free(d_green);
	device_free(d_green_out);
	device_free(d_blue);
	device_free(d_blue_out);
	device_free(scratch);
	GPU(cudaFreeHost(rgb));
	check_footprint(need);
	phase.finish();
	return EXIT_OK;
}
