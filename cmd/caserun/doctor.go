package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/runner/doctor"
)

func newDoctor() *cobra.Command {
	var only []string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check that this machine can run jobs on its GPUs",
		Long: `Check driver, GPUs, other processes on them, MIG and compute modes, MPS, the
suite, whether it has code for these GPUs, its data, PyTorch, libcase.so,
ballast, the sampler and free disk space. Measure what a CUDA context costs. The
exit status is 3 if something is missing.`,
		Example: "  caserun doctor\n  caserun doctor --suite ~/rodinia --mixes W1..W8",
		Args:    noArguments,
		RunE:    withSettings(func(c *cobra.Command, settings config.Settings) error { return runDoctor(c, settings, only) }),
	}
	addFormatFlag(c)
	config.AddDevicesFlag(c.Flags())
	c.Flags().String("suite", suites.Builtin, "suite to check: builtin, or a `DIR`")
	config.AddProbeFlag(c.Flags())
	c.Flags().Lookup("probe").Usage = "check what runs with this `PROBE` need: lazy, static or explicit"
	config.AddDirectories(c.Flags())
	config.AddCatalogMixesFlag(c.Flags(), &only, "`LIST` of mixes to check programs and data of, as W1..W8 or D-*; default: all")
	return c
}

func runDoctor(c *cobra.Command, settings config.Settings, only []string) error {
	jobs, err := suites.CatalogJobs(only)
	if err != nil {
		return err
	}
	findings, err := doctor.Examine(c.Context(), settings.Options, settings.Probe, jobs)
	if err != nil {
		return err
	}
	t, bad := doctor.Table(findings)
	if err := render(c, settings.Format, t); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%s failed: this machine cannot run jobs on GPUs as it is (a simulated node needs none of this)", size.Count(bad, "check"))
	}
	return nil
}
