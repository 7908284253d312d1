package probe

import (
	"maps"
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// What the run asks about processes: those that have said something and are not gone.

func (s *Server) knownClients() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.known))
}

// PIDs returns those of the job's processes.
func (s *Server) PIDs(job int) (pids []int) {
	for _, c := range s.knownClients() {
		if c.Job() == job {
			pids = append(pids, c.PID())
		}
	}
	return pids
}

// JobOf returns the job of the process with the PID.
func (s *Server) JobOf(pid int) (job int, known bool) {
	for _, c := range s.knownClients() {
		if c.PID() == pid {
			return c.Job(), true
		}
	}
	return -1, false
}

// Known returns the processes by PID. A process that has several copies of the library is several in events.
func (s *Server) Known() map[int][]schedulers.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[int][]schedulers.Process, len(s.known))
	for p, c := range s.known {
		known[c.PID()] = append(known[c.PID()], p)
	}
	return known
}

// Holders returns the PIDs of the processes that have had memory on a device, and so a context, as their probes show.
func (s *Server) Holders() map[int]bool {
	had := map[int]bool{}
	for _, c := range s.knownClients() {
		if _, known := c.PeakBytes(); known {
			had[c.PID()] = true
		}
	}
	return had
}

// Activity returns what the process shows now, as client.Activity does.
func (s *Server) Activity(p schedulers.Process) (a Activity, known bool) {
	s.mu.Lock()
	c := s.known[p]
	s.mu.Unlock()
	if c == nil {
		return a, false
	}
	return c.Activity()
}

// Asked reports whether a process with the PID has ever said something.
func (s *Server) Asked(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[pid]
}

// HungUp reports whether the server has hung up on a process of the job, which may hold what others are granted.
func (s *Server) HungUp(job int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hungUp[job]
}

// AwaitGone waits until the job has no processes. false: it still has some at the limit.
func (s *Server) AwaitGone(job int, limit time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := func() bool {
		for p := range s.known {
			if p.Job == schedulers.JobID(job) {
				return true
			}
		}
		return false
	}
	if !has() {
		return true
	}
	expired := false
	timer := time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		expired = true
		s.changed.Broadcast()
	})
	defer timer.Stop()
	for has() && !expired {
		s.changed.Wait()
	}
	return !has()
}
