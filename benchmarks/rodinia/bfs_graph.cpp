#include "bfs_graph.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/suite.h"

/* SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014). */
static uint64_t splitmix_finish(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* draws is the sequence of numbers that defines a graph. Each node draws its degree, 2 to 4,
 * and then as many neighbours. */
class draws {
public:
	draws(int nodes, uint64_t seed) : state_(seed), nodes_(nodes) {}
	int degree() { return 2 + (int)((next() >> 32) * 3 >> 32); }
	int neighbour() { return (int)((next() >> 32) * nodes_ >> 32); }
	void skip(int count) { state_ += (uint64_t)count * step; }

private:
	static const uint64_t step = 0x9e3779b97f4a7c15u;
	uint64_t next() { return splitmix_finish(state_ += step); }
	uint64_t state_, nodes_;
};

/* weight is 1 to 10 and the same in both directions. */
static int weight(uint64_t seed, uint32_t a, uint32_t b)
{
	const uint64_t low = a < b ? a : b, high = a < b ? b : a;

	return 1 + (int)((splitmix_finish(seed ^ (high << 32 | low)) >> 32) * 10 >> 32);
}

uint64_t generated_edges(int nodes, uint64_t seed)
{
	draws sequence(nodes, seed);
	uint64_t edges = 0;

	for (int v = 0; v < nodes; v++) {
		int degree = sequence.degree();
		sequence.skip(degree);
		edges += 2 * degree;
	}
	return edges;
}

static graph make_graph(int nodes, uint64_t edges, uint64_t seed)
{
	graph g;

	if (edges > INT_MAX)
		die(EXIT_INPUT, "a graph of %d nodes has %llu edges, more than an int counts", nodes,
		    (unsigned long long)edges);
	g.nodes = nodes;
	g.edges = (int)edges;
	g.source = 0;
	g.seed = seed;
	g.node = host_alloc<graph_node>(nodes, "nodes");
	g.edge = host_alloc<int>(edges ? edges : 1, "edges");
	return g;
}

graph generate_graph(int nodes, uint64_t seed)
{
	graph g = make_graph(nodes, generated_edges(nodes, seed), seed);
	draws count(nodes, seed), fill(nodes, seed);
	int first = 0;

	for (int v = 0; v < nodes; v++)
		g.node[v].degree = 0;
	for (int v = 0; v < nodes; v++)
		for (int left = count.degree(); left > 0; left--) {
			g.node[v].degree++;
			g.node[count.neighbour()].degree++;
		}
	for (int v = 0; v < nodes; v++) {
		g.node[v].first = first;
		first += g.node[v].degree;
		g.node[v].degree = 0;
	}
	for (int v = 0; v < nodes; v++)
		for (int left = fill.degree(); left > 0; left--) {
			int w = fill.neighbour();
			g.edge[g.node[v].first + g.node[v].degree++] = w;
			g.edge[g.node[w].first + g.node[w].degree++] = v;
		}
	return g;
}

/* scan reads `count` ints or dies with what was being read. */
static void scan(FILE *file, const char *path, int count, int *a, int *b, const char *what, int index)
{
	int got = count == 2 ? fscanf(file, "%d %d", a, b) : fscanf(file, "%d", a);

	if (got == count)
		return;
	if (ferror(file))
		die(EXIT_INPUT, "read %s: %s", path, strerror(errno));
	die(EXIT_INPUT, "%s: %s %d: %s", path, what, index,
	    feof(file) ? "the file ends early" : "not a number");
}

static FILE *open_graph(const char *path, int *nodes)
{
	FILE *file = fopen(path, "r");

	if (!file)
		die(EXIT_INPUT, "open %s: %s", path, strerror(errno));
	scan(file, path, 1, nodes, nullptr, "node count", 0);
	if (*nodes < 1)
		die(EXIT_INPUT, "%s: node count is %d", path, *nodes);
	return file;
}

void read_graph_size(const char *path, int *nodes, int *edges)
{
	FILE *file = open_graph(path, nodes);
	int a, b;

	for (int v = 0; v < *nodes; v++)
		scan(file, path, 2, &a, &b, "node", v);
	scan(file, path, 1, &a, nullptr, "source", 0);
	scan(file, path, 1, edges, nullptr, "edge count", 0);
	fclose(file);
}

graph read_graph(const char *path)
{
	graph g = {};
	FILE *file = open_graph(path, &g.nodes);
	long total = 0;
	int ignored;

	g.node = host_alloc<graph_node>(g.nodes, "nodes");
	for (int v = 0; v < g.nodes; v++) {
		graph_node *node = &g.node[v];
		scan(file, path, 2, &node->first, &node->degree, "node", v);
		if (node->first != total || node->degree < 0 || total + node->degree > INT_MAX)
			die(EXIT_INPUT, "%s: node %d: edges %d+%d do not follow the previous node's", path, v,
			    node->first, node->degree);
		total += node->degree;
	}
	scan(file, path, 1, &g.source, nullptr, "source", 0);
	if (g.source < 0 || g.source >= g.nodes)
		die(EXIT_INPUT, "%s: source %d is not a node", path, g.source);
	scan(file, path, 1, &g.edges, nullptr, "edge count", 0);
	if (g.edges != total)
		die(EXIT_INPUT, "%s: edge count is %d, the nodes have %ld", path, g.edges, total);
	g.edge = host_alloc<int>(g.edges ? g.edges : 1, "edges");
	for (int e = 0; e < g.edges; e++) {
		scan(file, path, 2, &g.edge[e], &ignored, "edge", e);
		if (g.edge[e] < 0 || g.edge[e] >= g.nodes)
			die(EXIT_INPUT, "%s: edge %d: %d is not a node", path, e, g.edge[e]);
	}
	fclose(file);
	return g;
}

/* text_writer formats integers into a large buffer, so that writing half a billion numbers is
 * limited by the disk and not by printf. */
class text_writer {
public:
	explicit text_writer(const char *path)
		: path_(path), file_(open_output(path)), used_(0) {}
	void number(unsigned value, char after)
	{
		char digits[10];
		int count = 0;

		if (used_ + sizeof digits + 1 > sizeof buffer_)
			flush();
		do
			digits[count++] = '0' + value % 10;
		while (value /= 10);
		while (count)
			buffer_[used_++] = digits[--count];
		buffer_[used_++] = after;
	}
	void newline()
	{
		if (used_ == sizeof buffer_)
			flush();
		buffer_[used_++] = '\n';
	}
	void close()
	{
		flush();
		close_output(file_, path_);
	}

private:
	void flush()
	{
		fwrite(buffer_, 1, used_, file_);
		used_ = 0;
	}
	const char *path_;
	FILE *file_;
	size_t used_;
	char buffer_[1 << 16];
};

void write_graph(const graph &g, const char *path)
{
	text_writer out(path);

	out.number(g.nodes, '\n');
	for (int v = 0; v < g.nodes; v++) {
		out.number(g.node[v].first, ' ');
		out.number(g.node[v].degree, '\n');
	}
	out.newline();
	out.number(g.source, '\n');
	out.newline();
	out.number(g.edges, '\n');
	for (int v = 0; v < g.nodes; v++)
		for (int e = 0; e < g.node[v].degree; e++) {
			int w = g.edge[g.node[v].first + e];
			out.number(w, ' ');
			out.number(weight(g.seed, v, w), '\n');
		}
	out.close();
}

void free_graph(graph *g)
{
	free(g->node);
	free(g->edge);
}

bool parse_generator(const char *text, int *nodes, uint64_t *seed)
{
	if (strncmp(text, "gen:", 4))
		return false;
	char *end;
	const char *at = text + 4;
	errno = 0;
	long count = strtol(at, &end, 10);
	if (end == at || *end != ':' || count < 1 || count > INT_MAX || errno)
		die(EXIT_INPUT, "graph \"%s\": want gen:NODES:SEED", text);
	at = end + 1;
	*seed = strtoull(at, &end, 10);
	if (end == at || *end || *at == '-' || errno)
		die(EXIT_INPUT, "graph \"%s\": want gen:NODES:SEED", text);
	*nodes = (int)count;
	return true;
}
