package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/traces"
	"github.com/caserun/caserun/runner/harness"
)

// traceOptions are what mixes trace is asked for.
type traceOptions struct {
	asked
	*config.Trace
	file, out string
}

func newTrace() *cobra.Command {
	var o traceOptions
	c := &cobra.Command{
		Use:   "trace FILE",
		Short: "Make a mix of the trace of a cluster, a CSV file with a row for each job",
		Long: `Make a mix of a trace: a CSV file with a header and a row for each job, sorted
by the time at which jobs were submitted. Flags name its columns. The jobs
arrive when they were submitted, and take as long on a simulated node. Rows that
one node cannot serve are an error, with their numbers, or are left out.`,
		Example: `  caserun mixes trace jobs.csv --submit at --duration runtime -o load.yaml
  caserun mixes trace openb.csv --preset openb --speed 60 --leave-out`,
		Args: named("FILE"),
		RunE: verb(&o),
	}
	o.Trace = config.AddTraceFlags(c.Flags())
	c.Flags().StringVarP(&o.out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	_ = c.RegisterFlagCompletionFunc("preset", cobra.FixedCompletions(config.TracePresets(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (o *traceOptions) settle(c *cobra.Command, args []string) error {
	o.file = args[0]
	if err := o.Settle(c.Flags()); err != nil {
		return err
	}
	return o.asked.settle(c, args)
}

func (o *traceOptions) do(c *cobra.Command) error {
	return harness.UnlessStopped(c.Context(), func() error {
		mix, notes, err := traces.Load(o.file, o.Options)
		if err != nil {
			return refusal{err}
		}
		for _, note := range notes {
			sayTo(c)("%s, left out", note)
		}
		return writeOutput(c, o.out, func(w io.Writer) error { return mixes.WriteYAML(w, mix) })
	})
}
