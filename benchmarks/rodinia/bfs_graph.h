/* bfs_graph.h: the host side of bfs: graphs, their generator and their text
 * format.
 *
 * Text format (Rodinia's): the node count; per node "start degree"; a blank
 * line; the source node; a blank line; the edge count; per edge
 * "destination weight". Edges of a node are consecutive from its start. */
#ifndef BFS_GRAPH_H
#define BFS_GRAPH_H

#include <stdint.h>

struct graph_node {
	int first;  /* index of the node's first edge */
	int degree;
};

struct graph {
	int nodes, edges, source;
	graph_node *node;
	int *edge; /* destinations */
	uint64_t seed;
};

/* generate_graph implements the definition of package mixes/suites/graph (README.md, "Graphs").
 * Both write the same bytes for the same arguments. */
graph generate_graph(int nodes, uint64_t seed);

/* generated_edges returns the edge count of generate_graph(nodes, seed). */
uint64_t generated_edges(int nodes, uint64_t seed);

/* read_graph parses a text file or dies, naming the file and the place. */
graph read_graph(const char *path);

/* read_graph_size reads a file's node and edge counts. */
void read_graph_size(const char *path, int *nodes, int *edges);

/* write_graph writes a generated graph as text. Weights follow from the seed. */
void write_graph(const graph &g, const char *path);

void free_graph(graph *g);

/* parse_generator reads "gen:NODES:SEED"; false if text has no such prefix. */
bool parse_generator(const char *text, int *nodes, uint64_t *seed);

#endif
