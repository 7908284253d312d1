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
	"github.com/caserun/caserun/runner/mps"
	"github.com/caserun/caserun/schedulers"
)

const mib = int64(1) << 20

// Options say how to prepare the node for one run.
type Options struct {
	MPS          bool
	MemCap       int64 // bytes each device shall seem to have; 0 = all
	SMCap        int   // SMs each client may use; 0 = all
	ContextBytes int64 // reserved for each process
	Ballast      string
	Warn         func(format string, args ...any)
}

// Session is the node prepared for one run: ballast in place, MPS running.
type Session struct {
	node     *nvml.Node
	options  Options
	found    []nvml.Device
	daemon   *mps.Daemon
	ballasts []*ballast.Ballast // of the devices in their order; none without MemCap
	sampler  *nvml.NodeSampler
	lost     chan Lost       // takes each device once
	recorder runner.Recorder // takes what the sampler sees
	epoch    time.Time       // of its times

	Devices  []results.Device
	Versions nvml.Versions
}

// Prepare takes the node for a run. An error says what is wrong and what to do. Close must
// follow every success.
func Prepare(ctx context.Context, node *nvml.Node, o Options) (_ *Session, err error) {
	s := &Session{node: node, options: o, lost: make(chan Lost, node.Count())}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Versions, err = node.Versions(ctx); err != nil {
		return nil, err
	}
	if s.found, err = node.Devices(); err != nil {
		return nil, err
	}
	for _, d := range s.found {
		if others, err := node.Processes(d.Index); err == nil && len(others) > 0 {
			o.Warn("GPU %d (%s): %d other processes use it: the measurement will not be clean", d.Number, d.Name, len(others))
		}
		if err := s.take(ctx, d); err != nil {
			return nil, err
		}
	}
	if !o.MPS {
		return s, nil
	}
	c := mps.Config{Devices: s.UUIDs()}
	if o.SMCap > 0 {
		c.ActiveThreadPercentage = min(100*float64(o.SMCap)/float64(*s.found[0].SMs), 100)
	}
	if s.daemon, err = mps.Start(ctx, c); err != nil {
		return nil, fmt.Errorf("start MPS: %w", err)
	}
	return s, nil
}

