package schedulers

import "time"

// Prediction is what a job is expected to do on a device of the node, by what the same command did
// before.
type Prediction struct {
	Before time.Duration // from its start to its first request
	Held   time.Duration // while it has a device: from each grant to the release, all tasks together
	After  time.Duration // from its last release to its exit
	Bytes  int64         // the most that its tasks had at one time
	// Kernels is the part of Held in which kernels run, from 0 to 1, and SMs the part of the
	// device's SMs that they fill in the mean. Both are 0 where no kernels were seen.
	Kernels, SMs float64
}
