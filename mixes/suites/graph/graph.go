// Package graph writes random graphs in the text format that Rodinia's bfs reads.
//
// The number of nodes and a seed define a graph. benchmarks/rodinia/bfs_graph.cpp implements the
// same definition in C++ and writes the same bytes.
//
// The random numbers are a SplitMix64 sequence that starts at the seed. scale(n) is the high half
// of the next number times n, divided by 2^32. Each node in turn draws its degree, 2 + scale(3),
// and then as many neighbours, each scale(nodes).
//
// Every drawn edge is stored in both directions, so a node has six edges on average. Self-loops
// count twice, and parallel edges are kept. A node's edges are in the order in which they were
// drawn. The weight of an edge between low and high is 1 to 10: 1 plus the high half of
// finish(seed ^ (high<<32 | low)) times 10, divided by 2^32.
package graph

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
)

// MaxNodes keeps every count within the 32-bit integers that bfs reads. A node has at most eight
// edges on average.
const MaxNodes = math.MaxInt32 / 8

// A Writer writes graphs and reports its progress.
type Writer struct {
	// Progress, if set, is called from time to time with the number of nodes and edges written
	// so far and in total.
	Progress func(done, total int)
}

// Write writes the graph of the given size and seed to w. The graph takes 12 bytes of memory per
// node and 4 per edge; the text is streamed.
func (gw Writer) Write(w io.Writer, nodes int, seed uint64) error {
	if nodes < 1 || nodes > MaxNodes {
		return fmt.Errorf("write graph of %d nodes: want 1 to %d nodes", nodes, MaxNodes)
	}
	if err := gw.write(w, generate(nodes, seed), seed); err != nil {
		return fmt.Errorf("write graph of %d nodes, seed %d: %w", nodes, seed, err)
	}
	return nil
}

// rows is a graph in compressed rows: node v's edges lead to
// edge[first[v]:first[v+1]].
type rows struct {
	first []int32
	edge  []int32
}

func generate(nodes int, seed uint64) rows {
	first := make([]int32, nodes+1)
	count := draws{state: seed, nodes: uint64(nodes)}
	for v := range nodes {
		for range count.degree() {
			first[v]++
			first[count.neighbour()]++
		}
	}
	total := int32(0)
	for v, degree := range first {
		first[v] = total
		total += degree
	}
	edge := make([]int32, total)
	next := make([]int32, nodes)
	copy(next, first)
	fill := draws{state: seed, nodes: uint64(nodes)}
	for v := range nodes {
		for range fill.degree() {
			n := fill.neighbour()
			edge[next[v]] = int32(n)
			next[v]++
			edge[next[n]] = int32(v)
			next[n]++
		}
	}
	return rows{first: first, edge: edge}
}

// progressEvery is the number of lines between two calls of Progress.
const progressEvery = 1 << 22

func (gw Writer) write(w io.Writer, g rows, seed uint64) error {
	out := bufio.NewWriterSize(w, 1<<20)
	nodes, edges := len(g.first)-1, len(g.edge)
	var line []byte
	done := 0
	// pair writes "a b\n". An error ends the loop early; bufio also returns it from Flush.
	pair := func(a, b int32) error {
		line = strconv.AppendInt(line[:0], int64(a), 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, int64(b), 10)
		line = append(line, '\n')
		done++
		if gw.Progress != nil && done%progressEvery == 0 {
			gw.Progress(done, nodes+edges)
		}
		_, err := out.Write(line)
		return err
	}

	fmt.Fprintf(out, "%d\n", nodes)
	for v := range nodes {
		if err := pair(g.first[v], g.first[v+1]-g.first[v]); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n%d\n\n%d\n", source, edges)
	for v := range nodes {
		for _, n := range g.edge[g.first[v]:g.first[v+1]] {
			if err := pair(n, weight(seed, uint32(v), uint32(n))); err != nil {
				return err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if gw.Progress != nil {
		gw.Progress(done, nodes+edges)
	}
	return nil
}

// source is the node from which the search starts.
const source = 0

// draws is the sequence of random numbers that defines a graph.
type draws struct{ state, nodes uint64 }

func (d *draws) degree() int    { return 2 + int(d.scale(3)) }
func (d *draws) neighbour() int { return int(d.scale(d.nodes)) }

func (d *draws) scale(n uint64) uint64 {
	d.state += 0x9e3779b97f4a7c15
	return finish(d.state) >> 32 * n >> 32
}

// finish is SplitMix64's output function (Steele, Lea and Flood, OOPSLA 2014).
func finish(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func weight(seed uint64, a, b uint32) int32 {
	low, high := min(a, b), max(a, b)
	return 1 + int32(finish(seed^(uint64(high)<<32|uint64(low)))>>32*10>>32)
}
