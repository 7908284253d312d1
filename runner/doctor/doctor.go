// Package doctor checks whether this machine can run jobs on its GPUs.
package doctor

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

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/ballast"
	"github.com/caserun/caserun/runner/checkpoint"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/mps"
	"github.com/caserun/caserun/runner/swaparea"
	"github.com/caserun/caserun/schedulers"
)

// Finding is the result of one check.
type Finding struct {
	Check, Verdict, Detail string
}

// Verdicts.
const (
	Fine    = "ok"
	Warning = "warning"
	Failed  = "failed"
)

// examination collects findings.
type examination struct{ findings []Finding }

func (e *examination) add(check, verdict, format string, args ...any) {
	e.findings = append(e.findings, Finding{check, verdict, fmt.Sprintf(format, args...)})
}

// try adds ok with a detail, or a failure with the error.
func (e *examination) try(check string, err error, format string, args ...any) bool {
	if err != nil {
		e.add(check, Failed, "%s", strings.ReplaceAll(err.Error(), "\n", "; ")) // several errors
		return false
	}
	e.add(check, Fine, format, args...)
	return true
}

// Examine checks what runs with these options and this probe need, and what the jobs need of the
// suite. A choice of GPUs that cannot be is an error; all else is a finding.
func Examine(ctx context.Context, o harness.Options, probe results.Probe, jobs []mixes.Job) ([]Finding, error) {
	e := &examination{}
	var devices []nvml.Device
	node, err := live.FindGPUs(ctx, o.Devices)
	if errors.As(err, new(*harness.RequestError)) {
		return nil, err
	}
	if e.try("driver", err, "NVML loaded") {
		devices = e.gpus(ctx, node, live.Given(o.Devices))
		if err := node.Close(); errors.Is(err, nvml.ErrHung) { // the process ends all the same
			e.add("driver", Warning, "%v", err)
		} else if err != nil {
			e.add("driver", Failed, "%v", err)
		}
	}
	if probe != results.Explicit {
		e.library(ctx)
	}
	built := slices.DeleteFunc(slices.Clone(jobs), mixes.Job.OfTorch)
	if len(built) > 0 {
		e.suite(o, probe, built, devices)
	}
	if len(built) < len(jobs) {
		e.pytorch(ctx, len(built) > 0)
	}
	e.disk(o.Runs)
	return e.findings, nil
}

// checkLimit bounds each check that starts something.
const checkLimit = 20 * time.Second

// gpus returns the devices that it could look at.
func (e *examination) gpus(parent context.Context, node *nvml.Node, given string) []nvml.Device {
	versions, err := node.Versions(parent)
	e.try("versions", err, "driver %s, CUDA %s, NVML %s", versions.Driver, versions.CUDA, versions.NVML)
	e.add("GPUs", Fine, "%d%s", node.Count(), given)
	var devices []nvml.Device
	for i := range node.Count() {
		d, err := node.Device(i)
		name := "GPU " + d.ID
		if err != nil {
			e.add(name, Failed, "%v: name the other GPUs with --devices", err)
			continue
		}
		devices = append(devices, d)
		e.add(name, Fine, "%s %s, %s free of %s", d.Name, d.UUID,
			report.Human(float64(d.Memory.Free), report.Bytes), report.Human(float64(d.Memory.Total), report.Bytes))
		if d.Limits != nil {
			e.add(name, Failed, "%v", d.Limits)
		}
		if d.ComputeMode != nil && *d.ComputeMode != nvml.ModeDefault {
			e.add(name, Failed, "compute mode is %s: runs need the default mode", *d.ComputeMode)
		}
		others, err := node.Processes(i)
		switch {
		case err != nil:
			e.add(name, Warning, "other processes: %v", err)
		case len(others) > 0:
			e.add(name, Warning, "%d other processes use it: measurements will not be clean", len(others))
		}
	}
	if len(devices) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(parent, checkLimit)
	defer cancel()
	e.mps(ctx, devices)
	e.context(ctx, node, devices[0])
	e.swap(ctx, devices[0])
	e.checkpoint(ctx, devices[0], versions.Driver)
	e.sampler(node)
	e.add("managed memory", Fine, "runs refuse what exceeds what is free; managed=exceed, a parameter of schedulers, allows it, and can hang some GPUs until they are reset")
	return devices
}

