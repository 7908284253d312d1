package mps

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Service is the MPS of a run: a daemon for all its devices, or one for each. A daemon serves one instance of MIG only, so that
// devices of which one is an instance need one each (NVIDIA's Multi-Process Service guide, "Running MPS on Multi-Instance GPUs").
type Service struct {
	daemons []*Daemon
	each    bool
}

// StartService starts a daemon for each configuration. Several of them have one device each.
func StartService(ctx context.Context, configs ...Config) (*Service, error) {
	return startService(ctx, defaultPipeDir, configs...)
}

func startService(ctx context.Context, foreign string, configs ...Config) (*Service, error) {
	s := &Service{each: len(configs) > 1}
	for _, c := range configs {
		d, err := start(ctx, c, foreign, usual)
		if err != nil {
			return nil, errors.Join(err, s.Quit(ctx))
		}
		s.daemons = append(s.daemons, d)
	}
	return s, nil
}

// of is the daemon of a device.
func (s *Service) of(device int) *Daemon {
	if s.each {
		return s.daemons[device]
	}
	return s.daemons[0]
}

// Env returns the variables that a process needs to become a client on a device.
func (s *Service) Env(device int) []string { return s.of(device).Env() }

// Pipes has the pipe directory of each device; nil: there is one for all.
func (s *Service) Pipes() (pipes []string) {
	if s.each {
		for _, d := range s.daemons {
			pipes = append(pipes, d.pipes())
		}
	}
	return pipes
}

// Done has a channel for each daemon, which is closed when it has ended.
func (s *Service) Done() (done []<-chan struct{}) {
	for _, d := range s.daemons {
		done = append(done, d.Done())
	}
	return done
}

// TerminateClients is Daemon.TerminateClients of all daemons.
func (s *Service) TerminateClients(ctx context.Context, pids ...int) error {
	return s.atOnce(func(_ int, d *Daemon) error { return d.TerminateClients(ctx, pids...) })
}

// Mend is Daemon.Mend of all daemons.
func (s *Service) Mend() (mended bool, err error) {
	for _, d := range s.daemons {
		m, failed := d.Mend()
		mended, err = mended || m, errors.Join(err, failed)
	}
	return mended, err
}

// AwaitHealthy is Daemon.AwaitHealthy of all daemons. broken is told the devices of the daemon, nil: all. It may be called by several
// goroutines at once.
func (s *Service) AwaitHealthy(ctx context.Context, broken func(devices []int, why error, fault bool)) error {
	return s.atOnce(func(first int, d *Daemon) error {
		var devices []int
		if s.each {
			devices = []int{first}
		}
		return d.AwaitHealthy(ctx, func(why error, fault bool) { broken(devices, why, fault) })
	})
}

// WatchFaults is Daemon.WatchFaults of all daemons. device is the number among the service's devices. seen may be called by several
// goroutines at once.
func (s *Service) WatchFaults(done <-chan struct{}, seen func(device int, at time.Time)) error {
	return s.atOnce(func(first int, d *Daemon) error {
		return d.WatchFaults(done, func(device int, at time.Time) { seen(first+device, at) })
	})
}

// Quit is Daemon.Quit of all daemons.
func (s *Service) Quit(ctx context.Context) error {
	return s.atOnce(func(_ int, d *Daemon) error { return d.Quit(ctx) })
}

// atOnce does something with all daemons at once. It is told the number of a daemon's first device.
func (s *Service) atOnce(do func(first int, d *Daemon) error) error {
	errs := make([]error, len(s.daemons))
	var all sync.WaitGroup
	for i, d := range s.daemons {
		all.Go(func() { errs[i] = do(i, d) })
	}
	all.Wait()
	return errors.Join(errs...)
}
