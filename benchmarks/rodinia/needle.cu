/* needle: global alignment of two protein sequences with a linear gap penalty
 * (Needleman and Wunsch, J. Mol. Biol. 48, 1970). The score matrix is filled in
 * tiles of 16 x 16, one kernel per anti-diagonal of tiles.
 *
 * Both matrices are (n + 1) x (n + 1), by rows; row 0 and column 0 are the
 * gaps before the sequences. */
#include "common/suite.h"

#include <math.h>

static const char usage[] =
	"usage: needle LENGTH PENALTY [options]\n"
	"Aligns two random protein sequences of LENGTH residues (a multiple of 16) and\n"
	"writes the scores along the best alignment, from its end.\n";

enum { TILE = 16, RESIDUES = 20 };

/* BLOSUM62 (Henikoff and Henikoff, PNAS 89, 1992), residues in the order
 * ARNDCQEGHILKMFPSTWYV. */
static const signed char blosum62[RESIDUES][RESIDUES] = {
	{4, -1, -2, -2, 0, -1, -1, 0, -2, -1, -1, -1, -1, -2, -1, 1, 0, -3, -2, 0},
	{-1, 5, 0, -2, -3, 1, 0, -2, 0, -3, -2, 2, -1, -3, -2, -1, -1, -3, -2, -3},
	{-2, 0, 6, 1, -3, 0, 0, 0, 1, -3, -3, 0, -2, -3, -2, 1, 0, -4, -2, -3},
	{-2, -2, 1, 6, -3, 0, 2, -1, -1, -3, -4, -1, -3, -3, -1, 0, -1, -4, -3, -3},
	{0, -3, -3, -3, 9, -3, -4, -3, -3, -1, -1, -3, -1, -2, -3, -1, -1, -2, -2, -1},
	{-1, 1, 0, 0, -3, 5, 2, -2, 0, -3, -2, 1, 0, -3, -1, 0, -1, -2, -1, -2},
	{-1, 0, 0, 2, -4, 2, 5, -2, 0, -3, -3, 1, -2, -3, -1, 0, -1, -3, -2, -2},
	{0, -2, 0, -1, -3, -2, -2, 6, -2, -4, -4, -2, -3, -3, -2, 0, -2, -2, -3, -3},
	{-2, 0, 1, -1, -3, 0, 0, -2, 8, -3, -3, -1, -2, -1, -2, -1, -2, -2, 2, -3},
	{-1, -3, -3, -3, -1, -3, -3, -4, -3, 4, 2, -3, 1, 0, -3, -2, -1, -3, -1, 3},
	{-1, -2, -3, -4, -1, -2, -3, -4, -3, 2, 4, -2, 2, 0, -3, -2, -1, -2, -1, 1},
	{-1, 2, 0, -1, -3, 1, 1, -2, -1, -3, -2, 5, -1, -3, -1, 0, -1, -3, -2, -2},
	{-1, -1, -2, -3, -1, 0, -2, -3, -2, 1, 2, -1, 5, 0, -2, -1, -1, -1, -1, 1},
	{-2, -3, -3, -3, -2, -3, -3, -3, -1, 0, 0, -3, 0, 6, -4, -2, -2, 1, 3, -1},
	{-1, -2, -2, -1, -3, -1, -1, -2, -2, -3, -3, -1, -2, -4, 7, -1, -1, -4, -3, -2},
	{1, -1, 1, 0, -1, 0, 0, 0, -1, -2, -2, 0, -1, -2, -1, 4, 1, -3, -2, -2},
	{0, -1, 0, -1, -1, -1, -1, -2, -2, -1, -1, -1, -1, -2, -1, 1, 5, -2, -2, 0},
	{-3, -3, -4, -4, -2, -2, -3, -2, -2, -3, -2, -3, -1, 1, -4, -3, -2, 11, 2, -3},
	{-2, -2, -2, -3, -2, -1, -2, -3, 2, -1, -1, -2, -1, 3, -3, -2, -2, 2, 7, -1},
	{0, -3, -3, -3, -1, -2, -2, -3, -3, 3, 1, -2, 1, -1, -2, -2, 0, -3, -1, 4},
};

/* One anti-diagonal: block b fills the tile (first_x + b, first_y - b). Its
 * left, upper and corner neighbours were filled by earlier kernels. */
__global__ void fill_diagonal(const int *reference, int *score, int width, int penalty, int first_x,
                              int first_y)
{
	__shared__ int cell[TILE + 1][TILE + 1];
	__shared__ int match[TILE][TILE];
	const int t = threadIdx.x;
	const int x0 = (first_x + (int)blockIdx.x) * TILE + 1, y0 = (first_y - (int)blockIdx.x) * TILE + 1;
	const size_t corner = (size_t)y0 * width + x0;

	for (int y = 0; y < TILE; y++)
		match[y][t] = reference[corner + (size_t)y * width + t];
	cell[t + 1][0] = score[corner + (size_t)t * width - 1];
	cell[0][t + 1] = score[corner - width + t];
	if (t == 0)
		cell[0][0] = score[corner - width - 1];
	__syncthreads();
	for (int diagonal = 0; diagonal < 2 * TILE - 1; diagonal++) {
		const int x = t, y = diagonal - t;
		if (y >= 0 && y < TILE)
			cell[y + 1][x + 1] = max(cell[y][x] + match[y][x],
			                         max(cell[y + 1][x], cell[y][x + 1]) - penalty);
		__syncthreads();
	}
	for (int y = 0; y < TILE; y++)
		score[corner + (size_t)y * width + t] = cell[y + 1][t + 1];
}

