package graph

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden file")

func TestWriteGolden(t *testing.T) {
	var got bytes.Buffer
	if err := write(&got, 12, 7); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "nodes12-seed7.txt")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("Write(12, 7) =\n%swant\n%s", got.Bytes(), want)
	}
}

// The digest is of the file that bfs --write-graph (benchmarks/rodinia) wrote for the same
// arguments, so both implementations must agree.
func TestWriteMatchesBFS(t *testing.T) {
	const want = "2049397de7c7d6405fe62ed0f2230165645e40afce82ce843cd767b85e14f1de"
	sum := sha256.New()
	if err := write(sum, 1<<16, 7); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("digest of 65536 nodes, seed 7 = %s, want %s", got, want)
	}
}

// parsed is a graph in the form in which bfs reads it.
type parsed struct {
	first, degree []int
	source        int
	edge, weight  []int
}

func parse(r io.Reader) (parsed, error) {
	var p parsed
	var nodes, edges int
	if _, err := fmt.Fscan(r, &nodes); err != nil {
		return p, fmt.Errorf("node count: %w", err)
	}
	p.first, p.degree = make([]int, nodes), make([]int, nodes)
	for v := range nodes {
		if _, err := fmt.Fscan(r, &p.first[v], &p.degree[v]); err != nil {
			return p, fmt.Errorf("node %d: %w", v, err)
		}
	}
	if _, err := fmt.Fscan(r, &p.source, &edges); err != nil {
		return p, fmt.Errorf("source and edge count: %w", err)
	}
	p.edge, p.weight = make([]int, edges), make([]int, edges)
	for e := range edges {
		if _, err := fmt.Fscan(r, &p.edge[e], &p.weight[e]); err != nil {
			return p, fmt.Errorf("edge %d: %w", e, err)
		}
	}
	if n, err := fmt.Fscan(r, new(string)); n != 0 || !errors.Is(err, io.EOF) {
		return p, fmt.Errorf("text after the last edge")
	}
	return p, nil
}

func TestWriteStructure(t *testing.T) {
	for _, test := range []struct {
		nodes int
		seed  uint64
	}{{1, 0}, {2, 1}, {3, 1 << 63}, {1000, 7}, {4096, 8}} {
		t.Run(fmt.Sprintf("%d,%d", test.nodes, test.seed), func(t *testing.T) {
			var text bytes.Buffer
			if err := write(&text, test.nodes, test.seed); err != nil {
				t.Fatal(err)
			}
			p, err := parse(&text)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.first) != test.nodes || p.source != 0 {
				t.Errorf("%d nodes, source %d; want %d and 0", len(p.first), p.source, test.nodes)
			}
			type edge struct{ from, to, weight int }
			count := map[edge]int{}
			next := 0
			for v := range p.first {
				if p.first[v] != next || p.degree[v] < 2 {
					t.Fatalf("node %d has %d edges from %d, want at least 2 from %d", v, p.degree[v], p.first[v], next)
				}
				for e := next; e < next+p.degree[v]; e++ {
					if p.edge[e] < 0 || p.edge[e] >= test.nodes || p.weight[e] < 1 || p.weight[e] > 10 {
						t.Fatalf("edge %d leads to %d with weight %d", e, p.edge[e], p.weight[e])
					}
					count[edge{v, p.edge[e], p.weight[e]}]++
				}
				next += p.degree[v]
			}
			if next != len(p.edge) {
				t.Errorf("edge count %d, the nodes have %d", len(p.edge), next)
			}
			for e, n := range count {
				if back := count[edge{e.to, e.from, e.weight}]; back != n {
					t.Errorf("%d edges %v, %d in the other direction", n, e, back)
				}
				if e.from == e.to && n%2 != 0 {
					t.Errorf("self-loop %v stored %d times, want an even number", e, n)
				}
			}
			if mean := float64(next) / float64(test.nodes); test.nodes >= 1000 && (mean < 5.8 || mean > 6.2) {
				t.Errorf("%.3f edges per node, want about 6", mean)
			}
		})
	}
}

func TestWriteDependsOnSeed(t *testing.T) {
	var a, b bytes.Buffer
	if err := errors.Join(write(&a, 100, 1), write(&b, 100, 2)); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("seeds 1 and 2 give the same graph")
	}
}

func TestProgress(t *testing.T) {
	last, calls := 0, 0
	w := Writer{Progress: func(done, total int) {
		if done <= last || done > total {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
		calls++
	}}
	nodes := progressEvery / 6
	if err := w.Write(io.Discard, nodes, 3); err != nil {
		t.Fatal(err)
	}
	if calls != 2 || last < 6*nodes {
		t.Errorf("%d calls, the last at %d of about %d lines; want 2 calls", calls, last, 7*nodes)
	}
}

type fullDisk struct{ room int }

var errFull = errors.New("no space left")

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		return 0, errFull
	}
	d.room -= len(p)
	return len(p), nil
}

func TestWriteErrors(t *testing.T) {
	if err := write(&fullDisk{room: 1 << 20}, 1<<17, 7); !errors.Is(err, errFull) {
		t.Errorf("full disk in the middle: %v, want it to wrap %v", err, errFull)
	}
	if err := write(&fullDisk{}, 10, 7); !errors.Is(err, errFull) {
		t.Errorf("full disk at the last flush: %v, want it to wrap %v", err, errFull)
	}
	for _, nodes := range []int{-1, 0, MaxNodes + 1} {
		var out bytes.Buffer
		err := write(&out, nodes, 7)
		if err == nil || out.Len() > 0 {
			t.Errorf("Write of %d nodes: error %v and %d bytes, want an error and nothing", nodes, err, out.Len())
		}
	}
}

// write writes a graph without reporting progress.
func write(w io.Writer, nodes int, seed uint64) error { return Writer{}.Write(w, nodes, seed) }
