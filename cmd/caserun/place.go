package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/placing"
	"github.com/caserun/caserun/schedulers/placement"
	"github.com/caserun/caserun/userfile/output"
)

// placeOptions are what place is asked for.
type placeOptions struct {
	asked
	placing.Request
	out string
}

func newPlace() *cobra.Command {
	var o placeOptions
	c := &cobra.Command{
		Use:   "place TASKS",
		Short: "Simulate policies that place tasks on a cluster's GPUs",
		Long: `Simulate how a cluster's scheduler places tasks on nodes and GPUs, and show for
each policy what stays unallocated, what is fragmented, and who waits. TASKS and
--nodes are CSV files with the columns of Alibaba's openb trace of 2023: name,
cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, creation_time,
deletion_time, scheduled_time; and sn, cpu_milli, memory_mib, gpu, model.

Tasks arrive and end as in the trace; those without room wait. With --inflate
tasks of the trace, drawn with repetition, arrive and stay, until all ask for so
much of the GPUs. The policies:

` + placing.About(),
		Example: `  caserun place openb_pod_list_default.csv --nodes openb_node_list_gpu_node.csv
  caserun place pods.csv --nodes nodes.csv --inflate 130% --reps 3
  caserun place pods.csv --nodes nodes.csv --policies fgd --series s.csv`,
		Args: named("TASKS"),
		RunE: verb(&o),
	}
	c.Flags().StringVar(&o.Nodes, "nodes", "", "CSV `FILE` with the nodes")
	_ = c.MarkFlagRequired("nodes")
	config.AddListFlag(c.Flags(), &o.Policies, "policies", "only these `POLICIES`")
	c.Flags().StringVar(&o.Inflate, "inflate", "", "draw tasks until they ask for `PERCENT` of all GPUs, as 130%")
	c.Flags().Float64Var(&o.ArrivalSpeed, "arrival-speed", 1, "`TIMES` as fast as in the trace tasks arrive; they run as long")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "`SEED` of what is drawn")
	config.AddCountFlag(c.Flags(), &o.Reps, "reps", "`N` samples of tasks, with seeds that follow (with --inflate)")
	config.NoSetting(c.Flags(), "seed", "reps")
	c.Flags().StringVar(&o.out, "series", "", "also write what is allocated over time or load to a CSV `FILE`; - for this alone")
	addFormatFlag(c)
	_ = c.RegisterFlagCompletionFunc("policies", inList(fixed(placement.Names()...)))
	return c
}

func (o *placeOptions) settle(c *cobra.Command, args []string) error {
	o.Tasks, o.Reps = args[0], max(o.Reps, 1)
	if err := refuseConflicts(c.Flags(), []conflict{{"arrival-speed", "inflate", "its tasks arrive one after the other, and stay"}}); err != nil {
		return err
	}
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if o.out != "" && !isStdout(o.out) {
		if err := output.Check(o.out, output.Policy{}); err != nil {
			return err
		}
	}
	return o.Validate()
}

func (o *placeOptions) do(c *cobra.Command) error {
	records := display.NewRecords(c.ErrOrStderr(), "tasks placed (SIMULATED)", time.Now())
	o.Progress = func(done, all int64) { records.Done(done, all, time.Now()) }
	o.Say = sayTo(c)
	table, series, err := o.Run(c.Context())
	records.Stop()
	if err != nil {
		return err
	}
	if o.out != "" {
		err := writeOutput(c, o.out, func(w io.Writer) error { return series.Render(w, report.CSV, report.Options{}) })
		if err != nil || isStdout(o.out) {
			return err
		}
	}
	return render(c, o.settings.Format, table)
}
