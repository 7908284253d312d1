/* nw: the root scatters pairs of sequences of N letters in each iteration, ranks align theirs (Needleman and Wunsch), and the root gathers the matrices
 * of scores. A launch computes the tiles of one diagonal of all matrices of a rank. The first one makes the borders. */
#include "../node/align.h"
#include "cluster.h"

static const about what = {"Alignments of --pairs pairs of sequences of N letters (76) in each of the --iterations, which the ranks of the job share. Rounds: how\n"
                           "often each tile of a matrix is computed.",
                           "align", {64, 256, 700}, 1, 1L << 14, FULL, 256};

__global__ void border(int *scores, size_t n, size_t pairs, span *ran)
{
	const stamped all(ran);

	for (size_t item = first_item(); item < pairs * (n + 1); item += items_apart()) {
		const size_t i = item % (n + 1);
		int *const of = scores + item / (n + 1) * (n + 1) * (n + 1);
		of[i] = of[i * (n + 1)] = GAP * (int)i;
	}
}
KERNEL(border);

/* A pair has the letters of its two sequences one after the other. */
__global__ void align(int *scores, const int *letters, size_t n, size_t pairs, size_t diagonal, size_t tiles, long rounds, span *ran)
{
	const stamped all(ran);
	const size_t first = diagonal < tiles ? 0 : diagonal - tiles + 1, last = diagonal < tiles ? diagonal : tiles - 1, count = last - first + 1;

	for (size_t item = blockIdx.x; item < pairs * count * rounds; item += gridDim.x) {
		const size_t pair = item / count % pairs, tile = first + item % count;
		const int *const one = letters + pair * 2 * n, *const other = one + n;
		align_tile(scores + pair * (n + 1) * (n + 1), n, tile, diagonal - tile, [=](size_t row, size_t column) { return one[row - 1] == other[column - 1]; });
	}
}
KERNEL(align);

int main(int argc, char **argv)
{
	double many = 76;
	cluster_program p(argc, argv, what, {{"--pairs", &many, 1, nullptr}});
	const size_t n = p.size, tiles = (n + TILE - 1) / TILE, entries = (n + 1) * (n + 1), bytes = entries * sizeof(int), pairs = (size_t)many, most = p.job.most(pairs);
	const size_t own = p.job.first(p.job.own + 1, pairs) - p.job.first(p.job.own, pairs);
	int *letters = p.allocate<int>(most * 2 * n, "sequences"), *scores = p.allocate<int>(most * entries, "scores");
	p.begin();
	const bool root = p.job.own == 0;
	std::vector<int> sent(root ? pairs * 2 * n : 0), all(root ? pairs * entries : 0), got(own * 2 * n), aligned_here(own * entries);
	long wrong = 0;
	for (size_t iteration = 0; iteration < (size_t)iterations; iteration++) {
		for (size_t i = 0; i < sent.size(); i++)
			sent[i] = (int)(mixed((uint64_t)iteration << 32 ^ i) % 4);
		p.phase("scatter");
		p.job.scatter(pairs, 2 * n * sizeof(int), [&](size_t i) { return &sent[i * 2 * n]; }, got.data());
		p.phase("device");
		copy_to_device(letters, got.data(), got.size() * sizeof(int));
		STEP(border, p, scores, n, own);
		for (size_t diagonal = 0; diagonal < 2 * tiles - 1; diagonal++)
			STEP(align, p, scores, letters, n, own, diagonal, tiles, p.rounds);
		copy_to_host(aligned_here.data(), scores, own * bytes);
		p.phase("gather");
		p.job.gather(pairs, bytes, aligned_here.data(), all.data());
		p.phase("verify");
		for (size_t i = 0; p.checks() && i < pairs; i++) {
			const int *const one = &sent[i * 2 * n], *const other = one + n;
			const std::vector<int> want = aligned(n, [=](size_t row, size_t column) { return one[row - 1] == other[column - 1]; });
			wrong += memcmp(want.data(), &all[i * entries], bytes) != 0;
		}
	}
	if (p.checks())
		verify_report("scores", wrong, 0);
	return p.finish(root ? all : aligned_here);
}
