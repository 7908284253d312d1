package results

import "time"

// Planned is the status of a sweep of which no run has begun.
const Planned Status = "planned"

// Sweep is a matrix of runs on one node, planned as a whole before the first of
// them. Its status is running while a process works on it, or if that process
// died; complete once every cell's run is.
type Sweep struct {
	ID          int64
	Name        string // as its user called it; may be empty
	Tag         string // of its runs; may be empty
	Spec        string // what it was planned from, JSON
	Node        string
	Mode        Mode
	Seed        uint64
	Repetitions int
	CreatedAt   *time.Time // nil in a simulated sweep: it is a function of its inputs
	Status      Status
	Host        string // where a process works on it; empty if none does
	PID         *int   // of that process
	Note        string // what a reader must know of how it was run, such as a change of program
}

// Cell is one run of a sweep's plan.
type Cell struct {
	Sweep      int64
	Position   int // in the order of execution, from 0
	Mix        string
	MixSource  string
	Scheduler  string // with the parameters that were asked for
	Repetition int    // from 1; warm-ups count apart
	Warmup     bool   // runs for its effect on the node, and is no measurement
	Seed       uint64
	Run        *int64 // the latest run that began for it
}
