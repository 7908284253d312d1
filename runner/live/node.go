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
	daemon   *mps.Daemon     // nil without MPS
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
func (n *node) prepare(ctx context.Context, gpus *nvml.Node) (err error) {
	n.gpus, n.lost = gpus, make(chan Lost, gpus.Count())
	defer func() {
		if err != nil {
			err = errors.Join(err, n.giveBack())
		}
	}()
	if n.versions, err = gpus.Versions(ctx); err != nil {
		return err
	}
	if n.found, err = gpus.Devices(); err != nil {
		return err
	}
	if n.shares, err = parseSlow(n.Slow, len(n.found)); err != nil {
		return err
	}
	for _, d := range n.found {
		if others, err := gpus.Processes(d.Index); err == nil && len(others) > 0 {
			n.Say("GPU %d (%s): %d other processes use it: the measurement will not be clean", d.Number, d.Name, len(others))
		}
		if err := n.take(ctx, d); err != nil {
			return err
		}
	}
	if !n.MPS() {
		return nil
	}
	c := mps.Config{Devices: n.uuids()}
	if n.SMCap > 0 {
		c.ActiveThreadPercentage = min(100*float64(n.SMCap)/float64(*n.found[0].SMs), 100)
	}
	if n.daemon, err = mps.Start(ctx, c); err != nil {
		return fmt.Errorf("start MPS: %w", err)
	}
	return n.slowDown(ctx)
}

// take checks one device, loads it with ballast and settles its capacity: the free memory less
// what the MPS server and the program of --slow take.
func (n *node) take(ctx context.Context, d nvml.Device) error {
	if d.Limits != nil {
		return fmt.Errorf("GPU %d (%s): %w", d.Number, d.Name, d.Limits)
	}
	if d.MIG != nil && *d.MIG {
		return fmt.Errorf("GPU %d (%s): MIG is on: caserun schedules whole GPUs", d.Number, d.Name)
	}
	if d.ComputeMode != nil && *d.ComputeMode != nvml.ModeDefault {
		return fmt.Errorf("GPU %d (%s): compute mode is %s: runs need the default mode", d.Number, d.Name, *d.ComputeMode)
	}
	capacity := int64(d.Memory.Free)
	limit := n.MemCap.Bytes
	if limit > capacity {
		asked, free := size.Apart(limit, capacity)
		return fmt.Errorf("GPU %d (%s): --mem-cap of %s: only %s is free", d.Number, d.Name, asked, free)
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
		return fmt.Errorf("GPU %d (%s): %s is left for jobs, and a CUDA context alone takes %s (--context-reserve): free memory there, or raise --mem-cap",
			d.Number, d.Name, size.Text(capacity), size.Text(n.Context.Bytes))
	}
	if limit > 0 {
		program, err := FindBallast()
		if err != nil {
			return err
		}
		b, err := ballast.Start(ctx, program, d.UUID, uint64(limit))
		if err != nil {
			return fmt.Errorf("ballast on GPU %d: %w", d.Number, err)
		}
		n.ballasts = append(n.ballasts, holder{d.Index, b})
	}
	r := results.Device{Index: d.Index, UUID: d.UUID, Name: d.Name, MemoryBytes: int64(d.Memory.Total),
		UsedAtStartBytes: int64(d.Memory.Used), CapacityBytes: capacity, ContextBytes: n.Context.Bytes,
		SMs: *d.SMs, WarpsPerSM: *d.MaxWarpsPerSM, BlocksPerSM: *d.MaxBlocksPerSM,
		SMClockStartHz: hertz(d.SMClockHz), ThrottleStart: reasons(d.EventReasons)}
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

// uuids are the devices' UUIDs in node order.
func (n *node) uuids() (uuids []string) {
	for _, d := range n.found {
		uuids = append(uuids, d.UUID)
	}
	return uuids
}

// ids are the same as bytes.
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
		out[fmt.Sprintf("the ballast of GPU %d", n.found[b.device].Number)] = b.program.Done()
	}
	for _, s := range n.slows {
		out[fmt.Sprintf("the program that slows GPU %d", n.found[s.device].Number)] = s.program.Done()
	}
	if n.daemon != nil {
		out["the MPS daemon"] = n.daemon.Done()
	}
	if n.swap != nil {
		out["swap area"] = n.swap.Done()
	}
	return out
}

// quitLimit bounds how long MPS may take to see its clients go.
const quitLimit = 10 * time.Second

// giveBack ends what slows devices, MPS and the ballast, and checks that no memory or process
// of the run is left on a device. What is left is an error.
func (n *node) giveBack() error {
	errs := n.release(n.slows)
	if n.daemon != nil {
		ctx, cancel := context.WithTimeout(context.Background(), quitLimit)
		errs = append(errs, n.daemon.Quit(ctx))
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
				errs = append(errs, fmt.Errorf("GPU %d: %s in use after the run, %s before: something of the run, or of another user, is left; see nvidia-smi",
					d.Number, size.Text(d.Memory.Used), size.Text(before.UsedAtStartBytes)))
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
