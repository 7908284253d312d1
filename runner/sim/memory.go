package sim

import "time"

// object is memory that a process has allocated.
type object struct {
	name     string
	bytes    int64
	resident int64 // of them on the device
	out      int64 // of the others: bytes that a revocation moved to the host
	newer    bool  // the device's contents are newer than the host's
	filled   bool  // it has contents
	copied   bool  // whatever of it moves is copied, as libcase.so does, which does not know what was written
	lastUsed time.Duration
	blocks   []block // of managed memory, whose blocks move by themselves
}

func (o *object) managed() bool { return o.blocks != nil }

// take takes memory for what cannot move. It fails if the device does not have so much beside what
// cannot move either, whatever the scheduler's accounting says. Managed memory makes room: written is how much of it
// has to be written to the host.
func (d *device) take(bytes int64) (written int64, ok bool) {
	written = d.makeRoom(bytes)
	if bytes > d.free {
		return written, false
	}
	d.free -= bytes
	return written, true
}

// give takes an object off the device.
func (d *device) give(o *object) {
	d.free += o.resident
	o.resident = 0
	for i := range o.blocks {
		d.aged.remove(&o.blocks[i])
	}
}
