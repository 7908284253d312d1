package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/mixes/suites/graph"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/output"
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
		RunE: withSettings(func(c *cobra.Command, settings config.Settings) error { return makeData(c, settings, only) }),
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
		write := func(w io.Writer) error { return f.Write(w, display.Percent(c.ErrOrStderr(), f.Path)) }
		if err := makeInput(c, filepath.Join(settings.Data, f.Path), write); err != nil {
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
		RunE: withSettings(func(c *cobra.Command, settings config.Settings) error {
			if nodes < 1 || nodes > graph.MaxNodes {
				return refuse("--nodes %d: want 1 to %d", nodes, graph.MaxNodes)
			}
			return writeOutput(c, out, func(w io.Writer) error {
				return graph.Writer{Progress: display.Percent(c.ErrOrStderr(), "graph")}.Write(w, nodes, settings.Seed)
			})
		}),
	}
	c.Flags().IntVar(&nodes, "nodes", 1<<20, "number of nodes")
	c.Flags().Uint64("seed", 1, "seed of the graph")
	c.Flags().StringVarP(&out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	return c
}

// makeInput makes an input file, unless it is there. A file of the user's own is kept.
func makeInput(c *cobra.Command, path string, write func(io.Writer) error) error {
	if err := output.MakeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	if !userfile.Absent(path) {
		same, err := isInput(path, write)
		if err != nil {
			return err
		}
		if !same {
			sayTo(c)("keeping %s, which is not what caserun data makes with this --seed: remove it to have that", path)
		} else {
			sayTo(c)("keeping %s", path)
		}
		return nil
	}
	if err := output.Write(c.Context(), path, output.Policy{}, write); err != nil {
		return err
	}
	sayTo(c)("made %s", path)
	return nil
}

// isInput reports whether a file has what write writes. It refuses what is not an input file at all.
func isInput(path string, write func(io.Writer) error) (bool, error) {
	const remedy = "remove it, so that caserun data makes the file, or name another directory with --data"
	f, err := userfile.Open(path, 0)
	if err != nil {
		return false, refuse("input file: %w: %s", err, remedy)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() == 0 { // or a device
		return false, refuse("input file %s is empty: %s", path, remedy)
	}
	compared := &likeness{f: f}
	err = write(compared)
	if errors.Is(err, errCompared) {
		return compared.same, nil
	}
	return compared.same && compared.bytes == info.Size(), err
}

// likeness compares what is written to it with the begin of a file.
type likeness struct {
	f     *os.File
	bytes int64
	same  bool
}

// errCompared ends a comparison.
var errCompared = errors.New("enough was compared")

func (c *likeness) Write(b []byte) (int, error) {
	const most = 8 << 20 // more than the files have, except the graph
	have := make([]byte, len(b))
	n, err := c.f.ReadAt(have, c.bytes)
	c.same = n == len(b) && bytes.Equal(have, b)
	c.bytes += int64(n)
	if !c.same && !errors.Is(err, io.EOF) && err != nil {
		return 0, err
	}
	if !c.same || c.bytes > most {
		return 0, errCompared
	}
	return len(b), nil
}
