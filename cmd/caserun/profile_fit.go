package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
)

// fitOptions are what profile fit is asked for.
type fitOptions struct {
	asked
	out string
}

func newProfileFit() *cobra.Command {
	var o fitOptions
	c := &cobra.Command{
		Use:   "fit SIDE",
		Short: "Fit profiles to the host of live runs, for simulated nodes",
		Long: `Write the profiles of the jobs of live runs, fitted to the host of these runs:
each job lasts as long as the median of its runs. Its host phases are longer or
shorter in proportion. Copies, kernels and memory stay those of its profile in
the catalog or in --profiles. So a simulated node, which does not know how fast
a host is for which program, can tell how other schedulers would do on it.

Of SIDE the complete runs under sa count, because there each job has a GPU to
itself, and at most as many jobs as GPUs share the host. Runs that were not
traced go before traced ones. SIDE is

` + selection.Help,
		Example: `  caserun sweep --mixes W1..W8 --scheds sa --reps 1 --mem-cap 16GiB
  caserun profile fit latest -o here.csv
  caserun mix W7 --sched plan --node sim:4xH200 --mem-cap 16GiB \
      --profiles here.csv`,
		Args:              named("SIDE"),
		ValidArgsFunction: atMost(1, fromStore(selection.OfferSides)),
		RunE:              verb(&o),
	}
	f := c.Flags()
	config.AddStoreFlag(f)
	f.String("profiles", "", "`FILE` of caserun profile: profiles to fit, in addition to the catalog's")
	f.StringVarP(&o.out, "out", "o", "", "write to `FILE`, which must not exist; default: standard output")
	return c
}

func (o *fitOptions) do(c *cobra.Command) error {
	if err := harness.SpareStore(o.settings.DB, o.out); err != nil {
		return err
	}
	known, err := o.settings.KnownProfiles(c.Context())
	if err != nil {
		return err
	}
	var fit history.Fit
	err = o.read(c, func(db *store.Store) error {
		side, err := o.selectSide(c, db, "profile fit", o.args[0])
		if err != nil {
			return err
		}
		fit, err = history.FitProfiles(c.Context(), db, side, known)
		return err
	})
	if err != nil {
		return err
	}
	if len(fit.Profiles) == 0 {
		return nothingError{fmt.Errorf("profile fit: %s", fit.Nothing)}
	}
	for _, note := range fit.Notes {
		sayTo(c)("%s", note)
	}
	return writeOutput(c, o.out, func(w io.Writer) error {
		out := profiles.NewWriter(w)
		for _, p := range fit.Profiles {
			if err := out.Write(p); err != nil {
				return err
			}
		}
		return nil
	})
}
