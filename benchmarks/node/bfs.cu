/* bfs: breadth-first search by levels over a graph of N nodes with 6 edges each, which ends after 12 levels. Each level has two
 * launches: nodes that have just been reached mark their neighbours, and what is marked gets its level. */
#include "node.h"

static const about what = {"Levels of N nodes.", "mark", {1 << 10, 1 << 16, 1 << 20}, 2, 1L << 28, FULL, 1000000};

enum { DEGREE = 6, LEVELS = 12 };

__global__ void mark(const int *edges, const int *level_of, int *marked, size_t n, int level, long rounds, span *ran)
{
	const stamped all(ran);

	for (long r = 0; r < rounds; r++)
		for (size_t v = first_item(); v < n; v += items_apart())
			for (int e = 0; e < DEGREE && level_of[v] == level - 1; e++)
				marked[edges[v * DEGREE + e]] = level;
}
KERNEL(mark);

__global__ void reach(const int *marked, int *level_of, size_t n, int level, long rounds, span *ran)
{
	const stamped all(ran);

	for (long r = 0; r < rounds; r++)
		for (size_t v = first_item(); v < n; v += items_apart())
			if (marked[v] == level && level_of[v] < 0)
				level_of[v] = level;
}
KERNEL(reach);

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const size_t n = p.size;
	int *edges = p.allocate<int>(n * DEGREE, "edges"), *marked = p.allocate<int>(n, "marks"), *level_of = p.allocate<int>(n, "levels");
	p.begin(2 * LEVELS, 12.0 * n);
	const std::vector<int> of = upload(edges, n * DEGREE, [n](size_t i) { return mixed(i) % n; });
	std::vector<int> want = upload(level_of, n, [](size_t i) { return i == 0 ? 0 : -1; });
	GPU(cudaMemset(marked, 0, n * sizeof *marked));
	p.phase("kernels");
	for (int level = 1; level <= LEVELS; level++) {
		STEP(mark, p, edges, level_of, marked, n, level, p.rounds);
		STEP(reach, p, marked, level_of, n, level, p.rounds);
	}
	p.phase("verify");
	if (p.chosen.verify) {
		std::vector<size_t> reached = {0};
		for (size_t next = 0; next < reached.size() && want[reached[next]] < LEVELS; next++)
			for (int e = 0; e < DEGREE; e++) {
				const int v = of[reached[next] * DEGREE + e];
				if (want[v] < 0) {
					want[v] = want[reached[next]] + 1;
					reached.push_back(v);
				}
			}
		verify_report("levels", download(level_of, n) != want, 0);
	}
	return p.finish(level_of, n * sizeof *level_of);
}