static footprint footprint_of(uint64_t length)
{
	footprint need;

	need.bytes = 2 * (length + 1) * (length + 1) * sizeof(int);
	need.kernel = "fill_diagonal";
	need.grid = dim3(length / TILE);
	need.block = dim3(TILE);
	return need;
}

/* write_alignment follows the best alignment from the last cell to the first
 * and writes the score of each cell on it. Returns the cells' checksum. */
static uint64_t write_alignment(const int *reference, const int *score, int width, int penalty,
                                const char *path)
{
	FILE *file = open_output(path);
	uint64_t sum = 0;
	int x = width - 1, y = width - 1;

	for (;;) {
		const size_t at = (size_t)y * width + x;
		const int step[3] = {x, y, score[at]};
		fprintf(file, "%d ", score[at]);
		sum = checksum(step, sizeof step, sum);
		if (x == 0 && y == 0)
			break;
		if (x > 0 && y > 0 && score[at] == score[at - width - 1] + reference[at])
			x--, y--;
		else if (x > 0 && score[at] == score[at - 1] - penalty)
			x--;
		else
			y--;
	}
	fputc('\n', file);
	close_output(file, path);
	return sum;
}

/* verify fills the matrix row by row on the host, from the sequences. */
static void verify(const unsigned char *a, const unsigned char *b, const int *score, int width, int penalty)
{
	int *above = host_alloc<int>(width, "reference row"), *row = host_alloc<int>(width, "reference row");
	double error = 0;

	for (int y = 0; y < width; y++) {
		for (int x = 0; x < width; x++) {
			if (y == 0 || x == 0) {
				row[x] = -penalty * (x + y);
			} else {
				int best = above[x - 1] + blosum62[a[y]][b[x]];
				best = above[x] - penalty > best ? above[x] - penalty : best;
				row[x] = row[x - 1] - penalty > best ? row[x - 1] - penalty : best;
			}
			keep_worst(&error, abs(row[x] - score[(size_t)y * width + x]));
		}
		int *swap = above;
		above = row;
		row = swap;
	}
	verify_report("scores", error, 0);
	free(above);
	free(row);
}

int main(int argc, char **argv)
{
	const options opts = take_options(&argc, argv, usage);
	if (argc != 3)
		usage_error(usage);
	const int length = parse_int(argv[1], "LENGTH", TILE, 1 << 20);
	const int penalty = parse_int(argv[2], "PENALTY", 0, 1000);
	if (length % TILE)
		die(EXIT_INPUT, "LENGTH is %d, want a multiple of %d", length, TILE);
	const int width = length + 1, tiles = length / TILE;
	const size_t cells = (size_t)width * width, matrix_bytes = cells * sizeof(int);
	const footprint need = footprint_of(length);
	if (opts.footprint) {
		print_footprint(need);
		return EXIT_OK;
	}

	phase_clock phase(opts.phases);
	phase.start("matrices");
	int *reference = host_alloc<int>(cells, "reference");
	int *start = host_alloc<int>(cells, "start scores");
	int *score = host_alloc<int>(cells, "scores");
	unsigned char *a = host_alloc<unsigned char>(width, "sequence");
	unsigned char *b = host_alloc<unsigned char>(width, "sequence");
	c_random random(7);
	for (size_t i = 0; i < cells; i++)
		start[i] = 0;
	for (int i = 1; i < width; i++) {
		a[i] = random.below(RESIDUES);
		b[i] = random.below(RESIDUES);
	}
	for (int i = 0; i < width; i++)
		reference[i] = reference[(size_t)i * width] = 0;
	for (int y = 1; y < width; y++)
		for (int x = 1; x < width; x++)
			reference[(size_t)y * width + x] = blosum62[a[y]][b[x]];
	for (int i = 1; i < width; i++)
		start[i] = start[(size_t)i * width] = -penalty * i;

	phase.start("copy in");
	int *d_reference = device_alloc<int>(cells, "reference");
	int *d_score = device_alloc<int>(cells, "scores");
	copy_to_device(d_reference, reference, matrix_bytes);
	copy_to_device(d_score, start, matrix_bytes);

	phase.start("fill");
	for (int n = 1; n <= tiles; n++) {
		fill_diagonal<<<n, TILE>>>(d_reference, d_score, width, penalty, 0, n - 1);
		GPU_LAUNCHED("fill_diagonal");
	}
	for (int n = tiles - 1; n >= 1; n--) {
		fill_diagonal<<<n, TILE>>>(d_reference, d_score, width, penalty, tiles - n, tiles - 1);
		GPU_LAUNCHED("fill_diagonal");
	}

	phase.start("copy out");
	copy_to_host(score, d_score, matrix_bytes);
	phase.start("traceback");
	const uint64_t path = write_alignment(reference, score, width, penalty, opts.out);
	print_checksum(checksum(score, matrix_bytes, path));
	if (opts.verify)
		verify(a, b, score, width, penalty);

	phase.start("tear-down");
	device_free(d_reference);
	device_free(d_score);
	check_footprint(need);
	free(reference);
	free(start);
	free(score);
	free(a);
	free(b);
	phase.finish();
	return EXIT_OK;
}
