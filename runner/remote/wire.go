package remote

import (
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/control"
	"github.com/caserun/caserun/runner/harness"
)

// Protocol is the number of the protocol between a head and its nodes. Each line is one of these as JSON, with one field that is set.
const Protocol = 1

// ToNode is what a head says to a node: Open, Prepare, Begin, then what its batch is given, NoMore, and Close.
type ToNode struct {
	Open     *Opening         `json:",omitzero"`
	Prepare  *Preparing       `json:",omitzero"`
	Ping     *int64           `json:",omitzero"` // answered by Pong, at any time
	Begin    *Beginning       `json:",omitzero"`
	Given    *runner.Given    `json:",omitzero"`
	Number   int              `json:",omitzero"` // of the job that is given, in the mix
	Limit    *runner.Limit    `json:",omitzero"`
	Withdraw *runner.Withdraw `json:",omitzero"`
	Alone    bool             `json:",omitzero"` // only companions are left
	Cancel   string           `json:",omitzero"` // why all jobs end
	Control  *Controlling     `json:",omitzero"` // answered by Controlled, while the batch runs
	NoMore   bool             `json:",omitzero"`
	Close    bool             `json:",omitzero"`
}

// Opening opens the node.
type Opening struct {
	Protocol int
	Version  string // of the head
	Options  harness.Options
}

// Preparing prepares the node for a batch.
type Preparing struct {
	harness.Configuration
	Mix         string
	FirstDevice int       // the number that its first device has in the batch
	Started     time.Time // of the run, which the directory of its output files is named by
	Desk        string    `json:",omitzero"` // the name of the run's sockets at which nodes await ranks from steps of Slurm; "": there are no such steps
}

// Beginning begins the batch.
type Beginning struct {
	Run  int64
	Zero int64 // the batch's arrival in ns, by the node's clock, as Pong.Ns is
}

// FromNode is what a node says to its head.
type FromNode struct {
	Opened     *Opened          `json:",omitzero"`
	Prepared   *Prepared        `json:",omitzero"`
	Pong       *Pong            `json:",omitzero"`
	Say        string           `json:",omitzero"` // a line for the user
	Declined   *Declined        `json:",omitzero"`
	Step       *int             `json:",omitzero"` // the job of the mix whose ranks are to be in a step of Slurm now
	Job        *results.Job     `json:",omitzero"`
	Rank       *results.Rank    `json:",omitzero"`
	Task       *results.Task    `json:",omitzero"`
	Swap       *results.Swap    `json:",omitzero"`
	Kernel     *results.Kernel  `json:",omitzero"`
	Segment    *results.Segment `json:",omitzero"`
	Event      *results.Event   `json:",omitzero"`
	Copy       *results.Copy    `json:",omitzero"`
	Controlled *Controlled      `json:",omitzero"`
	Ended      *Failure         `json:",omitzero"` // the batch has ended
	Closed     *Closed          `json:",omitzero"`
	Failed     *Failure         `json:",omitzero"` // what was asked for last cannot be
}

// Opened says what the node is.
type Opened struct {
	Mode             results.Mode
	Machine          string
	Devices, Threads int
	GPUs             []string // their names
	FreeBytes        int64    // of the device that has most
}

// Prepared says what was prepared.
type Prepared struct {
	Devices []results.Device
	Run     results.Run // as Describe completes it
}

// Pong answers a ping.
type Pong struct{ Ping, Ns int64 }

// Declined says that the node does not have a job that it was given.
type Declined struct {
	Job int // its number there
	Why string
}

// Failure is an error.
type Failure struct {
	Why     string
	Request bool // the user has to ask for something else
}

// Closed says what Close completes, and why the node's measurements do not count.
type Closed struct {
	Run      results.Run
	Problems []string
}

// Controlling is what the user asks of a device of the node.
type Controlling struct {
	ID     int // of the question
	Do     control.Verb
	Device int // its number there
}

// Controlled answers it.
type Controlled struct {
	ID    int
	State runner.DeviceState
	Why   string // it cannot be; "": it was done
}
