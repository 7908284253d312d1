package blame

import (
	"slices"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Outage is a time in which the MPS server may not have served a device: from a client's
// fault or death there until the server was seen healthy. Seen on an H200 (driver 580): the
// server's state is FAULT within 30 ms of a fault and 150 ms of a kill -9 in mid-kernel. It
// turns new clients away with error 807 while an old client is left, and is ACTIVE again
// 60 ms after the last of them has gone.
type Outage struct {
	Device   int
	From, To time.Duration // Never: it lasts
	Shown    bool          // a client's error or the server's log has shown a fault there
	Seen     time.Duration // when the server itself was first seen broken; Never: it was not
}

func (o Outage) open() bool { return o.To == schedulers.Never }

func (o Outage) at(t time.Duration) bool { return o.From <= t && t <= o.To }

// Server is what is known of the MPS server that the processes of a batch share: its
// outages, and whether its recovery is awaited. The zero value is a healthy server.
type Server struct {
	outages  []Outage
	recovery recovery
	broken   bool  // it was seen broken while its recovery was awaited,
	of       []int // on these devices, each of which has a server of its own; nil: on all
}

type recovery int

const (
	healthy      recovery = iota
	awaited               // the executor waits until the server is healthy
	awaitedAgain          // awaited, and an incident since then may show only later
)

// Suspect notes that an incident at a time may have broken the server on the devices of the
// residencies that lasted then. shown: it is an error that was shown there. The answer is whether the
// caller must await its recovery.
func (s *Server) Suspect(rs Residencies, at time.Duration, shown bool) (await bool) {
	found := false
	for _, r := range rs {
		if !r.at(at) {
			continue
		}
		found = true
		if o := s.outage(r.Device); o != nil {
			o.From, o.Shown = min(o.From, at), o.Shown || shown
			continue
		}
		s.outages = append(s.outages, Outage{Device: r.Device, From: at, To: schedulers.Never, Seen: schedulers.Never, Shown: shown})
	}
	switch {
	case !found:
		return false
	case s.recovery == healthy:
		s.recovery = awaited
		return true
	}
	s.recovery = awaitedAgain
	return false
}

// FaultLogged notes that the server's own log shows a fault on the device, in an outage.
func (s *Server) FaultLogged(device int, at time.Duration) {
	if o := s.outage(device); o != nil {
		o.Seen = min(o.Seen, at)
	}
}

// Broken notes that the server was seen broken while its recovery was awaited. devices are those of a server of their own; nil: all.
func (s *Server) Broken(at time.Duration, devices []int) {
	s.broken = true
	s.of = append(s.of, devices...)
	for i, o := range s.outages {
		if o.open() && s.brokenOn(o.Device) {
			s.outages[i].Seen = min(o.Seen, at)
		}
	}
}

func (s *Server) brokenOn(device int) bool {
	return s.broken && (s.of == nil || slices.Contains(s.of, device))
}

// Healthy notes that the server was seen healthy. Where something happened since its
// recovery was first awaited, the answer is to await it once more. Otherwise the outages are
// over; wasBroken says whether the server had been seen broken in them.
func (s *Server) Healthy(at time.Duration) (awaitAgain, wasBroken bool) {
	if s.recovery == awaitedAgain {
		s.recovery = awaited
		return true, false
	}
	for i := range s.outages {
		s.outages[i].To = min(s.outages[i].To, at)
	}
	wasBroken = s.broken
	s.recovery, s.broken, s.of = healthy, false, nil
	return false, wasBroken
}

// Recovering reports whether the server's recovery is awaited.
func (s *Server) Recovering() bool { return s.recovery != healthy }

// lost are the outages of devices whose clients have lost their contexts, while the server is seen broken: those on which a fault
// was shown. If none was, a death broke the server, on one of the devices of an outage.
func (s *Server) lost() (lost []Outage) {
	shown := slices.ContainsFunc(s.outages, func(o Outage) bool { return o.open() && s.brokenOn(o.Device) && o.Shown })
	for _, o := range s.outages {
		if o.open() && s.brokenOn(o.Device) && o.Shown == shown {
			lost = append(lost, o)
		}
	}
	return lost
}

// Lost reports whether a job with these residencies has a process whose context is lost, as far as is known. late: each came so
// late that the server may have been broken by then. It then is no client, but tries to become one.
func (s *Server) Lost(rs Residencies) (lost, late bool) {
	late = true
	for _, o := range s.lost() {
		for _, r := range rs {
			if r.Device == o.Device && r.Open() {
				lost, late = true, late && r.From > o.From-lately
			}
		}
	}
	return lost, lost && late
}

// Outages are those so far, in the order in which they began to be suspected.
func (s *Server) Outages() []Outage { return s.outages }

// outage is the device's outage that lasts, or nil.
func (s *Server) outage(device int) *Outage {
	for i, o := range s.outages {
		if o.Device == device && o.open() {
			return &s.outages[i]
		}
	}
	return nil
}
