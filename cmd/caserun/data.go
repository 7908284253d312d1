package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/mixes/suites/graph"
	"github.com/caserun/caserun/runner/display"
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
	config.AddCatalogMixesFlag(c.Flags(), &only, "`LIST` of the catalog's mixes whose jobs are to find their files, as W1..W8 or D-*; default: all")
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
		if err := f.Make(c.Context(), settings.Data, display.Percent(c.ErrOrStderr(), f.Path), sayTo(c)); err != nil {
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
