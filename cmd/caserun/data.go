package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/benchmarks/graph"
	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/mixes/suites"
)

func newData() *cobra.Command {
	var only []string
	c := &cobra.Command{
		Use:   "data",
		Short: "Make the input files that the suite's programs read",
		Long: `Make the files that the catalog's jobs read:

  bfs      graph32M.txt, about 2 GB of text
  dwt2d    rgb.bmp
  Darknet  the descriptions of its networks, and the lists of its images, which
           are made from seeds

Files that exist are kept.`,
		Example: `  caserun data
  caserun data --mixes 'D-*'`,
		Args: noCommand,
		RunE: verb(loadAlone, func(c *cobra.Command, settings config.Settings) error { return makeData(c, settings, only) }),
	}
	c.Flags().String("data", "data", "`DIR` for the files")
	c.Flags().Uint64("seed", 1, "seed of their contents")
	addCatalogMixesFlag(c, &only, "`LIST` of the catalog's mixes whose jobs are to find their files, as W1..W8 or D-*; default: all")
	c.AddCommand(newGraph())
	return c
}

// makeData makes the input files of mixes' jobs.
func makeData(c *cobra.Command, settings config.Settings, names []string) error {
	jobs, err := suites.CatalogJobs(names)
	if err != nil {
		return err
	}
	for _, f := range suites.Files(jobs, settings.Seed) {
		write := func(w io.Writer) error { return f.Write(w, progressOf(c.ErrOrStderr(), f.Path)) }
		if err := writeOnce(c, filepath.Join(settings.Data, f.Path), write); err != nil {
			return err
		}
	}
	return nil
}

func newGraph() *cobra.Command {
	var nodes int
	var out string
	c := &cobra.Command{
		Use:     "graph",
		Short:   "Write a random graph in the format of Rodinia's bfs",
		Example: "  caserun data graph --nodes 65536 -o graph65536.txt",
		Args:    noArguments,
		RunE: verb(func(c *cobra.Command, _ []string) (config.Settings, error) {
			if nodes < 1 || nodes > graph.MaxNodes {
				return config.Settings{}, fmt.Errorf("--nodes %d: want 1 to %d", nodes, graph.MaxNodes)
			}
			return load(c)
		}, func(c *cobra.Command, settings config.Settings) error {
			return writeOutput(c, out, func(w io.Writer) error {
				return graph.Writer{Progress: progressOf(c.ErrOrStderr(), "graph")}.Write(w, nodes, settings.Seed)
			})
		}),
	}
	c.Flags().IntVar(&nodes, "nodes", 1<<20, "number of nodes")
	c.Flags().Uint64("seed", 1, "seed of the graph")
	c.Flags().StringVarP(&out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	return c
}

// writeOnce makes a file under a temporary name, so that a file that exists is whole. It keeps a
// file that exists.
func writeOnce(c *cobra.Command, path string, write func(io.Writer) error) error {
	if _, err := os.Stat(path); err == nil {
		sayTo(c)("keeping %s", path)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	partial := path + ".partial"
	if info, err := os.Lstat(partial); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is there, and is not a file that was being written: remove it", partial)
	}
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeOutput(c, partial, write); err != nil {
		return err
	}
	if err := os.Rename(partial, path); err != nil {
		return err
	}
	sayTo(c)("made %s", path)
	return nil
}

// progressOf shows on a terminal how much of something is done; nil elsewhere.
func progressOf(w io.Writer, what string) func(done, total int) {
	if !isTerminal(w) {
		return nil
	}
	return func(done, total int) {
		redraw(w, fmt.Sprintf("%s: %d %%", what, 100*int64(done)/int64(total)))
		if done == total {
			redraw(w, "")
		}
	}
}