func (e *examination) mps(ctx context.Context, devices []nvml.Device) {
	d, err := mps.Start(ctx, mps.Config{Devices: []string{devices[0].UUID}})
	if err == nil {
		err = d.Quit(ctx)
	}
	e.try("MPS", err, "a private daemon starts and quits")
}

// probeHeadroom is left out of the ballast that measures a context.
const probeHeadroom = 2 << 30

// context measures a context's device memory: what a ballast process uses in addition to what it
// holds.
func (e *examination) context(ctx context.Context, node *nvml.Node, d nvml.Device) {
	bin, err := live.FindBallast()
	if err != nil {
		e.add("ballast", Failed, "%v", err)
		return
	}
	if d.Memory.Free < 2*probeHeadroom {
		e.add("ballast", Warning, "not tried: GPU %s has less than %s free", d.ID, report.Human(2*probeHeadroom, report.Bytes))
		return
	}
	b, err := ballast.Start(ctx, bin, d.UUID, d.Memory.Free-probeHeadroom)
	if err != nil {
		e.add("ballast", Failed, "%v", err)
		return
	}
	after, err := node.Device(d.Index)
	err = errors.Join(err, b.Close())
	if !e.try("ballast", err, "holds and frees memory") {
		return
	}
	cost := int64(after.Memory.Used) - int64(d.Memory.Used) - int64(b.Held().Bytes)
	verdict := Fine
	if cost > runner.DefaultContextBytes {
		verdict = Warning
	}
	e.add("CUDA context", verdict, "%s of device memory each; runs reserve %s",
		report.Human(float64(cost), report.Bytes), report.Human(float64(runner.DefaultContextBytes), report.Bytes))
}

// Measuring a swap moves so many pieces, and needs room for them and for a context.
const (
	swapPieces = 64
	swapRoom   = swapPieces*swaparea.PieceBytes + 2<<30
)

// swap measures what a scheduler that takes memory back would have to pay.
func (e *examination) swap(ctx context.Context, d nvml.Device) {
	bin, err := live.FindSwapRate()
	if err != nil {
		e.add("swap", Failed, "%v", err)
		return
	}
	if d.Memory.Free < swapRoom {
		e.add("swap", Warning, "not tried: GPU %s has less than %s free", d.ID, report.Human(float64(swapRoom), report.Bytes))
		return
	}
	r, err := swaparea.Measure(ctx, bin, d.UUID, swapPieces)
	if !e.try("swap", err, "device memory to the host %.1f GB/s, back %.1f GB/s; beside that for each %s %.0f us, %.0f us, %.0f us the first time, and %.0f us if it stays on the host; host memory is made at %.1f GB/s",
		r.Out/1e9, r.In/1e9, report.Human(swaparea.PieceBytes, report.Bytes), r.OutUS, r.InUS, r.First, r.MapUS, r.Make/1e9) {
		return
	}
	if !r.Whole {
		e.add("swap", Failed, "with this driver, host memory in the place of device memory has other contents: do not use schedulers that take memory back")
	}
}

// checkpointRoom is for a context and 4 MiB.
const checkpointRoom = 1 << 30

// checkpoint tries the mode of vgpu-preempt that needs it, via=checkpoint, and only that.
func (e *examination) checkpoint(ctx context.Context, d nvml.Device, driver string) {
	bin, err := live.FindCheckpoint()
	if err != nil {
		e.add("checkpoint", Failed, "%v", err)
		return
	}
	if d.Instance != nil {
		e.add("checkpoint", Warning, "not available on instances of MIG, so via=checkpoint is not")
		return
	}
	if d.Memory.Free < checkpointRoom {
		e.add("checkpoint", Warning, "not tried: GPU %s has less than %s free", d.ID, report.Human(checkpointRoom, report.Bytes))
		return
	}
	r, err := checkpoint.Try(ctx, bin, d.UUID)
	switch {
	case errors.Is(err, checkpoint.ErrUnavailable):
		e.add("checkpoint", Warning, "not available with driver %s, so via=checkpoint is not: install a driver of CUDA 12.8 or later", driver)
	case err == nil && r.Outcome != schedulers.Done:
		e.add("checkpoint", Warning, "not available: %s", r.Why)
	case err == nil && !r.Whole:
		e.add("checkpoint", Failed, "memory has other contents once it is back: do not use via=checkpoint")
	default:
		e.try("checkpoint", err, "a process with a context and 4 MiB is out after %.1f s, and back after %.1f s", r.LockS+r.CopyS, r.BackS)
	}
}

