package schedulers

import "time"

// A Preempter is a Policy that takes back: it moves memory of running processes to the host so
// that others can go. Under a Preempter the engine accounts what is on a device, not what was
// granted: Task.Bytes may be more than the device has.
//
// The process asks before each burst of launches that has no permit (engine.Engine.Resume). The
// permit belongs to a context, which is a process on a device. It comes with each grant of a task
// of the context, and lasts until a Yield.
type Preempter interface {
	// Revoke says what to take back so that requests that cannot go now can go later, or what to move. waiting has
	// every request that waits, in the order in which the engine serves them. The engine asks when
	// a request cannot be placed, at each answer while requests wait, and at each tick that the policy wanted, whether
	// or not any waits. It drops a revocation
	//   - of a task that may not be asked for that action now (TaskView.CanAsk);
	//   - of a task on a device where room is being made for another request;
	//   - that gets neither bytes nor a permit;
	//   - for a request that does not wait.
	// waiting is valid until Revoke or NextTick returns.
	Revoke(waiting []Request, v View, now time.Duration) []Revocation
	// NextTick says when the policy wants to act although nothing else happens, or Never. Such a tick is always
	// made, with the activity pages read before. It is later than now. What was said before does not count any more.
	NextTick(waiting []Request, v View, now time.Duration) time.Duration
	// NextLook says when the policy wants the activity pages to be read again, or Never. Such a tick may be left
	// out while nothing can have changed on the pages. It is later than now, and the first of times that do not depend
	// on now.
	NextLook(waiting []Request, now time.Duration) time.Duration
}

// A Patient is a Preempter that ends a burst for a request only once both have lasted for some time.
type Patient interface {
	Preempter
	// Patience is how long a request of t may wait, and the burst of another task may last, before the policy ends that
	// burst for the request.
	Patience(t Task, of TaskView) time.Duration
}

// Action is what a process is asked to do with one of its tasks. Each action waits until the
// device has done what the process submitted, and happens between two launches.
type Action int

const (
	// Yield: the context gives up its permit, and at least Revocation.Bytes go out.
	Yield Action = iota + 1
	// Evict: at least Revocation.Bytes go out. The context keeps its permit if it has one.
	Evict
	// Advise: at least Revocation.Bytes go out and stay there, where the task's kernels reach them over the link,
	// until the task resumes, or is advised of 0 bytes. Managed memory does not go out: no more of it comes than the
	// task uses, less these bytes. Of a request, for itself: so many bytes fewer come, and nobody is asked.
	Advise
	// Move: all that the task has on its device goes to Revocation.Device, where the task is from then on.
	Move
	// Stop: the kernels that run end before they are done. They run again, from their beginning, once the context
	// resumes. Else as Yield.
	Stop
)

func (a Action) String() string {
	return [...]string{Yield: "yield", Evict: "evict", Advise: "advise", Move: "move", Stop: "stop"}[a]
}

// Actions is a set of actions.
type Actions uint8

// Movable is what a process can do whose memory can move.
const Movable = Actions(1<<Yield | 1<<Evict)

func (s Actions) Has(a Action) bool        { return s&(1<<a) != 0 }
func (s Actions) Without(a Action) Actions { return s &^ (1 << a) }

// Revocation takes something back from a task.
type Revocation struct {
	Task     TaskID
	Action   Action
	Bytes    int64         // that go out at least
	Deadline time.Duration // to finish what is under way; then the answer is Busy
	For      TaskID        // the waiting request that gets the room; Nobody: it is not for a request
	Device   int           // of a Move, in node order: where the task goes; else 0
}

// Nobody is the id of no task.
const Nobody = TaskID(1<<64 - 1)

// Ticket identifies a revocation until its answer is in.
type Ticket uint64

// Outcome is how a revocation ends (docs/reference/store.md defines each word).
type Outcome string

const (
	Done   Outcome = "done"
	Busy   Outcome = "busy"   // the deadline passed, or a stream captures; nothing has changed
	Unable Outcome = "unable" // what is asked cannot be done to this task, ever
)

