/* nw: alignment of two sequences of N letters (Needleman and Wunsch). A launch computes the tiles of 16 x 16 of one diagonal; the
 * first one makes the borders. */
#include "align.h"
#include "node.h"

static const about what = {"Alignment of two sequences of N letters.", "align", {64, 512, 2048}, 1, 1L << 15, 128, 1000000};

__host__ __device__ static int letter(uint64_t sequence, size_t i) { return mixed(sequence << 32 | i) % 4; }

__global__ void border(int *scores, size_t n, span *ran)
{
	const stamped all(ran);

	for (size_t i = first_item(); i <= n; i += items_apart())
		scores[i] = scores[i * (n + 1)] = GAP * (int)i;
}
KERNEL(border);

__global__ void align(int *scores, size_t n, size_t diagonal, size_t tiles, long rounds, span *ran)
{
	const stamped all(ran);
	const size_t first = diagonal < tiles ? 0 : diagonal - tiles + 1, last = diagonal < tiles ? diagonal : tiles - 1;

	for (size_t item = blockIdx.x; item < (last - first + 1) * rounds; item += gridDim.x) {
		const size_t tile = first + item % (last - first + 1);
		align_tile(scores, n, tile, diagonal - tile, [](size_t row, size_t column) { return letter(1, row) == letter(2, column); });
	}
}
KERNEL(align);

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const size_t n = p.size, tiles = (n + TILE - 1) / TILE, wide = n + 1;
	int *scores = p.allocate<int>(wide * wide, "scores");
	p.begin(1, 16.0 * n * n);
	p.phase("kernels");
	STEP(border, p, scores, n);
	for (size_t diagonal = 0; diagonal < 2 * tiles - 1; diagonal++)
		STEP(align, p, scores, n, diagonal, tiles, p.rounds);
	p.phase("verify");
	if (p.chosen.verify) {
		const std::vector<int> want = aligned(n, [](size_t row, size_t column) { return letter(1, row) == letter(2, column); });
		verify_report("scores", download(scores, wide * wide) != want, 0);
	}
	return p.finish(scores, wide * wide * sizeof *scores);
}
