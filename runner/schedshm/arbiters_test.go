package schedshm_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/runner/probe/probetest"
	"github.com/caserun/caserun/runner/schedshm"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// node describes the tests' only device, number 0.
type node struct{ capacity, context int64 }

// arbiter is one of schedGPU's two architectures, which decides which client gets which memory.
type arbiter interface {
	// env returns the environment of a client with this priority.
	env(priority int) []string
	// used returns the memory that clients hold, contexts included; waiting returns the number
	// of requests without an answer.
	used() int64
	waiting() int
	// settled is called when every client has ended and has been collected.
	settled()
}

var architectures = map[string]func(testing.TB, node, string) arbiter{"server": newServer, "shared": newShared}

// shared is the state file, in which clients decide for themselves.
type shared struct {
	tb   testing.TB
	path string
}

func newShared(tb testing.TB, n node, policy string) arbiter {
	path := filepath.Join(memory(tb), "state")
	err := schedshm.Create(path, schedshm.Config{Policy: policy, Devices: []schedshm.Device{{
		UUID: uuid, CapacityBytes: n.capacity, ContextBytes: n.context}}})
	if err != nil {
		tb.Fatal(err)
	}
	return &shared{tb, path}
}

var uuid = [16]byte{0xab}

// memory is a directory in memory, where state files belong.
func memory(tb testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "schedshm-test-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

func (s *shared) env(priority int) []string {
	return []string{"CASE_SHARED=" + s.path, "CASE_REQUIRED=1", "SCHEDGPU_QUEUE=", fmt.Sprintf("CASE_PRIORITY=%d", priority)}
}

func (s *shared) read() schedshm.State {
	s.tb.Helper()
	state, err := schedshm.Read(s.path)
	if err != nil {
		s.tb.Fatal(err)
	}
	return state
}

func (s *shared) used() int64 { return s.read().Used(0) }

func (s *shared) waiting() int {
	n := 0
	for _, r := range s.read().Requests {
		if r.Answer == 0 {
			n++
		}
	}
	return n
}

// settled starts a last client. When a client ends, it frees the memory of clients that died before
// it, so that only its own holding remains.
func (s *shared) settled() {
	d := start(s.tb, s.env(0)...)
	d.Say("begin last 1")
	d.Hear("last 0 0 171")
	d.Finish()
	if state := s.read(); len(state.Holdings) != 1 || int(state.Holdings[0].Process.PID) != d.Cmd.Process.Pid || len(state.Requests) != 0 {
		s.tb.Errorf("clients that have ended have left %+v and %+v", state.Holdings, state.Requests)
	}
}

// server is the real server of a run with the real engine.
type server struct {
	tb      testing.TB
	server  *probe.Server
	mu      sync.Mutex // guards the fields below
	engine  *engine.Engine
	started time.Time
	tasks   map[schedulers.TaskID]schedulers.Process // tasks that wait or have a device
	pending int
	expiry  *time.Timer
}

func newServer(tb testing.TB, n node, policy string) arbiter {
	sched, err := policies.Parse("schedgpu:queue="+policy, 1)
	if err != nil {
		tb.Fatal(err)
	}
	engine, err := engine.New([]schedulers.Device{{Name: "test", CapacityBytes: n.capacity, ContextBytes: n.context,
		SMs: 1, WarpsPerSM: 64, BlocksPerSM: 32}}, sched.Policy, sched.Config)
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{tb: tb, engine: engine, started: time.Now(), tasks: map[schedulers.TaskID]schedulers.Process{}}
	s.expiry = time.AfterFunc(time.Hour, s.expire)
	s.server = listen(tb, probetest.NewRecorder(s.post))
	tb.Cleanup(func() {
		s.expiry.Stop()
		if err := s.server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// env uses a job's number as its priority.
func (s *server) env(priority int) []string {
	return []string{"CASE_SOCKET=" + s.server.Path(), "CASE_TOKEN=" + s.server.Register(priority), "CASE_REQUIRED=1"}
}

func (s *server) used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.View().Device(0).UsedBytes()
}

func (s *server) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

func (s *server) settled() {
	s.server.Settle()
	if used, waiting := s.used(), s.waiting(); used != 0 || waiting != 0 {
		s.tb.Errorf("clients that have ended have left %d bytes and %d requests", used, waiting)
	}
}

func (s *server) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carryOut(s.engine.Expire(time.Since(s.started)), nil)
}

func (s *server) carryOut(decisions []schedulers.Decision, err error) {
	if err != nil {
		s.tb.Error(err)
	}
	for _, d := range decisions {
		s.pending--
		if d.Reason == nil {
			_ = s.server.Grant(d.Task.ID, d.Device, uuid) // its client may have ended
			continue
		}
		_ = s.server.Refuse(d.Task.ID, *d.Reason) // likewise
		if d.Kind == schedulers.Refused {
			delete(s.tasks, d.Task.ID)
		}
	}
	if next := s.engine.NextExpiry(); next != schedulers.Never {
		s.expiry.Reset(max(0, next-time.Since(s.started)))
	}
}

// post takes what a process says. A process is a job, and its job's number is its priority.
func (s *server) post(e probetest.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.started)
	job := func(p schedulers.Process) schedulers.JobID { return schedulers.JobID(p.Serial) }
	switch p := e.Posted.(type) {
	case runner.TaskBegin:
		s.pending++
		s.tasks[e.ID] = e.Process
		t := p.Task
		t.Job, t.Serial, t.Priority, t.Need, t.Can = job(e.Process), 0, int(e.Process.Job), nil, 0
		s.carryOut(s.engine.Submit(t, now))
	case runner.TaskGrow:
		s.pending++
		s.carryOut(s.engine.Grow(e.ID, p.Bytes, p.Wait, now))
	case runner.TaskShrink:
		s.carryOut(s.engine.Shrink(e.ID, p.Bytes))
	case runner.TaskFree:
		if _, ok := s.tasks[e.ID]; ok { // else it was refused meanwhile
			delete(s.tasks, e.ID)
			s.carryOut(s.engine.Release(e.ID))
		}
	case runner.ProcessGone: // releases what a dead process held, and drops its requests
		maps.DeleteFunc(s.tasks, func(_ schedulers.TaskID, of schedulers.Process) bool { return of == p.Process })
		s.carryOut(s.engine.JobExit(job(p.Process)), nil)
		s.pending = s.engine.Waiting()
	case runner.TaskDecided, runner.OutOfMemory, runner.Fault, runner.Limited, runner.Misbehaved:
		s.tb.Errorf("unexpected %+v", e)
	}
	return nil
}
