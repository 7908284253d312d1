package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/benchmarks/graph"
)

// The input files that the catalog's jobs name.
const (
	graphFile   = "graph32M.txt"
	graphNodes  = 32 << 20
	pixelsFile  = "rgb.bmp"
	pixelsBytes = 3 << 20 // dwt2d repeats a file that is shorter than its image
)

func newData() *cobra.Command {
	c := &cobra.Command{
		Use:   "data",
		Short: "Make the input files that the suite's programs read",
		Long: `Make what the catalog's jobs read: graph32M.txt for bfs (about 2 GB of text)
and rgb.bmp for dwt2d. Files that exist are kept.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := loadConfig(c)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(settings.Data, 0o755); err != nil {
				return infrastructureError(err)
			}
			if err := writeOnce(c, filepath.Join(settings.Data, pixelsFile), writePixels(settings.Seed)); err != nil {
				return err
			}
			return writeOnce(c, filepath.Join(settings.Data, graphFile), writeGraph(c.ErrOrStderr(), graphNodes, settings.Seed))
		},
	}
	c.Flags().String("data", "data", "`DIR` for the files")
	c.Flags().Uint64("seed", 1, "seed of their contents")
	c.AddCommand(newGraph())
	return c
}

func newGraph() *cobra.Command {
	var nodes int
	var out string
	c := &cobra.Command{
		Use:     "graph",
		Short:   "Write a random graph in the format of Rodinia's bfs",
		Example: "  caserun data graph --nodes 65536 -o graph65536.txt",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := loadConfig(c)
			if err != nil {
				return err
			}
			if nodes < 1 || nodes > graph.MaxNodes {
				return usageError(fmt.Errorf("--nodes %d: want 1 to %d", nodes, graph.MaxNodes))
			}
			return writeOutput(c, out, writeGraph(c.ErrOrStderr(), nodes, settings.Seed))
		},
	}
	c.Flags().IntVar(&nodes, "nodes", 1<<20, "number of nodes")
	c.Flags().Uint64("seed", 1, "seed of the graph")
	c.Flags().StringVarP(&out, "output", "o", "", "write to `FILE`, which must not exist; default: standard output")
	return c
}

// writeOnce makes a file under a temporary name, so that one that exists is
// whole, and keeps one that does.
func writeOnce(c *cobra.Command, path string, write func(io.Writer) error) error {
	if _, err := os.Stat(path); err == nil {
		fmt.Fprintln(c.ErrOrStderr(), "caserun: keeping", path)
		return nil
	}
	partial := path + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return infrastructureError(err)
	}
	if err := writeOutput(c, partial, write); err != nil {
		return err
	}
	if err := os.Rename(partial, path); err != nil {
		return infrastructureError(err)
	}
	fmt.Fprintln(c.ErrOrStderr(), "caserun: made", path)
	return nil
}

func writeGraph(progress io.Writer, nodes int, seed uint64) func(io.Writer) error {
	return func(w io.Writer) error {
		gw := graph.Writer{}
		if isTerminal(progress) {
			gw.Progress = func(done, total int) {
				redraw(progress, fmt.Sprintf("graph: %d %%", 100*int64(done)/int64(total)))
				if done == total {
					redraw(progress, "")
				}
			}
		}
		return gw.Write(w, nodes, seed)
	}
}

func writePixels(seed uint64) func(io.Writer) error {
	return func(w io.Writer) error {
		b := bufio.NewWriter(w)
		random := rand.New(rand.NewPCG(seed, 0))
		for range pixelsBytes {
			if err := b.WriteByte(byte(random.Uint32())); err != nil {
				return err
			}
		}
		return b.Flush()
	}
}
