// Package cluster has the policies of a cluster's head: which ranks of which job go to which node, and which jobs give
// way there. What a rank does on its node's devices is decided by the node's own engine (schedulers/engine).
//
// The policies are those of chapter 4 of the dissertation on CPU-GPU clusters. docs/design/cluster.md says what was
// mended in its listings. The package computes only: it reads no clock, and does no I/O.
package cluster

import "github.com/caserun/caserun/schedulers"

// Kind is what a job's time depends on most (the dissertation's section 4.3.1).
type Kind int

const (
	Communication Kind = iota // between its ranks, as of MM and NW
	Computation               // of each rank, as of ADFA
)

// Class is how long a job runs (section 4.3.2).
type Class int

const (
	Short Class = iota
	Long
)

// Node is a node of the cluster when nothing runs on it.
type Node struct {
	Name    string
	Devices int // at least 1
	Weight  int // ranks for which it has room under weights=gpus; 0: as many as devices
	Cores   int // of all its devices: multiprocessors x cores of each. Only weights=sms and weights=both read it
}

// Job is what the head knows of a job. Its name appears in reasons.
type Job struct {
	ID    schedulers.JobID
	Name  string
	Ranks int
	Kind  Kind
	Class Class
	// Whole: its ranks are one process with as many devices, all of one node.
	Whole bool
}

// Share is how many of a job's ranks are on a node. Node counts from 0, in the order given to New.
type Share struct{ Node, Ranks int }

// A Decision is an Assign, a Limit, a Withdraw or a Refuse.
type Decision interface{ decision() }

// Assign has ranks of a job go to nodes. A node occurs once.
type Assign struct {
	Job    schedulers.JobID
	Shares []Share
}

// Limit lets the job's ranks on the node use so many of its devices; 0 suspends them. As many as the node has resume them.
type Limit struct {
	Job           schedulers.JobID
	Node, Devices int
}

// Leave asks whether the ranks of a job can leave a node, which they have not started on. Left or Stayed answers.
type Leave struct {
	Job    schedulers.JobID
	Node   int
	Reason string
}

// Withdraw takes back what Assign gave: a node with ranks of the job is down, and the whole job is over.
type Withdraw struct {
	Job    schedulers.JobID
	Shares []Share
	Reason string
}

// Refuse ends a job that waits, and that can never run.
type Refuse struct {
	Job    schedulers.JobID
	Reason string
}

func (Assign) decision()   {}
func (Limit) decision()    {}
func (Leave) decision()    {}
func (Withdraw) decision() {}
func (Refuse) decision()   {}
