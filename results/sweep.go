package results

import "time"

// Planned is the status of a sweep that has begun no run.
const Planned Status = "planned"

// Sweep is a matrix of runs on one node, planned as a whole before its first run. Its status
// is running while a process works on the sweep, and after that process died. It is complete
// once the run of every cell is complete.
type Sweep struct {
	ID          int64
	Name        string // the user's; may be empty
	Tag         string // of its runs; may be empty
	Spec        string // what it was planned from, as JSON
	Node        string
	Mode        Mode
	Seed        uint64
	Repetitions int
	CreatedAt   *time.Time // nil in a simulated sweep, which depends on its inputs only
	Status      Status
	Host        string // of the process that works on it; empty if none does
	PID         *int   // of that process
	Note        string // what a reader must know of how it ran, such as a change of program
}

// Cell is one run of a sweep's plan.
type Cell struct {
	Sweep      int64
	Position   int // in the order of execution, from 0
	Mix        string
	MixSource  string
	Scheduler  string // with the parameters that were asked for
	Repetition int    // from 1; warm-ups are counted separately
	Warmup     bool   // it runs to warm up the node and is not a measurement
	Seed       uint64
	Run        *int64 // the latest run that began for it
}
