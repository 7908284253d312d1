package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/ballast"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/mps"
)

func newDoctor() *cobra.Command {
	var only []string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check that this machine can run jobs on its GPUs",
		Long: `Check driver, GPUs, other processes on them, MIG and compute modes, MPS, the
builtin suite and its data, libcase.so, ballast, the sampler and free disk space, and
measure what a CUDA context costs. Exit status 3 if something is missing.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDoctor(c, only) },
	}
	addFormatFlag(c)
	addDevicesFlag(c.Flags())
	c.Flags().String("suite", "builtin", "suite to check: builtin, or a `DIR`")
	c.Flags().String("data", "data", "`DIR` with the programs' input files")
	c.Flags().String("runs", "caserun-runs", "`DIR` for the jobs' output files")
	addCatalogMixesFlag(c, &only, "`LIST` of the catalog's mixes whose programs and data to check, as W1..W8 or D-*; default: all")
	return c
}

// finding is the result of one check.
type finding struct {
	check, verdict, detail string
}

const (
	fine    = "ok"
	warning = "warning"
	failed  = "failed"
)

// examination collects findings.
type examination struct{ findings []finding }

func (e *examination) add(check, verdict, format string, args ...any) {
	e.findings = append(e.findings, finding{check, verdict, fmt.Sprintf(format, args...)})
}

// try adds ok with a detail, or a failure with the error.
func (e *examination) try(check string, err error, format string, args ...any) bool {
	if err != nil {
		e.add(check, failed, "%v", err)
		return false
	}
	e.add(check, fine, format, args...)
	return true
}

func runDoctor(c *cobra.Command, only []string) error {
	settings, err := loadConfig(c)
	if err != nil {
		return err
	}
	jobs, err := catalogJobs(only)
	if err != nil {
		return usageError(err)
	}
	e := &examination{}
	node, err := openGPUs(settings)
	if err != nil && statusOf(err) == exitUsage {
		return err
	}
	if e.try("driver", err, "NVML loaded") {
		e.gpus(c.Context(), node, settings.gpusGiven())
		if err := node.Close(); err != nil {
			e.add("driver", failed, "%v", err)
		}
	}
	e.library(c.Context())
	e.suite(settings, jobs)
	e.disk(settings.Runs)

	t := &report.Table{Title: "doctor", Columns: []report.Column{{Name: "check"}, {Name: "verdict"}, {Name: "detail"}}}
	bad := 0
	for _, f := range e.findings {
		t.Add(f.check, f.verdict, f.detail)
		if f.verdict == failed {
			bad++
		}
	}
	if err := render(c, settings.Format, t); err != nil {
		return err
	}
	if bad > 0 {
		return infrastructureError(fmt.Errorf("%d checks failed: this machine cannot run jobs on GPUs as it is (a simulated node needs none of this)", bad))
	}
	return nil
}

// checkLimit bounds each check that starts something.
const checkLimit = 20 * time.Second

func (e *examination) gpus(parent context.Context, node *nvml.Node, given string) {
	versions, err := node.Versions()
	e.try("versions", err, "driver %s, CUDA %s, NVML %s", versions.Driver, versions.CUDA, versions.NVML)
	devices, err := node.Devices()
	if !e.try("GPUs", err, "%d%s", len(devices), given) {
		return
	}
	for i, d := range devices {
		name := fmt.Sprintf("GPU %d", d.Number)
		e.add(name, fine, "%s %s, %s free of %s", d.Name, d.UUID,
			report.Human(float64(d.Memory.Free), report.Bytes), report.Human(float64(d.Memory.Total), report.Bytes))
		if d.SMs == nil {
			e.add(name, failed, "the SM limits of compute capability %d.%d are unknown", d.ComputeMajor, d.ComputeMinor)
		}
		if d.MIG != nil && *d.MIG {
			e.add(name, failed, "MIG is on: caserun schedules whole GPUs")
		}
		if d.ComputeMode != nil && *d.ComputeMode != nvml.ModeDefault {
			e.add(name, failed, "compute mode is %s: runs need the default mode", *d.ComputeMode)
		}
		others, err := node.Processes(i)
		switch {
		case err != nil:
			e.add(name, warning, "other processes: %v", err)
		case len(others) > 0:
			e.add(name, warning, "%d other processes use it: measurements will not be clean", len(others))
		}
	}
	ctx, cancel := context.WithTimeout(parent, checkLimit)
	defer cancel()
	e.mps(ctx)
	e.context(ctx, node, devices[0])
	e.sampler(node)
}

func (e *examination) mps(ctx context.Context) {
	d, err := mps.Start(ctx, mps.Config{})
	if err == nil {
		err = d.Quit(ctx)
	}
	e.try("MPS", err, "a private daemon starts and quits")
}

// probeHeadroom is left out of the ballast that measures a context.
const probeHeadroom = 2 << 30

// context measures a context's device memory: what a ballast process uses
// beyond what it holds.
func (e *examination) context(ctx context.Context, node *nvml.Node, d nvml.Device) {
	bin, err := live.FindBallast()
	if err != nil {
		e.add("ballast", failed, "%v", err)
		return
	}
	if d.Memory.Free < 2*probeHeadroom {
		e.add("ballast", warning, "not tried: GPU %d has less than %s free", d.Number, report.Human(2*probeHeadroom, report.Bytes))
		return
	}
	b, err := ballast.Start(ctx, bin, d.UUID, d.Memory.Free-probeHeadroom)
	if err != nil {
		e.add("ballast", failed, "%v", err)
		return
	}
	after, err := node.Devices()
	err = errors.Join(err, b.Close())
	if !e.try("ballast", err, "holds and frees memory") {
		return
	}
	cost := int64(after[0].Memory.Used) - int64(d.Memory.Used) - int64(b.Held().Bytes)
	verdict := fine
	if cost > runner.DefaultContextBytes {
		verdict = warning
	}
	e.add("CUDA context", verdict, "%s of device memory each; runs reserve %s",
		report.Human(float64(cost), report.Bytes), report.Human(float64(runner.DefaultContextBytes), report.Bytes))
}

// sampleFor is how long the sampler is tried.
const sampleFor = time.Second

func (e *examination) sampler(node *nvml.Node) {
	s, err := node.StartSampler(nvml.Config{Consume: func(nvml.Segment) {}})
	if err != nil {
		e.add("sampler", failed, "%v", err)
		return
	}
	time.Sleep(sampleFor)
	st, err := s.Stop(checkLimit)
	e.try("sampler", err, "%d samples in %v, %d deadlines missed, %.1f %% of a core",
		st.Ticks, st.Elapsed.Round(time.Millisecond), st.Missed, 100*st.CPU.Seconds()/st.Elapsed.Seconds())
}

// catalogJobs are the different jobs of these mixes of the catalog, or of all for none.
func catalogJobs(names []string) ([]mixes.Job, error) {
	chosen := mixes.Catalog()
	if len(names) > 0 {
		chosen = nil
		for _, name := range names {
			m, err := mixes.Lookup(name)
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, m)
		}
	}
	var jobs []mixes.Job
	seen := map[string]bool{}
	for _, m := range chosen {
		for _, j := range m.Jobs {
			if !seen[j.Name] {
				seen[j.Name] = true
				jobs = append(jobs, j)
			}
		}
	}
	return jobs, nil
}

func (e *examination) suite(c config, jobs []mixes.Job) {
	suite, err := live.OpenSuite(c.Suite, c.Data)
	if !e.try("suite", err, "%s", c.Suite) {
		return
	}
	programs, _, err := suite.Resolve(jobs)
	if !e.try("programs and data", err, "the %d different jobs can start", len(jobs)) {
		return
	}
	ldd, err := exec.LookPath("ldd")
	if err != nil {
		return
	}
	slices.Sort(programs)
	for _, program := range slices.Compact(programs) {
		out, err := exec.Command(ldd, program).CombinedOutput()
		if strings.Contains(string(out), "not found") || err != nil {
			e.add("libraries", failed, "%s does not load: %s", program, strings.TrimSpace(string(out)))
			return
		}
	}
	e.add("libraries", fine, "those of the suite's programs load")
}

// library tries what every job is started with.
func (e *examination) library(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, checkLimit)
	defer cancel()
	path, err := live.FindLibrary(ctx)
	e.try("libcase.so", err, "%s loads", path)
}

// leastDisk is what a run's outputs and records may need.
const leastDisk = 1 << 30

// disk looks at the disk that a directory is on, or will be once a run makes it.
func (e *examination) disk(dir string) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		e.add("disk", failed, "%v", err)
		return
	}
	info, err := os.Stat(dir)
	for err != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		info, err = os.Stat(dir)
	}
	if err == nil && !info.IsDir() {
		e.add("disk", failed, "%s is not a directory", dir)
		return
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		e.add("disk", failed, "%s: %v", dir, err)
		return
	}
	free := float64(s.Bavail) * float64(s.Bsize)
	verdict := fine
	if free < leastDisk {
		verdict = warning
	}
	e.add("disk", verdict, "%s free for %s", report.Human(free, report.Bytes), dir)
}
