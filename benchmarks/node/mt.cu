/* mt: a matrix is transposed 816 times. Each time its entries grow by 1. */
#include "node.h"

static const about what = {"Transposes of an N x N matrix.", "transpose", {32, 128, 384}, 1, 1L << 15, 576, 1000000};

__global__ void transpose(const int *in, int *out, size_t n, long rounds, span *ran)
{
	const stamped all(ran);

	for (long r = 0; r < rounds; r++)
		for (size_t i = first_item(); i < n * n; i += items_apart())
			out[i] = in[i % n * n + i / n] + 1;
}
KERNEL(transpose);

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const int launches = p.times(816);
	const size_t n = p.size;
	int *m[2] = {p.allocate<int>(n * n, "matrix"), p.allocate<int>(n * n, "transpose")};
	p.begin(launches, 8.0 * n * n);
	const std::vector<int> first = upload(m[0], n * n, [](size_t i) { return mixed(i) >> 40; });
	p.phase("kernels");
	for (int l = 0; l < launches; l++)
		STEP(transpose, p, m[l % 2], m[(l + 1) % 2], n, p.rounds);
	p.phase("verify");
	if (p.chosen.verify) {
		const std::vector<int> got = download(m[launches % 2], n * n);
		double error = 0;
		for (size_t i = 0; i < n * n; i++)
			keep_worst(&error, abs(got[i] - first[launches % 2 ? i % n * n + i / n : i] - launches));
		verify_report("entries", error, 0);
	}
	return p.finish(m[launches % 2], n * n * sizeof(int));
}
