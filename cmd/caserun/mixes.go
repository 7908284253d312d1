package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results/report"
)

func newMixes() *cobra.Command {
	c := &cobra.Command{Use: "mixes", Short: "List, show, generate and correct mixes"}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the mixes of the catalog",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := loadConfig(c)
			if err != nil {
				return err
			}
			return render(c, settings.Format, mixList())
		},
	}
	addFormatFlag(list)
	show := &cobra.Command{
		Use:               "show MIX",
		Short:             "Show the jobs of a mix; --yaml writes it as a file to start from",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeMixes,
		RunE: func(c *cobra.Command, args []string) error {
			settings, err := loadConfig(c)
			if err != nil {
				return err
			}
			mix, err := loadMix(args[0], settings, profiles.Set{}, c.ErrOrStderr())
			if err != nil {
				return err
			}
			if asYAML, _ := c.Flags().GetBool("yaml"); asYAML {
				return infrastructureError(mixes.WriteYAML(c.OutOrStdout(), mix))
			}
			return render(c, settings.Format, jobList(mix))
		},
	}
	addFormatFlag(show)
	addSuiteFlag(show.Flags())
	show.Flags().Bool("yaml", false, "print the mix in the form that caserun mix reads")
	c.AddCommand(list, show, newGen(), newLearn())
	return c
}

func newGen() *cobra.Command {
	var jobs int
	var ratio, out string
	c := &cobra.Command{
		Use:   "gen",
		Short: "Draw a random mix by the paper's rule and write it as YAML",
		Long: `Draw a mix by the rule of CASE, section 5.2: jobs of Table 1 drawn uniformly
from the large (over 4 GiB) and the small ones in the given ratio, in random
order. The same arguments give the same mix.`,
		Example: "  caserun mixes gen --jobs 32 --ratio 3:1 --seed 7 -o my.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := loadConfig(c)
			if err != nil {
				return err
			}
			r, err := mixes.ParseRatio(ratio)
			if err != nil {
				return usageError(err)
			}
			mix, err := mixes.Generate(jobs, r, settings.Seed)
			if err != nil {
				return usageError(err)
			}
			return writeOutput(c, out, func(w io.Writer) error { return mixes.WriteYAML(w, mix) })
		},
	}
	c.Flags().IntVar(&jobs, "jobs", 16, "number of jobs")
	c.Flags().StringVar(&ratio, "ratio", "1:1", "large:small")
	c.Flags().Uint64("seed", 1, "seed of the draw")
	c.Flags().StringVarP(&out, "output", "o", "", "write to `FILE`, which must not exist; default: standard output")
	return c
}

// writeOutput writes to a new file, or to standard output where path is empty.
// A file that could not be written whole is removed.
func writeOutput(c *cobra.Command, path string, write func(io.Writer) error) error {
	o, err := newOutput(c, path)
	if err != nil {
		return err
	}
	err = errors.Join(write(untilStopped{c.Context(), o}), o.close())
	if err != nil {
		err = errors.Join(err, o.remove())
	}
	return infrastructureError(err)
}

// output is where a command writes to.
type output struct {
	io.Writer
	file *os.File // nil: standard output
}

// newOutput makes a new file, or takes standard output where path is empty.
func newOutput(c *cobra.Command, path string) (output, error) {
	if path == "" {
		return output{Writer: c.OutOrStdout()}, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return output{}, usageError(fmt.Errorf("%s exists: name another file, or remove it first", path))
	}
	return output{f, f}, infrastructureError(err)
}

// Write writes all of b, or leaves the file as it was.
func (o output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err == nil || o.file == nil {
		return n, err
	}
	before, back := o.file.Seek(int64(-n), io.SeekCurrent)
	if back == nil {
		back = o.file.Truncate(before)
	}
	return 0, errors.Join(err, back)
}

func (o output) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

func (o output) remove() error {
	if o.file == nil {
		return nil
	}
	return os.Remove(o.file.Name())
}

// untilStopped is a writer that fails once the program is to stop.
type untilStopped struct {
	ctx context.Context
	w   io.Writer
}

func (u untilStopped) Write(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.w.Write(p)
}

func mixList() *report.Table {
	t := &report.Table{Title: "mixes", Columns: []report.Column{{Name: "mix"}, {Name: "jobs"}, {Name: "large"}, {Name: "small"},
		{Name: "ratio"}, {Name: "memory", Unit: report.Bytes}, {Name: "description"}}}
	for _, m := range mixes.Catalog() {
		var total int64
		classes := map[string]int{}
		for _, j := range m.Jobs {
			total += j.Footprint.Bytes
			classes[j.Class]++
		}
		t.Add(m.Name, len(m.Jobs), classes[mixes.ClassLarge], classes[mixes.ClassSmall], m.Ratio, known(total), m.Description)
	}
	return t
}

// jobList has the columns group and faults in text only where a job has them.
func jobList(m mixes.Mix) *report.Table {
	where := func(has func(mixes.Job) bool) report.Place {
		if slices.ContainsFunc(m.Jobs, has) {
			return report.Everywhere
		}
		return report.DataOnly
	}
	t := &report.Table{Title: m.Name, Columns: []report.Column{{Name: "job"}, {Name: "name"}, {Name: "command"}, {Name: "class"},
		{Name: "memory", Unit: report.Bytes}, {Name: "blocks"}, {Name: "threads_per_block"},
		{Name: "group", Place: where(func(j mixes.Job) bool { return j.Group > 0 })},
		{Name: "faults", Place: where(func(j mixes.Job) bool { return j.KnownFault })}}}
	for i, j := range m.Jobs {
		f := j.Footprint
		faults := ""
		if j.KnownFault {
			faults = "known"
		}
		t.Add(i, j.Name, j.Command(), j.Class, known(f.Bytes), known(int64(f.Blocks)), known(int64(f.ThreadsPerBlock)), j.Group, faults)
	}
	return t
}

// known is nil for 0, with which mixes mark what they do not know.
func known(v int64) *int64 {
	if v == 0 {
		return nil
	}
	return &v
}
