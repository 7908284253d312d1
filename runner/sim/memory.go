package sim

import (
	"slices"
	"time"

	"github.com/caserun/caserun/runner/profiles"
)

// object is memory that a process has allocated.
type object struct {
	owner    *process
	name     string
	bytes    int64
	resident int64 // of them on the device; those of managed memory move
	out      int64 // of the others: bytes that a revocation moved to the host
	managed  bool
	newer    bool // the device's contents are newer than the host's
	filled   bool // it has contents
	lastUsed time.Duration
}

// take takes memory for what cannot move. It fails if the device does not have so much beside what
// cannot move either, whatever the scheduler's accounting says. Managed memory makes room, which
// costs no time.
func (d *device) take(bytes int64) bool {
	d.displace(bytes)
	if bytes > d.free {
		return false
	}
	d.free -= bytes
	return true
}

// give takes an object off the device.
func (d *device) give(o *object) {
	d.free += o.resident
	o.resident = 0
	if o.managed {
		d.managed = slices.DeleteFunc(d.managed, func(m *object) bool { return m == o })
	}
}

// displace moves managed memory to the host until so many bytes are free, or nothing is left to
// move: first what was used least recently. It returns the bytes that had to be copied.
func (d *device) displace(bytes int64) (copied int64) {
	for _, o := range d.managed {
		if d.free >= bytes {
			break
		}
		moved := min(o.resident, bytes-d.free)
		o.resident -= moved
		d.free += moved
		if o.newer {
			copied += moved
		}
	}
	return copied
}

// page brings the managed memory that a kernel of a process uses to the device, and returns the
// bytes that the link carries for it, in both directions. What has no place on the device
// passes through, and goes back if the kernel may write it.
func (d *device) page(p *process, k *profiles.Step) (carried int64) {
	if len(d.managed) == 0 {
		return 0
	}
	var used []*object
	d.managed = slices.DeleteFunc(d.managed, func(o *object) bool {
		if o.owner != p || !uses(k, o.name) {
			return false
		}
		used = append(used, o)
		return true
	})
	for _, o := range used {
		missing := o.bytes - o.resident
		carried += missing + d.displace(missing)
		stays := min(missing, d.free)
		o.resident += stays
		d.free -= stays
		if writes(k, o.name) {
			o.newer = true
			carried += missing - stays
		}
	}
	d.managed = append(d.managed, used...)
	return carried
}

// uses reports whether a step works with an object on the device.
func uses(s *profiles.Step, name string) bool {
	if s.Kind != profiles.Kernel {
		return s.Object == name
	}
	return s.Reads == nil && s.Writes == nil || slices.Contains(s.Reads, name) || slices.Contains(s.Writes, name)
}

// writes reports whether a step may write an object on the device.
func writes(s *profiles.Step, name string) bool {
	if s.Kind != profiles.Kernel {
		return s.Kind == profiles.CopyIn && s.Object == name
	}
	return s.Reads == nil && s.Writes == nil || slices.Contains(s.Writes, name)
}
