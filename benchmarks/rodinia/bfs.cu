/* bfs: breadth-first search by levels over a graph in compressed rows, one
 * thread per node (Harish and Narayanan, "Accelerating large graph algorithms
 * on the GPU using CUDA", HiPC 2007). */
#include "bfs_graph.h"
#include "common/suite.h"

#include <string.h>

static const char usage[] =
	"usage: bfs GRAPH [options]\n"
	"       bfs --write-graph FILE gen:NODES:SEED\n"
	"Distance in edges of every node from the source. GRAPH is a text file in\n"
	"Rodinia's format or gen:NODES:SEED, which builds the graph in memory.\n"
	"  --write-graph FILE  write the generated graph as text and exit; no GPU needed\n";

enum { BLOCK = 512 };

/* One level. Threads that reach the same node write the same values. */
__global__ void expand_frontier(const graph_node *nodes, const int *edges, bool *frontier,
                                bool *reached, const bool *visited, int *cost, int count)
{
	const unsigned v = blockIdx.x * BLOCK + threadIdx.x;

	if (v >= count || !frontier[v])
		return;
	frontier[v] = false;
	for (int e = nodes[v].first; e < nodes[v].first + nodes[v].degree; e++) {
		int w = edges[e];
		if (!visited[w]) {
			cost[w] = cost[v] + 1;
			reached[w] = true;
		}
	}
}

__global__ void advance_frontier(bool *frontier, bool *reached, bool *visited, bool *again, int count)
{
	const unsigned v = blockIdx.x * BLOCK + threadIdx.x;

	if (v >= count || !reached[v])
		return;
	reached[v] = false;
	visited[v] = true;
	frontier[v] = true;
	*again = true;
}

static footprint footprint_of(uint64_t nodes, uint64_t edges)
{
	footprint need;

	need.bytes = nodes * (sizeof(graph_node) + sizeof(int) + 3 * sizeof(bool)) +
	             edges * sizeof(int) + sizeof(bool);
	need.kernel = "expand_frontier";
	need.grid = dim3((nodes + BLOCK - 1) / BLOCK);
	need.block = dim3(BLOCK);
	return need;
}

static footprint footprint_of_argument(const char *argument)
{
	int nodes, edges;
	uint64_t seed;

	if (parse_generator(argument, &nodes, &seed))
		return footprint_of(nodes, generated_edges(nodes, seed));
	read_graph_size(argument, &nodes, &edges);
	return footprint_of(nodes, edges);
}

/* verify searches with a queue on the host. */
static void verify(const graph &g, const int *cost)
{
	int *want = host_alloc<int>(g.nodes, "reference costs");
	int *queue = host_alloc<int>(g.nodes, "reference queue");
	int head = 0, tail = 0;
	double error = 0;

	for (int v = 0; v < g.nodes; v++)
		want[v] = -1;
	want[g.source] = 0;
	queue[tail++] = g.source;
	while (head < tail) {
		int v = queue[head++];
		for (int e = 0; e < g.node[v].degree; e++) {
			int w = g.edge[g.node[v].first + e];
			if (want[w] < 0) {
				want[w] = want[v] + 1;
				queue[tail++] = w;
			}
		}
	}
	for (int v = 0; v < g.nodes; v++)
		keep_worst(&error, abs(cost[v] - want[v]));
	printf("reached %d of %d nodes\n", tail, g.nodes);
	verify_report("costs", error, 0);
	free(want);
	free(queue);
}

static int write_generated(const char *path, const char *argument)
{
	int nodes;
	uint64_t seed;

	if (!parse_generator(argument, &nodes, &seed))
		die(EXIT_INPUT, "--write-graph wants gen:NODES:SEED, not \"%s\"", argument);
	graph g = generate_graph(nodes, seed);
	write_graph(g, path);
	free_graph(&g);
	return EXIT_OK;
}

int main(int argc, char **argv)
{
	const options opts = take_options(&argc, argv, usage);
	if (argc == 4 && !strcmp(argv[1], "--write-graph"))
		return write_generated(argv[2], argv[3]);
	if (argc != 2)
		usage_error(usage);
	if (opts.footprint) {
		print_footprint(footprint_of_argument(argv[1]));
		return EXIT_OK;
	}

	phase_clock phase(opts.phases);
	phase.start("graph");
	int generated_nodes;
	uint64_t seed;
	graph g = parse_generator(argv[1], &generated_nodes, &seed)
	                  ? generate_graph(generated_nodes, seed)
	                  : read_graph(argv[1]);
	const size_t nodes = g.nodes;
	bool *frontier = host_alloc<bool>(nodes, "frontier");
	bool *reached = host_alloc<bool>(nodes, "reached");
	bool *visited = host_alloc<bool>(nodes, "visited");
	int *cost = host_alloc<int>(nodes, "costs");
	for (size_t v = 0; v < nodes; v++) {
		frontier[v] = reached[v] = visited[v] = false;
		cost[v] = -1;
	}
	frontier[g.source] = visited[g.source] = true;
	cost[g.source] = 0;

	phase.start("copy in");
	const footprint need = footprint_of(nodes, g.edges);
	graph_node *d_nodes = device_alloc<graph_node>(nodes, "nodes");
	copy_to_device(d_nodes, g.node, nodes * sizeof *d_nodes);
	int *d_edges = device_alloc<int>(g.edges, "edges");
	copy_to_device(d_edges, g.edge, g.edges * sizeof *d_edges);
	bool *d_frontier = device_alloc<bool>(nodes, "frontier");
	copy_to_device(d_frontier, frontier, nodes);
	bool *d_reached = device_alloc<bool>(nodes, "reached");
	copy_to_device(d_reached, reached, nodes);
	bool *d_visited = device_alloc<bool>(nodes, "visited");
	copy_to_device(d_visited, visited, nodes);
	int *d_cost = device_alloc<int>(nodes, "costs");
	copy_to_device(d_cost, cost, nodes * sizeof *d_cost);
	bool *d_again = device_alloc<bool>(1, "continue flag");

	phase.start("search");
	bool again;
	int levels = 0;
	do {
		again = false;
		copy_to_device(d_again, &again, sizeof again);
		expand_frontier<<<need.grid, need.block>>>(d_nodes, d_edges, d_frontier, d_reached,
		                                           d_visited, d_cost, g.nodes);
		GPU_LAUNCHED("expand_frontier");
		advance_frontier<<<need.grid, need.block>>>(d_frontier, d_reached, d_visited, d_again, g.nodes);
		GPU_LAUNCHED("advance_frontier");
		copy_to_host(&again, d_again, sizeof again);
		levels++;
	} while (again);

	phase.start("copy out");
	copy_to_host(cost, d_cost, nodes * sizeof *d_cost);
	printf("levels %d\n", levels);
	print_checksum(checksum(cost, nodes * sizeof *cost));

	phase.start("write");
	FILE *file = open_output(opts.out);
	for (size_t v = 0; v < nodes; v++)
		fprintf(file, "%zu) cost:%d\n", v, cost[v]);
	close_output(file, opts.out);
	if (opts.verify)
		verify(g, cost);

	phase.start("tear-down");
	free_graph(&g);
	free(frontier);
	free(reached);
	free(visited);
	free(cost);
	device_free(d_nodes);
	device_free(d_edges);
	device_free(d_frontier);
	device_free(d_reached);
	device_free(d_visited);
	device_free(d_cost);
	device_free(d_again);
	check_footprint(need);
	phase.finish();
	return EXIT_OK;
}