// Revoked is a process's answer to a revocation.
type Revoked struct {
	Ticket  Ticket
	Outcome Outcome
	// Resident is what the task has on the device since, if the outcome is Done. It includes the bytes of every
	// grant that the process has received, whether or not they are there yet.
	Resident int64
	Fixed    int64 // of Resident: bytes that cannot move
	Moved    Moved
	// Lost is how long kernels had run that were stopped and are in no earlier answer, whatever the outcome of this one. They run
	// again from their beginning.
	Lost time.Duration
	Why  string // why the process is unable; printable
}

// Direction is where memory moves.
type Direction string

const (
	In  Direction = "in"  // onto its device
	Out Direction = "out" // to the host
)

// Moved is what moving a task's memory took.
type Moved struct {
	Bytes       int64         // that changed their place
	Drain       time.Duration // until the device had ended what was submitted
	Copy        time.Duration
	Bookkeeping time.Duration // to make, map, unmap and release memory
}

// Activity is what a process's activity page says of a task.
type Activity struct {
	Running    bool          // a call that touches the device is under way
	Busy       bool          // work that it submitted is on the device
	Last       time.Duration // when the latest such call ended
	Referenced int64         // bytes that the latest launches referenced
	Fixed      int64         // bytes on the device that cannot move
	Untouched  int64         // of Referenced: bytes that the kernels are known not to have reached
	Ended      uint64        // how much of what it submitted has ended so far; 0: it does not tell
}

// Request is a request that waits, as a Preempter sees it.
type Request struct {
	Task  Task  // one that has a device already asks for that device (Task.OnDevice)
	Bytes int64 // that have to come onto the device, without a new context
	Grows bool  // it waits to grow: it needs no permit
	// Own is the part of its memory on the device that its next kernel does not reference and
	// that it can be asked to evict now.
	Own int64
	// Asked: others are being asked to make room for it.
	Asked bool
	Since time.Duration // when it came
}

// TaskView is a task on a device under a Preempter.
type TaskView struct {
	Task       Task
	Allocated  int64 // bytes of all that it has, growth included
	Resident   int64 // of Allocated: bytes on the device
	Referenced int64 // of Allocated: bytes that its latest launches referenced
	Untouched  int64 // of Referenced: bytes that its kernels are known not to have reached
	Fixed      int64 // of Resident: bytes that cannot move
	Movable    int64 // of Resident: bytes that a revocation may get; 0 if it gave less than it was asked for
	// Running: the context has a permit, and a call of the task is under way or has yet to come since
	// it was granted its device or resumed. A launch that waits for a permit is not such a call.
	Running bool
	// Busy: work that the task submitted is on the device, whether or not a call waits for it.
	Busy   bool
	Last   time.Duration // when its latest call ended, or it was granted something
	Permit bool          // its context may launch without asking
	// PermitSince is when its context got the permit that it has, and ResidentSince when the task last got
	// something onto its device.
	PermitSince, ResidentSince time.Duration
	Waited                     time.Duration // how long the request had waited that got its context the permit
	Stopped                    bool          // a revocation took its context's permit, and it has not been granted another since
	Lost                       time.Duration // how long kernels of it had run that were stopped, all together
	Advised                    *Advice       // nil: its kernels use no memory on the host, as far as the scheduler asked for
	Can                        Actions       // that it has not answered Unable to
	Asked                      bool          // it has a ticket, or answered Busy less than the ticket's deadline ago
}

// Advice is that kernels of a task use memory on the host (Advise).
type Advice struct {
	Since time.Duration
	Limit int64 // bytes of what they use that are on the device at most
}

// Active is what the task's latest launches used of their memory, on the device or not.
func (t TaskView) Active() int64 { return t.Referenced - t.Untouched }

// Used is the part of Active that is on the device, or comes there.
func (t TaskView) Used() int64 {
	if t.Advised == nil {
		return t.Active()
	}
	return min(t.Active(), max(t.Advised.Limit, t.Resident))
}

// CanAsk reports whether the task may be asked for the action now.
func (t TaskView) CanAsk(a Action) bool { return t.Can.Has(a) && !t.Asked }
