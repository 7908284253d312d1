package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/ballast"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/mps"
	"github.com/caserun/caserun/runner/swaparea"
	"github.com/caserun/caserun/schedulers"
)

const mib = int64(1) << 20

// node is this machine's GPUs, prepared for one batch: ballast in place, MPS running.
type node struct {
	harness.Batch
	gpus     *nvml.Node
	found    []nvml.Device
	devices  []results.Device
	versions nvml.Versions
	mps      *mps.Service    // nil without MPS
	layer    *layered        // nil: the jobs run under no file's layer
	ballasts []holder        // one for each device, with --mem-cap
	slows    []holder        // of the devices that --slow names
	shares   map[int]float64 // of the SMs, that those devices keep
	swap     *swaparea.Area  // nil: the scheduler takes no memory back
	to       harness.Recorder
	sampler  *nvml.NodeSampler // nil: none runs
	epoch    time.Time         // of the sampler's times
	lost     chan Lost         // takes each device once
	executor *Executor         // nil before Execute

	cores          int // host threads that the jobs may use
	around         results.Surroundings
	programs, dirs []string          // by job
	checkpoint     string            // the program that checkpoints jobs; "": the scheduler asks for that of none
	library        string            // libcase.so; "": nothing is preloaded
	tracer         string            // "": no tracing
	binaries       map[string]string // the sha256 of each file that was there
	runs           string            // directory of the runs' directories, absolute
	notes          []results.Event   // of how jobs get their devices
}

// prepare takes the GPUs. An error says what is wrong and what to do. Close must follow every success.
func (n *node) prepare(ctx context.Context) (err error) {
	n.lost = make(chan Lost, n.gpus.Count())
	defer func() {
		if err != nil {
			err = errors.Join(err, n.giveBack())
		}
	}()
	if n.versions, err = n.gpus.Versions(ctx); err != nil {
		return err
	}
	if n.found, err = n.gpus.Devices(); err != nil {
		return err
	}
	if n.shares, err = parseSlow(n.Slow, len(n.found)); err != nil {
		return err
	}
	for _, d := range n.found {
		if others, err := n.gpus.Processes(d.Index); err == nil && len(others) > 0 {
			n.Say("GPU %s (%s): %d other processes use it: the measurement will not be clean", d.ID, d.Name, len(others))
		}
		if err := n.take(ctx, d); err != nil {
			return err
		}
	}
	if !n.MPS() {
		return n.startLayer(ctx)
	}
	if n.mps, err = mps.StartService(ctx, n.services()...); err != nil {
		return fmt.Errorf("start MPS: %w", err)
	}
	if err := n.slowDown(ctx); err != nil {
		return err
	}
	return n.startLayer(ctx)
}

// services are how MPS serves the devices: all by one daemon, unless one is an instance of MIG.
func (n *node) services() (configs []mps.Config) {
	of := [][]nvml.Device{n.found}
	if n.gpus.Divided() {
		of = slices.Collect(slices.Chunk(n.found, 1))
	}
	for _, devices := range of {
		c := mps.Config{Devices: uuids(devices)}
		if n.SMCap > 0 {
			c.ActiveThreadPercentage = min(100*float64(n.SMCap)/float64(*devices[0].SMs), 100)
		}
		if l := n.Scheduler.Layer; l != nil && l.Percent > 0 {
			c.ActiveThreadPercentage = float64(l.Percent)
		}
		configs = append(configs, c)
	}
	return configs
}

// take checks one device, loads it with ballast and settles its capacity: the free memory less
// what the MPS server and the program of --slow take.
func (n *node) take(ctx context.Context, d nvml.Device) error {
	if d.Limits != nil {
		return fmt.Errorf("GPU %s (%s): %w", d.ID, d.Name, d.Limits)
	}
	if d.ComputeMode != nil && *d.ComputeMode != nvml.ModeDefault {
		return fmt.Errorf("GPU %s (%s): compute mode is %s: runs need the default mode", d.ID, d.Name, *d.ComputeMode)
	}
	capacity := int64(d.Memory.Free)
	limit := n.MemCap.Bytes
	if limit > capacity {
		asked, free := size.Apart(limit, capacity)
		return fmt.Errorf("GPU %s (%s): --mem-cap of %s: only %s is free", d.ID, d.Name, asked, free)
	}
	if limit > 0 {
		capacity = limit
	}
	if n.MPS() {
		capacity -= runner.ServerBytes
	}
	if _, slow := n.shares[d.Index]; slow {
		capacity -= n.Context.Bytes
	}
	if capacity <= n.Context.Bytes {
		return fmt.Errorf("GPU %s (%s): %s is left for jobs, and a CUDA context alone takes %s (--context-reserve): free memory there, or raise --mem-cap",
			d.ID, d.Name, size.Text(max(0, capacity)), size.Text(n.Context.Bytes))
	}
	if limit > 0 {
		program, err := FindBallast()
		if err != nil {
			return err
		}
		b, err := ballast.Start(ctx, program, d.UUID, uint64(limit))
		if err != nil {
			return fmt.Errorf("ballast on GPU %s: %w", d.ID, err)
		}
		n.ballasts = append(n.ballasts, holder{d.Index, b})
	}
	r := results.Device{Index: d.Index, UUID: d.UUID, Name: d.Name, MemoryBytes: int64(d.Memory.Total),
		UsedAtStartBytes: int64(d.Memory.Used), CapacityBytes: capacity, ContextBytes: n.Context.Bytes,
		SMs: *d.SMs, WarpsPerSM: *d.MaxWarpsPerSM, BlocksPerSM: *d.MaxBlocksPerSM,
		SMClockStartHz: hertz(d.SMClockHz), ThrottleStart: reasons(d.EventReasons)}
	if i := d.Instance; i != nil {
		r.GPU, r.Profile = &i.GPU, &i.Profile
	}
	if n.MPS() && n.SMCap > 0 {
		r.SMs = min(n.SMCap, r.SMs)
	}
	n.devices = append(n.devices, r)
	return nil
}

