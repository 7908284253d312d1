package results

import "fmt"

// EventKind says what happened. Users query these words: docs/reference/store.md documents each.
type EventKind string

const (
	// A job's probe reported that an allocation failed. The batch records it.
	EventOOM EventKind = "oom"
	// A job's probe reported another CUDA error that stays. The batch records it.
	EventFault EventKind = "fault"
	// A task, or its growth, was refused. The batch records it.
	EventRefused EventKind = "refused"
	// A process has more of a device than it was charged. The batch records it.
	EventUnaccounted EventKind = "unaccounted"
	// A job ran longer than its limit and was stopped. The batch records it.
	EventTimeout EventKind = "timeout"
	// A job wrote more output than it may and was stopped. The batch records it.
	EventOutput EventKind = "output-limit"
	// A job under a task-bound scheduler ended ok without asking for a device. The batch records it.
	EventUnscheduled EventKind = "unscheduled"
	// Calls of a process were refused, because it could not reach the scheduler. The batch records it.
	EventNotScheduled EventKind = "not-scheduled"
	// A call of a job failed in a way that may explain how it ends. The batch records it. Or a program that decides gave refused
	// jobs no device. The harness records it.
	EventHint EventKind = "hint"
	// A job removed, replaced or locked a file of the run. The live executor records it.
	EventFiles EventKind = "files"
	// Too little is known of the jobs for a scheduler that plans, so they are not planned. The batch
	// records it.
	EventUnplanned EventKind = "unplanned"
	// The scheduler gives jobs host priorities, and this user lacks the right. The batch records it.
	EventNiceLeft EventKind = "nice-left"
	// A job under a task-bound scheduler is bound as a whole, because its CUDA calls do not pass
	// through libcase. The command records it before the batch starts.
	EventDeclared EventKind = "declared"
	// A process of a job asked for its device before its first launch, because the node has instances of MIG. The batch records it.
	EventEarly EventKind = "early"
	// A job with pin: true is bound as a whole, so that its pin has no effect. The command
	// records it before the batch starts.
	EventPinIgnored EventKind = "pin_ignored"
	// A job asks for a part of a device's time, and the scheduler knows no such parts. The batch records it.
	EventShareIgnored EventKind = "share_ignored"
	// Jobs were given to the batch while it ran; the job is the first of them. The batch records it.
	EventGiven EventKind = "given"
	// A job's mix states no memory, so that the job asks first for what it reached in earlier runs. The harness records it.
	EventReached EventKind = "reached"
	// A job was stopped and started again to end a deadlock. The batch records it.
	EventRestarted EventKind = "restarted"
	// Page faults brought managed memory of a process to a simulated device. The simulated node records it when the process ends.
	EventPageFaults EventKind = "page-faults"
	// How much managed memory a device had at most at one time. The batch records it when it ends.
	EventManaged EventKind = "managed"
	// A process did not answer in time when it was asked for memory. The batch records it.
	EventUnanswered EventKind = "unanswered"
	// The run was stopped; the detail says why. The batch records it.
	EventCancelled EventKind = "cancelled"
	// A process broke the protocol of its probe, and its job was stopped. The batch records it.
	EventProtocol EventKind = "protocol"
	// A process closed its connection to the scheduler and lived on, and kept its charge. The
	// live executor records it.
	EventSocketClosed EventKind = "socket-closed"
	// Processes left their job's group, outlived the job and were killed. The live executor
	// records it.
	EventEscaped EventKind = "escaped"
	// The process that kills the jobs if the harness is killed was itself killed. The live
	// executor records it.
	EventGuard EventKind = "guard"
	// An error of the harness or of the node makes the run invalid as a measurement. The command
	// records it when the run ends.
	EventFailed EventKind = "failed"
	// The harness ended without finishing the run. A later command that finds the run records it.
	EventKilled EventKind = "killed"
	// For some time no job asked for, got or gave back anything while some waited. The batch
	// records it.
	EventNoProgress EventKind = "no-progress"
	// A request waits for memory that another job's work keeps and that the scheduler cannot take. The batch records it once.
	EventStarved EventKind = "starved"
	// Ranks of jobs wait for others, and nothing can happen any more. The batch records it on a simulated node.
	EventStuck EventKind = "stuck"
	// The MPS server was seen broken. The batch records it.
	EventMPSBroken EventKind = "mps-broken"
	// The MPS server serves clients again. The batch records it.
	EventMPSRecovered EventKind = "mps-recovered"
	// A job was ended that had lost its contexts with the MPS server, and that the server waited for. The batch records it.
	EventMPSEnded EventKind = "mps-ended"
	// The MPS server will not recover. The batch records it.
	EventMPSNotRecovered EventKind = "mps-not-recovered"
	// One job broke the MPS server; the detail has the evidence. The batch records it when the
	// run ends.
	EventCulprit EventKind = "culprit"
	// One of several jobs broke the MPS server. The batch records it when the run ends.
	EventSuspects EventKind = "suspects"
	// Running the jobs again alone settled whether a job caused a fault. Isolate returns it.
	EventVerdict EventKind = "verdict"
	// Running the jobs again alone did not settle whether a job caused a fault. Isolate returns it.
	EventNoVerdict EventKind = "no-verdict"
	// Some samples were lost, or the sampler took much of a core. The live session records it.
	EventSampler EventKind = "sampler"
	// A simulated device has failed, and a job repeats its work from its latest snapshot or its start. The simulated executor
	// records it.
	EventRepeated EventKind = "repeated"
	// A device has fallen off the bus, and gets no job any more. The batch records it.
	EventLost EventKind = "lost"
	// A node of a cluster is lost, with the jobs that had ranks there, and comes back. The cluster records both.
	EventNodeLost EventKind = "node-lost"
	EventNodeBack EventKind = "node-back"
	// How well the times of a node are known, whose clock is another one. The head of the cluster records it for each node.
	EventClock EventKind = "clock"
	// A device is taken out of the run, and gets no job until it is opened again. The batch records both.
	EventDeviceClosed EventKind = "device-closed"
	EventDeviceOpened EventKind = "device-opened"
	// No task is on a device any more that is taken out. The batch records it once, each time that the device is taken out.
	EventDeviceEmpty EventKind = "device-empty"
	// A job may use a number of devices from now on, or any number again. The batch records it.
	EventLimited EventKind = "limited"
	// A job has left a crowded node of a cluster before it started there. The cluster records it.
	EventOffloaded EventKind = "offloaded"
	// Something else than the run's jobs may have made its figures (Run.Doubts). The harness records it.
	EventDoubt EventKind = "doubt"
	// A device's energy counter fell, so that its energy is unknown. The harness records it when
	// the run ends.
	EventEnergy EventKind = "energy"
	// Records of the kernel tracer are missing. The live executor records it.
	EventTrace EventKind = "trace"
)

// Event is something that happened in a run, in the order in which it became known.
type Event struct {
	AtS    float64
	Kind   EventKind
	Job    *int // the job concerned; nil: none in particular
	Device *int // the device concerned; nil: none in particular
	Detail string
}

// PageFaults returns how many page faults an event of that kind counts; false: it is of another kind.
func PageFaults(e Event) (n int64, ok bool) {
	if e.Kind != EventPageFaults {
		return 0, false
	}
	_, err := fmt.Sscanf(e.Detail, "%d page faults", &n)
	return n, err == nil
}
