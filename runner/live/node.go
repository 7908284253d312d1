package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/ballast"
	"github.com/caserun/caserun/runner/mps"
	"github.com/caserun/caserun/schedulers"
)

const mib = int64(1) << 20

// Reserves of device memory, measured on an H200 with driver 580.159: a process
// context takes 527 MiB without MPS. Under MPS the server takes 71 MiB and each
// client 517 MiB more.
const (
	DefaultContextBytes = 576 * mib
	serverBytes         = 128 * mib
)

// Options say how to prepare the node for one run.
type Options struct {
	MPS          bool
	MemCap       int64 // bytes each device shall seem to have; 0 = all
	SMCap        int   // SMs each client may use; 0 = all
	ContextBytes int64 // reserved for each process
	Ballast      string
	Dir          string // for MPS's private directories; "" = the system's temporary directory
	Warn         func(format string, args ...any)
}

// Session is the node prepared for one run: ballast in place, MPS running.
type Session struct {
	node     *nvml.Node
	options  Options
	found    []nvml.Device
	daemon   *mps.Daemon
	ballasts []*ballast.Ballast
	sampler  *nvml.NodeSampler

	Devices  []results.Device
	Versions nvml.Versions
}

// Prepare takes the node for a run. What it found wrong is an error that says
// what to do; Close must follow every success.
func Prepare(ctx context.Context, node *nvml.Node, o Options) (_ *Session, err error) {
	s := &Session{node: node, options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Versions, err = node.Versions(); err != nil {
		return nil, err
	}
	if s.found, err = node.Devices(); err != nil {
		return nil, err
	}
	for _, d := range s.found {
		if others, err := node.Processes(d.Index); err == nil && len(others) > 0 {
			o.Warn("device %d (%s): %d other processes use it: the measurement will not be clean", d.Index, d.Name, len(others))
		}
		if err := s.take(ctx, d); err != nil {
			return nil, err
		}
	}
	if !o.MPS {
		return s, nil
	}
	c := mps.Config{Dir: o.Dir, Devices: s.UUIDs()}
	if o.SMCap > 0 {
		c.ActiveThreadPercentage = min(100*float64(o.SMCap)/float64(*s.found[0].SMs), 100)
	}
	if s.daemon, err = mps.Start(ctx, c); err != nil {
		return nil, fmt.Errorf("start MPS: %w", err)
	}
	return s, nil
}

// take checks one device, loads it with ballast and settles its capacity:
// what is free, less what the MPS server takes.
func (s *Session) take(ctx context.Context, d nvml.Device) error {
	if d.SMs == nil || d.MaxWarpsPerSM == nil || d.MaxBlocksPerSM == nil {
		return fmt.Errorf("device %d (%s): its SM limits are unknown to this version", d.Index, d.Name)
	}
	if d.MIG != nil && *d.MIG {
		return fmt.Errorf("device %d (%s): MIG is on: caserun schedules whole GPUs", d.Index, d.Name)
	}
	if d.ComputeMode != nil && *d.ComputeMode != nvml.ModeDefault {
		return fmt.Errorf("device %d (%s): compute mode is %s: runs need the default mode", d.Index, d.Name, *d.ComputeMode)
	}
	free := int64(d.Memory.Free)
	if limit := s.options.MemCap; limit > 0 {
		if limit > free {
			return fmt.Errorf("device %d (%s): --mem-cap of %d bytes: only %d are free", d.Index, d.Name, limit, free)
		}
		b, err := ballast.Start(ctx, s.options.Ballast, d.UUID, uint64(limit))
		if err != nil {
			return fmt.Errorf("ballast on device %d: %w", d.Index, err)
		}
		s.ballasts = append(s.ballasts, b)
		free = limit
	}
	r := results.Device{Index: d.Index, UUID: d.UUID, Name: d.Name, MemoryBytes: int64(d.Memory.Total),
		UsedAtStartBytes: int64(d.Memory.Used), CapacityBytes: free, ContextBytes: s.options.ContextBytes,
		SMs: *d.SMs, WarpsPerSM: *d.MaxWarpsPerSM, BlocksPerSM: *d.MaxBlocksPerSM,
		SMClockStartHz: hertz(d.SMClockHz), ThrottleStart: reasons(d.EventReasons)}
	if s.options.MPS {
		r.CapacityBytes -= serverBytes
		if limit := s.options.SMCap; limit > 0 {
			r.SMs = min(limit, r.SMs)
		}
	}
	s.Devices = append(s.Devices, r)
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

// UUIDs are the devices' UUIDs in node order.
func (s *Session) UUIDs() []string {
	var out []string
	for _, d := range s.found {
		out = append(out, d.UUID)
	}
	return out
}

// IDs are the same as bytes.
func (s *Session) IDs() [][16]byte {
	var out [][16]byte
	for _, d := range s.found {
		out = append(out, d.UUIDBytes)
	}
	return out
}

// Schedulable are the devices as the engine sees them.
func (s *Session) Schedulable() []schedulers.Device {
	var out []schedulers.Device
	for _, d := range s.Devices {
		out = append(out, schedulers.Device{Name: d.Name, CapacityBytes: d.CapacityBytes, ContextBytes: d.ContextBytes,
			SMs: d.SMs, WarpsPerSM: d.WarpsPerSM, BlocksPerSM: d.BlocksPerSM})
	}
	return out
}

// Env is what jobs need in their environment to reach the MPS server.
func (s *Session) Env() []string {
	if s.daemon == nil {
		return nil
	}
	return s.daemon.Env()
}

// terminateLimit bounds how long the MPS server may take to end a client.
const terminateLimit = 20 * time.Second

// Terminate returns what ends a process's work on the GPUs before it is
// killed, or nil without MPS.
func (s *Session) Terminate() func(pid int) error {
	if s.daemon == nil {
		return nil
	}
	return func(pid int) error {
		ctx, cancel := context.WithTimeout(context.Background(), terminateLimit)
		defer cancel()
		if err := s.daemon.TerminateClient(ctx, pid); err != nil && !errors.Is(err, mps.ErrNotClient) {
			return err
		}
		return nil
	}
}

// Heal returns what waits until the MPS server is healthy, or nil without MPS.
func (s *Session) Heal() func(ctx context.Context, broken func(error)) error {
	if s.daemon == nil {
		return nil
	}
	return s.daemon.AwaitHealthy
}

var series = map[nvml.Kind]results.Series{
	nvml.GPUUtilization:         results.SeriesGPU,
	nvml.MemoryUtilization:      results.SeriesMemoryActivity,
	nvml.MemoryUsed:             results.SeriesMemory,
	nvml.BufferedGPUUtilization: results.SeriesGPUDriver,
	nvml.SMActivity:             results.SeriesGPM,
}

// activityPeriod is the window of GPM's SM activity; windows under 100 ms read
// 0 (H200, driver 580).
const activityPeriod = 200 * time.Millisecond

// Sample starts the sampler; its segments go to rec until Unsample.
func (s *Session) Sample(epoch time.Time, rec runner.Recorder) error {
	var err error
	s.sampler, err = s.node.StartSampler(nvml.Config{Epoch: epoch, ActivityPeriod: activityPeriod, Consume: func(g nvml.Segment) {
		rec.Segment(results.Segment{Device: g.Device, Series: series[g.Kind], FirstS: g.First.Seconds(),
			LastS: g.Last.Seconds(), Samples: int64(g.Samples), Value: &g.Value})
	}})
	if err != nil {
		return fmt.Errorf("start sampler: %w", err)
	}
	return nil
}

// stopLimit bounds how long a driver call may keep the sampler from stopping.
const stopLimit = 5 * time.Second

// Unsample stops the sampler and returns its figures; the devices get their
// refresh interval, and their clocks as they are now.
func (s *Session) Unsample() (results.Sampler, error) {
	st, err := s.sampler.Stop(stopLimit)
	out := results.Sampler{PeriodS: new(st.Period.Seconds()), Samples: new(st.Ticks), MissedDeadlines: new(st.Missed),
		LongestGapS: new(st.LongestGap.Seconds()), CPUS: new(st.CPU.Seconds())}
	failures := st.LostSamples
	for i, d := range st.Devices {
		failures += d.Failures
		if d.FirstError != nil && out.FirstError == nil {
			out.FirstError = new(d.FirstError.Error())
		}
		if r := d.Series[nvml.GPUUtilization].Refresh; r != nil {
			s.Devices[i].RefreshS = new(r.Seconds())
		}
	}
	out.Errors = &failures
	if after, e := s.node.Devices(); e == nil {
		for i, d := range after {
			s.Devices[i].SMClockEndHz, s.Devices[i].ThrottleEnd = hertz(d.SMClockHz), reasons(d.EventReasons)
		}
	} else {
		err = errors.Join(err, e)
	}
	return out, err
}

// quitLimit bounds how long MPS may take to see its clients go.
const quitLimit = 10 * time.Second

// Close gives the node back: MPS ended, ballast gone, and no memory or process
// of the run left on a device. What is left is an error.
func (s *Session) Close() error {
	var errs []error
	if s.sampler != nil {
		if _, err := s.sampler.Stop(stopLimit); err != nil { // stopped already, unless the run failed to start
			errs = append(errs, err)
		}
	}
	if s.daemon != nil {
		ctx, cancel := context.WithTimeout(context.Background(), quitLimit)
		errs = append(errs, s.daemon.Quit(ctx))
		cancel()
	}
	for _, b := range s.ballasts {
		errs = append(errs, b.Close())
	}
	return errors.Join(append(errs, s.leftovers())...)
}

// leftoverBytes is more than the driver's own use varies by, and less than a
// context.
const leftoverBytes = 64 * mib

// settleLimit is how long the driver may take to give memory back after the
// last process has gone.
const settleLimit = 3 * time.Second

// leftovers checks that each device has no more memory in use than before.
func (s *Session) leftovers() error {
	deadline := time.Now().Add(settleLimit)
	for {
		after, err := s.node.Devices()
		if err != nil {
			return fmt.Errorf("check for leftovers: %w", err)
		}
		var errs []error
		for i, d := range after {
			if i < len(s.Devices) && int64(d.Memory.Used) > s.Devices[i].UsedAtStartBytes+leftoverBytes {
				errs = append(errs, fmt.Errorf("device %d: %d bytes in use after the run, %d before: something of the run, or of another user, is left; see nvidia-smi",
					i, d.Memory.Used, s.Devices[i].UsedAtStartBytes))
			}
		}
		if len(errs) == 0 || time.Now().After(deadline) {
			return errors.Join(errs...)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
