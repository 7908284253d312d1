package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/benchmarks/darknet/inputs"
	"github.com/caserun/caserun/benchmarks/graph"
	"github.com/caserun/caserun/mixes"
)

// The input files of Rodinia's jobs in the catalog.
const (
	graphFile   = "graph32M.txt"
	graphNodes  = 32 << 20
	pixelsFile  = "rgb.bmp"
	pixelsBytes = 3 << 20 // dwt2d repeats a file that is shorter than its image
)

func newData() *cobra.Command {
	var only []string
	c := &cobra.Command{
		Use:   "data",
		Short: "Make the input files that the suite's programs read",
		Long: `Make what the catalog's jobs read: graph32M.txt for bfs (about 2 GB of text),
rgb.bmp for dwt2d, and for Darknet the descriptions of its networks and the lists
of its images, which are made from seeds. Files that exist are kept.`,
		Example: `  caserun data
  caserun data --mixes 'D-*'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := loadConfig(c)
			if err != nil {
				return err
			}
			jobs, err := catalogJobs(only)
			if err != nil {
				return usageError(err)
			}
			return makeData(c, settings, programsOf(jobs))
		},
	}
	c.Flags().String("data", "data", "`DIR` for the files")
	c.Flags().Uint64("seed", 1, "seed of their contents")
	addCatalogMixesFlag(c, &only, "`LIST` of the catalog's mixes whose jobs are to find their files, as W1..W8 or D-*; default: all")
	c.AddCommand(newGraph())
	return c
}

// programsOf is the programs of jobs.
func programsOf(jobs []mixes.Job) map[string]bool {
	programs := map[string]bool{}
	for _, j := range jobs {
		programs[j.Program] = true
	}
	return programs
}

// makeData makes the files of the programs that are needed.
func makeData(c *cobra.Command, settings config, needed map[string]bool) error {
	files := []struct {
		program, path string
		write         func(io.Writer) error
	}{
		{"dwt2d", pixelsFile, writePixels(settings.Seed)},
		{"bfs", graphFile, writeGraph(c.ErrOrStderr(), graphNodes, settings.Seed)},
	}
	for _, f := range files {
		if !needed[f.program] {
			continue
		}
		if err := writeOnce(c, filepath.Join(settings.Data, f.path), f.write); err != nil {
			return err
		}
	}
	if !needed["darknet"] {
		return nil
	}
	return makeDarknetData(c, settings)
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
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return infrastructureError(err)
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

// makeDarknetData makes what the Darknet jobs read beside weights, which the builtin
// program makes itself where there are none.
func makeDarknetData(c *cobra.Command, settings config) error {
	for _, f := range inputs.Files(settings.Seed) {
		err := writeOnce(c, filepath.Join(settings.Data, filepath.FromSlash(f.Path)), func(w io.Writer) error {
			_, err := w.Write(f.Content)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
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