// sampleFor is how long the sampler is tried.
const sampleFor = time.Second

func (e *examination) sampler(node *nvml.Node) {
	s, err := node.StartSampler(nvml.Config{Consume: func(nvml.Segment) {}})
	if err != nil {
		e.add("sampler", Failed, "%v", err)
		return
	}
	time.Sleep(sampleFor)
	st, err := s.Stop(checkLimit)
	e.try("sampler", err, "%d samples in %v, %d deadlines missed, %.1f %% of a core",
		st.Ticks, st.Elapsed.Round(time.Millisecond), st.Missed, 100*st.CPU.Seconds()/st.Elapsed.Seconds())
}

func (e *examination) suite(o harness.Options, probe results.Probe, jobs []mixes.Job, devices []nvml.Device) {
	suite, err := suites.Open(o.Suite, live.BuildFor(probe), o.Data)
	if !e.try("suite", err, "%s", o.Suite) {
		return
	}
	programs, _, err := live.Resolve(o, probe, mixes.Mix{Jobs: jobs})
	if !e.try("programs and data", err, "the %d different jobs can start", len(jobs)) {
		return
	}
	slices.Sort(programs)
	programs = slices.Compact(programs)
	e.code(programs, devices, suite)
	ldd, err := exec.LookPath("ldd")
	if err != nil {
		return
	}
	for _, program := range programs {
		out, err := exec.Command(ldd, program).CombinedOutput()
		if strings.Contains(string(out), "not found") || err != nil {
			e.add("libraries", Failed, "%s does not load: %s", program, strings.TrimSpace(string(out)))
			return
		}
	}
	e.add("libraries", Fine, "the libraries of the suite's programs load")
}

// pytorch loads PyTorch. Who runs other mixes too can do without it.
func (e *examination) pytorch(parent context.Context, optional bool) {
	ctx, cancel := context.WithTimeout(parent, 3*checkLimit) // a first import reads gigabytes
	defer cancel()
	verdict := Failed
	if optional {
		verdict = Warning
	}
	version, gpu, err := suites.TorchVersion(ctx)
	switch {
	case err != nil:
		e.add("PyTorch", verdict, "the mixes M-* cannot run: python3 of PATH does not load torch (%v): install a build for CUDA there, as with python3 -m pip install torch", err)
	case !gpu:
		e.add("PyTorch", verdict, "the mixes M-* cannot run: %s finds no GPU: install a build for CUDA", version)
	default:
		e.add("PyTorch", Fine, "%s finds GPUs", version)
	}
}

// library tries the library with which every job starts.
func (e *examination) library(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, checkLimit)
	defer cancel()
	path, err := live.FindLibrary(ctx)
	e.try("libcase.so", err, "%s loads", path)
}

// leastDisk is what a run's outputs and records may need, in bytes.
const leastDisk = 1 << 30

// disk looks at the disk of a directory, which a run may still have to make.
func (e *examination) disk(dir string) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		e.add("disk", Failed, "%v", err)
		return
	}
	info, err := os.Stat(dir)
	for err != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		info, err = os.Stat(dir)
	}
	if err == nil && !info.IsDir() {
		e.add("disk", Failed, "%s is not a directory", dir)
		return
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		e.add("disk", Failed, "%s: %v", dir, err)
		return
	}
	free := float64(s.Bavail) * float64(s.Bsize)
	verdict := Fine
	if free < leastDisk {
		verdict = Warning
	}
	e.add("disk", verdict, "%s free for %s", report.Human(free, report.Bytes), dir)
}

// Table shows findings, and counts those that failed.
func Table(findings []Finding) (t *report.Table, failed int) {
	t = &report.Table{Title: "doctor", Columns: []report.Column{{Name: "check"}, {Name: "verdict"}, {Name: "detail"}}}
	for _, f := range findings {
		t.Add(f.Check, f.Verdict, f.Detail)
		if f.Verdict == Failed {
			failed++
		}
	}
	return t, failed
}
