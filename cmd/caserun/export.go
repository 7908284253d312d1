package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/export"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/harness"
)

// exportOptions are what export is asked for.
type exportOptions struct {
	asked
	export.Request
	runs   []string
	filter filterFlags
	paths  map[string]*string // by form
}

func newExport() *cobra.Command {
	o := exportOptions{paths: map[string]*string{}}
	c := &cobra.Command{
		Use:   "export [RUN|latest]...",
		Short: "Write runs for other programs, or as an archive",
		Long: `Write the stored runs, or some of them, in forms that other programs read. A
file that exists is replaced only with --force, and no file is left half
written. The paths of the files go to stdout, or to stderr where stdout has
data.

--benchfmt is for benchstat: name parts are keys (benchstat -col /sched), and
runs that are not complete are left out. --perfetto is for
https://ui.perfetto.dev: the jobs, tasks, waits and counters of a run on a
timeline, with the kernels and copies of a traced run. --openmetrics has the
last sweep or tag of each arm. --latex and --figures have the schedulers of the
runs beside one another, as caserun compare prints them. --bundle keeps
everything in one file, which caserun report --db opens again.`,
		Example: `  caserun export --csv results/ --mix W7
  caserun export --parquet results/ --sweep latest
  caserun export --benchfmt w7.txt --mix W7 && \
      benchstat -col /sched -ignore /params w7.txt
  caserun export --perfetto w7.pftrace.gz latest
  caserun export --openmetrics /var/lib/node_exporter/caserun.prom --force
  caserun export --sweep latest --latex tables.tex --figures figures
  caserun export --sweep latest --bundle sweep.tar.gz`,
		ValidArgsFunction: others(fromStore(selection.OfferRuns)),
		RunE:              verb(onStore{&o}),
	}
	o.filter.addTo(c)
	config.AddStoreFlag(c.Flags())
	for _, f := range export.Forms() {
		o.paths[f.Name] = c.Flags().String(f.Name, "", f.Usage)
	}
	addBaseFlag(c, &o.Base)
	addMetricsFlag(c, &o.Metrics)
	c.Flags().BoolVar(&o.Force, "force", false, "replace files that exist")
	return c
}

// settle gives standard output its one name, and checks what needs no store.
func (o *exportOptions) settle(c *cobra.Command, args []string) error {
	o.runs = args
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	o.Paths = map[string]string{}
	for form, path := range o.paths {
		if o.Paths[form] = *path; *path != "" && isStdout(*path) {
			o.Paths[form] = export.Stdout
		}
	}
	return o.Validate()
}

func (o *exportOptions) look(c *cobra.Command, db *store.Store) error {
	ctx := c.Context()
	chosen, err := o.filter.Settle(ctx, db, o.runs)
	if err != nil {
		return err
	}
	if o.Filter, err = selection.Chosen(ctx, db, chosen, o.runs); err != nil {
		return err
	}
	n, err := o.Count(ctx, db)
	if err != nil {
		return err
	}
	if n == 0 {
		return nothingMatches(ctx, db, "export", o.settings, o.filter.Filter)
	}
	version, revision := harness.Version()
	o.Writer, o.Revision = "caserun "+version, revision
	o.Output, o.Say, o.Waiting = c.OutOrStdout(), sayTo(c), waiting(c)
	o.Spare = func(path string) error {
		if path == o.Paths["bundle"] && bundle.Is(o.settings.DB) {
			return nil // it was unpacked, and may be written again
		}
		return harness.SpareStore(o.settings.DB, path)
	}
	o.Progress = func(what string) (done func(n, all int64), stop func()) {
		p := display.NewRecords(c.ErrOrStderr(), what, time.Now())
		return func(n, all int64) { p.Done(n, all, time.Now()) }, p.Stop
	}
	return o.Write(ctx, db)
}