func hertz(v *uint64) *int64 {
	if v == nil {
		return nil
	}
	return new(int64(*v))
}

func reasons(r *nvml.EventReasons) *string {
	if r == nil {
		return nil
	}
	return new(r.String())
}

// Lost is a device, by its place in node order, that has fallen off the bus.
type Lost struct {
	Device int
	Err    error
}

// users has the processes that use a device.
func (n *node) users(device int) ([]nvml.Process, time.Duration, error) {
	found, took, err := n.gpus.Users(device, n.MPS())
	if err == nil {
		err = n.found[device].CheckUse(found)
	}
	return found, took, err
}

// uuids are the UUIDs of devices, in their order.
func uuids(devices []nvml.Device) (uuids []string) {
	for _, d := range devices {
		uuids = append(uuids, d.UUID)
	}
	return uuids
}

// ids are the UUIDs of the devices as bytes.
func (n *node) ids() (ids [][16]byte) {
	for _, d := range n.found {
		ids = append(ids, d.UUIDBytes)
	}
	return ids
}

// schedulable are the devices as the engine sees them. They have speeds if the clocks of all are known.
func (n *node) schedulable() (devices []schedulers.Device) {
	clocks := !slices.ContainsFunc(n.found, func(d nvml.Device) bool { return d.MaxSMClockHz == nil })
	for i, d := range n.devices {
		speed := 0.0
		if clocks {
			speed = float64(d.SMs) * float64(*n.found[i].MaxSMClockHz)
		}
		devices = append(devices, schedulers.Device{Name: d.Name, CapacityBytes: d.CapacityBytes, ContextBytes: d.ContextBytes,
			SMs: d.SMs, WarpsPerSM: d.WarpsPerSM, BlocksPerSM: d.BlocksPerSM, Speed: speed})
	}
	return devices
}

// Helpers has the processes that must outlive the batch. Close says why one has ended. Without ballast jobs find
// more memory than the run allows, and without MPS they fail.
func (n *node) Helpers() map[string]<-chan struct{} {
	out := map[string]<-chan struct{}{}
	for _, b := range n.ballasts {
		out[fmt.Sprintf("the ballast of GPU %s", n.found[b.device].ID)] = b.program.Done()
	}
	for _, s := range n.slows {
		out[fmt.Sprintf("the program that slows GPU %s", n.found[s.device].ID)] = s.program.Done()
	}
	if n.mps != nil {
		done := n.mps.Done()
		for i, d := range done {
			who := "the MPS daemon"
			if len(done) > 1 {
				who += " of GPU " + n.found[i].ID
			}
			out[who] = d
		}
	}
	if l := n.layer; l != nil && l.Start != nil {
		out["the daemon of layer "+l.Name] = l.running.Done()
	}
	if n.swap != nil {
		out["swap area"] = n.swap.Done()
	}
	return out
}

// quitLimit bounds how long MPS may take to see its clients go.
const quitLimit = 10 * time.Second

// giveBack ends the layer's daemon, what slows devices, MPS and the ballast, and checks that no memory or process
// of the run is left on a device. What is left is an error.
func (n *node) giveBack() error {
	errs := append([]error{n.stopLayer()}, n.release(n.slows)...)
	if n.mps != nil {
		ctx, cancel := context.WithTimeout(context.Background(), quitLimit)
		errs = append(errs, n.mps.Quit(ctx))
		cancel()
	}
	errs = append(errs, n.release(n.ballasts)...)
	return errors.Join(append(errs, n.leftovers())...)
}

// isLost reports whether a device of the node has fallen off the bus, or its driver calls do not return.
func (n *node) isLost(device int) bool {
	_, err := n.gpus.Device(device)
	return errors.Is(err, nvml.ErrLost) || errors.Is(err, nvml.ErrHung)
}

// leftoverBytes is more than the driver's own use varies, and less than a context takes.
const leftoverBytes = 64 * mib

// settleLimit is how long the driver may take to give memory back after the
// last process has gone.
const settleLimit = 3 * time.Second

// leftovers checks that each device has no more memory in use than before. A device that does not tell is no error, because the run
// was measured before.
func (n *node) leftovers() error {
	deadline := time.Now().Add(settleLimit)
	for {
		var errs, unread []error
		for i, before := range n.devices {
			d, err := n.gpus.Device(i)
			if err != nil {
				unread = append(unread, err)
			} else if int64(d.Memory.Used) > before.UsedAtStartBytes+leftoverBytes {
				errs = append(errs, fmt.Errorf("GPU %s: %s in use after the run, %s before: something of the run, or of another user, is left; see nvidia-smi",
					d.ID, size.Text(d.Memory.Used), size.Text(before.UsedAtStartBytes)))
			}
		}
		if len(errs)+len(unread) == 0 || time.Now().After(deadline) || len(errs) == 0 && allLost(unread) {
			for _, err := range unread {
				n.Say("what is left on a GPU cannot be checked: %v", err)
			}
			return errors.Join(errs...)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// allLost reports whether devices do not tell because they are lost.
func allLost(unread []error) bool {
	return !slices.ContainsFunc(unread, func(err error) bool { return !errors.Is(err, nvml.ErrLost) && !errors.Is(err, nvml.ErrHung) })
}
