/* bfs: breadth-first search by levels over a graph of N nodes with 6 edges each (Rodinia's bfs). Each edge of a node goes
 * where one of 6 permutations of the nodes says, so that it can be followed backwards, too. A round is a search from another node.
 *
 * No kernel writes what it reads: the frontier is in one of two arrays and the next one is written to the other. */
#include "pilot.h"

static const about what = {"Distances of N nodes from one of them.", "expand", {1 << 20, 26 << 20, 128 << 20}, 2, 1L << 30, FULL, 100};

enum { DEGREE = 6 };

struct node {
	int first, degree;
};

/* bits is how many bits the numbers of n nodes have. */
__host__ __device__ static int bits(uint64_t n)
{
	int bits = 2;
	while ((1ull << bits) < n)
		bits++;
	return bits;
}

/* scrambled is a permutation of the numbers of so many bits, one for each key, and restored its inverse. The multipliers are
 * inverse to each other. */
__host__ __device__ static uint64_t scrambled(uint64_t x, uint64_t key, int bits)
{
	const uint64_t mask = (1ull << bits) - 1;

	for (int i = 0; i < 3; i++) {
		x = ((x ^ mixed(key + i)) * 0xd1342543de82ef95u) & mask;
		x ^= x >> (bits + 1) / 2;
	}
	return x;
}
__host__ static uint64_t restored(uint64_t x, uint64_t key, int bits)
{
	const uint64_t mask = (1ull << bits) - 1;

	for (int i = 2; i >= 0; i--) {
		x ^= x >> (bits + 1) / 2;
		x = ((x * 0x572b5ee77a54e3bdu) ^ mixed(key + i)) & mask;
	}
	return x;
}

/* A number beyond the nodes is permuted again. */
__host__ __device__ static uint64_t edge_from(uint64_t v, int edge, uint64_t nodes, int bits)
{
	do
		v = scrambled(v, 16 * edge, bits);
	while (v >= nodes);
	return v;
}
static uint64_t edge_to(uint64_t v, int edge, uint64_t nodes, int bits)
{
	do
		v = restored(v, 16 * edge, bits);
	while (v >= nodes);
	return v;
}

__global__ void fill(node *nodes, int *edges, size_t n, int bits)
{
	for (size_t v = first_item(); v < n; v += items_apart()) {
		nodes[v] = node{(int)(v * DEGREE), DEGREE};
		for (int e = 0; e < DEGREE; e++)
			edges[v * DEGREE + e] = (int)edge_from(v, e, n, bits);
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

__global__ void start(bool *frontier, bool *next, bool *visited, int *cost, size_t n, size_t source)
{
	for (size_t v = first_item(); v < n; v += items_apart()) {
		frontier[v] = visited[v] = v == source;
		next[v] = false;
		cost[v] = v == source ? 0 : -1;
		CASE_STOP_POINT();
	}
}
RESTARTABLE(start);

__global__ void expand(const node *nodes, const int *edges, const bool *frontier, const bool *visited, bool *next, size_t n)
{
	for (size_t v = first_item(); v < n; v += items_apart()) {
		if (frontier[v])
			for (int e = nodes[v].first; e < nodes[v].first + nodes[v].degree; e++)
				if (!visited[edges[e]])
					next[edges[e]] = true;
		CASE_STOP_POINT();
	}
}
RESTARTABLE(expand);

__global__ void advance(const bool *next, bool *old, bool *visited, int *cost, int *again, size_t n, int level)
{
	for (size_t v = first_item(); v < n; v += items_apart()) {
		old[v] = false;
		if (next[v]) {
			visited[v] = true;
			cost[v] = level;
			*again = 1;
		}
		CASE_STOP_POINT();
	}
}
RESTARTABLE(advance);

/* Costs are the distances if the source has 0 and every other node one more than the least of its predecessors. */
static void verify(const int *cost, size_t n, size_t source)
{
	double error = abs(peek(cost + source));

	for (int sample = 0; sample < 2000; sample++) {
		const size_t v = mixed(sample) % n;
		int least = -1;
		for (int e = 0; e < DEGREE; e++) {
			const int before = peek(cost + edge_to(v, e, n, bits(n)));
			if (before >= 0 && (least < 0 || before < least))
				least = before;
		}
		if (v != source)
			keep_worst(&error, abs(peek(cost + v) - (least < 0 ? -1 : least + 1)));
	}
	verify_report("costs", error, 0);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t n = p.size;
	node *nodes = p.allocate<node>(n, "nodes");
	int *edges = p.allocate<int>(n * DEGREE, "edges");
	bool *frontier = p.allocate<bool>(n, "frontier");
	bool *next = p.allocate<bool>(n, "next frontier");
	bool *visited = p.allocate<bool>(n, "visited");
	int *cost = p.allocate<int>(n, "costs");
	int *again = p.allocate<int>(1, "continue flag");
	p.begin(512.0 * n);
	LAUNCH(fill, p, nodes, edges, n, bits(n));
	p.phase("kernels");
	size_t source = 0;
	int level = 0;
	for (long r = 0; r < p.rounds; r++) {
		source = mixed(r) % n;
		level = 0;
		LAUNCH(start, p, frontier, next, visited, cost, n, source);
		do {
			level++;
			GPU(cudaMemset(again, 0, sizeof *again));
			LAUNCH(expand, p, nodes, edges, frontier, visited, next, n);
			LAUNCH(advance, p, next, frontier, visited, cost, again, n, level);
			bool *const old = frontier;
			frontier = next;
			next = old;
		} while (peek(again));
	}
	printf("levels %d\n", level);
	p.phase("verify");
	if (p.chosen.verify)
		verify(cost, n, source);
	return p.finish(cost, n * sizeof *cost);
}