// take checks one device, loads it with ballast and settles its capacity: the free memory less
// what the MPS server takes.
func (s *Session) take(ctx context.Context, d nvml.Device) error {
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
	limit := s.options.MemCap
	if limit > capacity {
		asked, free := size.Apart(limit, capacity)
		return fmt.Errorf("GPU %d (%s): --mem-cap of %s: only %s is free", d.Number, d.Name, asked, free)
	}
	if limit > 0 {
		capacity = limit
	}
	if s.options.MPS {
		capacity -= runner.ServerBytes
	}
	if capacity <= s.options.ContextBytes {
		return fmt.Errorf("GPU %d (%s): %s is left for jobs, and a CUDA context alone takes %s (--context-reserve): free memory there, or raise --mem-cap",
			d.Number, d.Name, size.Text(capacity), size.Text(s.options.ContextBytes))
	}
	if limit > 0 {
		b, err := ballast.Start(ctx, s.options.Ballast, d.UUID, uint64(limit))
		if err != nil {
			return fmt.Errorf("ballast on GPU %d: %w", d.Number, err)
		}
		s.ballasts = append(s.ballasts, b)
	}
	r := results.Device{Index: d.Index, UUID: d.UUID, Name: d.Name, MemoryBytes: int64(d.Memory.Total),
		UsedAtStartBytes: int64(d.Memory.Used), CapacityBytes: capacity, ContextBytes: s.options.ContextBytes,
		SMs: *d.SMs, WarpsPerSM: *d.MaxWarpsPerSM, BlocksPerSM: *d.MaxBlocksPerSM,
		SMClockStartHz: hertz(d.SMClockHz), ThrottleStart: reasons(d.EventReasons)}
	if s.options.MPS && s.options.SMCap > 0 {
		r.SMs = min(s.options.SMCap, r.SMs)
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

// Lost is a device, by its place in node order, that has fallen off the bus.
type Lost struct {
	Device int
	Err    error
}

// Lost has each device that is lost while the sampler runs, once.
func (s *Session) Lost() <-chan Lost { return s.lost }

// Users has the PIDs of the processes that use a device.
func (s *Session) Users(device int) ([]int, error) {
	found, err := s.node.Processes(device)
	var pids []int
	for _, p := range found {
		pids = append(pids, p.PID)
	}
	return pids, err
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

// Helpers are the processes that must outlive the batch, by a name for messages. Each channel
// is closed when its process has ended; Close then says why. Without ballast jobs find more
// memory than the run allows, and without MPS they fail.
func (s *Session) Helpers() map[string]<-chan struct{} {
	out := map[string]<-chan struct{}{}
	for i, b := range s.ballasts {
		out[fmt.Sprintf("the ballast of GPU %d", s.found[i].Number)] = b.Done()
	}
	if s.daemon != nil {
		out["the MPS daemon"] = s.daemon.Done()
	}
	return out
}

// Terminate returns a function that ends the work of processes on the GPUs before they are
// killed. Each command to the daemon has a limit of its own. It returns nil without MPS.
func (s *Session) Terminate() func(pids ...int) error {
	if s.daemon == nil {
		return nil
	}
	return func(pids ...int) error { return s.daemon.TerminateClients(context.Background(), pids...) }
}

// AwaitServer returns Config.AwaitServer for the session's MPS server, or nil without MPS.
func (s *Session) AwaitServer() func(ctx context.Context, broken func(error)) error {
	if s.daemon == nil {
		return nil
	}
	return s.daemon.AwaitHealthy
}

// WatchServer returns Config.WatchServer, which reads the log of the session's MPS server, or
// nil without MPS.
func (s *Session) WatchServer() func(done <-chan struct{}, seen func(device int, at time.Time)) error {
	if s.daemon == nil {
		return nil
	}
	return s.daemon.WatchFaults
}

// quitLimit bounds how long MPS may take to see its clients go.
const quitLimit = 10 * time.Second

// Close gives the node back: it ends MPS and the ballast, and checks that no memory or process
// of the run is left on a device. What is left is an error.
func (s *Session) Close() error {
	var errs []error
	if s.daemon != nil {
		ctx, cancel := context.WithTimeout(context.Background(), quitLimit)
		errs = append(errs, s.daemon.Quit(ctx))
		cancel()
	}
	for i, b := range s.ballasts {
		err := b.Close()
		if err != nil && s.isLost(i) {
			s.options.Warn("%v", err)
			err = nil
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.leftovers())...)
}

// isLost reports whether a device of the session has fallen off the bus, or its driver calls do not return.
func (s *Session) isLost(device int) bool {
	_, err := s.node.Device(device)
	return errors.Is(err, nvml.ErrLost) || errors.Is(err, nvml.ErrHung)
}

// leftoverBytes is more than the driver's own use varies, and less than a context takes.
const leftoverBytes = 64 * mib

// settleLimit is how long the driver may take to give memory back after the
// last process has gone.
const settleLimit = 3 * time.Second

// leftovers checks that each device has no more memory in use than before. A device that does not tell is no error, because the run
// was measured before.
func (s *Session) leftovers() error {
	deadline := time.Now().Add(settleLimit)
	for {
		var errs, unread []error
		for i, before := range s.Devices {
			d, err := s.node.Device(i)
			if err != nil {
				unread = append(unread, err)
			} else if int64(d.Memory.Used) > before.UsedAtStartBytes+leftoverBytes {
				errs = append(errs, fmt.Errorf("GPU %d: %s in use after the run, %s before: something of the run, or of another user, is left; see nvidia-smi",
					d.Number, size.Text(d.Memory.Used), size.Text(before.UsedAtStartBytes)))
			}
		}
		if len(errs)+len(unread) == 0 || time.Now().After(deadline) || len(errs) == 0 && allLost(unread) {
			for _, err := range unread {
				s.options.Warn("what is left on a GPU cannot be checked: %v", err)
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
