package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// newHogRig has a job that has 16 MiB that no call shows until it hears the pipe hog, and one that needs 25 MiB and begins when it
// hears the pipe next. The device has room for both, but not for what the first has taken.
func newHogRig(t *testing.T, sched string) *rig {
	t.Helper()
	lazy, fake := nativetest.Build(t, "lazy", "libcase.so", "programs"), nativetest.Build(t, "fake")
	r := newRig(t, sched)
	r.preload = filepath.Join(lazy, "libcase.so")
	r.device.CapacityBytes, r.device.ContextBytes = 40*mebibyte, 2*mebibyte
	r.uuids, r.ids = []string{"GPU-ca5e0000-0000-0000-0000-000000000000"}, [][16]byte{{0xca, 0x5e}}
	processes := filepath.Join(r.dir, "processes")
	if err := os.Mkdir(processes, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, pipe := range []string{"hog", "next"} {
		if err := unix.Mkfifo(filepath.Join(r.dir, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"LD_LIBRARY_PATH=" + filepath.Join(fake, "build/13"), "FAKE_CUDA_DEVICES=1", fmt.Sprint("FAKE_CUDA_CONTEXT=", 2*mebibyte), "FAKE_NVML_PROCESSES=" + processes}
	program := filepath.Join(lazy, "build/13/lazy_program")
	r.jobs = []mixes.Job{
		{Name: "hog", Program: program, Args: []string{"hogs", "hog"}, Env: env},
		{Name: "next", Program: "/bin/sh", Args: []string{"-c", "read line <next; exec " + program + " swapped 10"}, Env: env},
	}
	r.users = func(device int) ([]nvml.Process, time.Duration, error) { return processesIn(t, processes, device) }
	return r
}

// processesIn is what the fake NVML says of processes that keep files in a directory.
func processesIn(t *testing.T, dir string, device int) (found []nvml.Process, took time.Duration, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		pid, _ := strconv.Atoi(e.Name())
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil || unix.Kill(pid, 0) != nil {
			continue
		}
		fields := strings.Fields(string(text))
		if used, err := strconv.ParseUint(fields[2*device+1], 10, 64); err == nil && used > 0 {
			found = append(found, nvml.Process{PID: pid, UsedBytes: &used})
		}
	}
	return found, time.Microsecond, nil
}

// tellPipe writes to a pipe that somebody reads.
func (r *rig) tellPipe(pipe string) {
	go func() {
		if err := os.WriteFile(filepath.Join(r.dir, pipe), []byte("\n"), 0); err != nil {
			r.t.Error(err)
		}
	}()
}

// A program whose memory no call shows is named, and what it has is charged, so that the next job waits for it instead of failing.
func TestAHogIsSeen(t *testing.T) {
	for _, sched := range []string{"case-alg3", "schedgpu"} {
		r := newHogRig(t, sched)
		all, looks := r.users, 0
		var seen atomic.Bool
		r.users = func(device int) ([]nvml.Process, time.Duration, error) {
			if looks++; looks%2 == 0 && !seen.Load() { // such a look shows nothing, also not that the memory is gone
				return nil, 0, errors.New("NVML is busy")
			}
			return all(device)
		}
		r.observe = func(s runner.Step) {
			for _, c := range s.Commands {
				if e, ok := c.(runner.RecordEvent); ok && e.Event.Kind == results.EventUnaccounted && *e.Event.Job == 0 {
					seen.Store(true)
					r.tellPipe("next")
				}
			}
			if begin, ok := s.Event.(runner.TaskBegin); ok && begin.Task.Job == 1 {
				r.tellPipe("hog")
			}
		}
		jobs, rec := r.mustRun()
		if !slices.Equal(outcomes(jobs), []results.Outcome{results.OK, results.OK}) {
			t.Fatalf("%s: %s %s, %s %s", sched, *jobs[0].Outcome, jobs[0].Detail, *jobs[1].Outcome, jobs[1].Detail)
		}
		if rec.tasks[[2]int{1, 0}].GrantS == nil || *rec.tasks[[2]int{1, 0}].GrantS < *rec.tasks[[2]int{0, 0}].ReleaseS {
			t.Errorf("%s: the next job did not wait: %+v, %+v", sched, rec.tasks[[2]int{0, 0}], rec.tasks[[2]int{1, 0}])
		}
		// A part of the heap, which the fakes do not have, and the context's reserve are not used.
		for i, want := range []int64{16*mebibyte - jobHeap, 0} {
			if got := jobs[i].UnaccountedBytes; got == nil || *got < want || *got > want+2*mebibyte {
				t.Errorf("%s: job %d: %v bytes unaccounted, want about %d", sched, i, got, want)
			}
		}
	}
}

// A job whose granted memory is not on the device, because another has memory that no call shows, waits until that job has ended. So does a
// job for whose launch the device has no memory.
func TestGrantedMemoryIsWaitedFor(t *testing.T) {
	for _, fails := range []string{"cudaMalloc:2=2", "__cudaLaunchKernel:2=2"} {
		t.Run(fails, func(t *testing.T) { waitsForTheHog(t, fails) })
	}
}

func waitsForTheHog(t *testing.T, fails string) {
	t.Helper()
	r := newHogRig(t, "case-alg3")
	r.device.CapacityBytes = 48 * mebibyte // 32 MiB of within, and 12 of hog before it takes more
	program, env := r.jobs[0].Program, r.jobs[0].Env
	r.jobs = []mixes.Job{
		{Name: "within", Program: program, Args: []string{"within", "within"}, Env: append(env, "FAKE_CUDA_FAIL="+fails, "CASE_ROOM_GRACE_MS=200")},
		{Name: "hog", Program: "/bin/sh", Args: []string{"-c", "read line <next; exec " + program + " hogs hog"}, Env: env},
	}
	if err := unix.Mkfifo(filepath.Join(r.dir, "within"), 0o600); err != nil {
		t.Fatal(err)
	}
	growths := 0
	r.observe = func(s runner.Step) {
		for _, c := range s.Commands {
			if e, ok := c.(runner.RecordEvent); ok && e.Event.Kind == results.EventUnaccounted && *e.Event.Job == 1 {
				r.tellPipe("within")
			}
		}
		if _, ok := s.Event.(runner.TaskGrow); ok {
			growths++
			r.tellPipe(map[int]string{1: "next", 2: "hog"}[growths])
		}
	}
	jobs, rec := r.mustRun()
	if !slices.Equal(outcomes(jobs), []results.Outcome{results.OK, results.OK}) {
		t.Fatalf("%s %s, %s %s", *jobs[0].Outcome, jobs[0].Detail, *jobs[1].Outcome, jobs[1].Detail)
	}
	if growths != 2 || *rec.tasks[[2]int{0, 0}].ReleaseS < *rec.tasks[[2]int{1, 0}].ReleaseS {
		t.Errorf("%d growths; the job did not wait: %+v, %+v", growths, rec.tasks[[2]int{0, 0}], rec.tasks[[2]int{1, 0}])
	}
}

// The looks take no more than a part of a core.
func TestLooksFollowTheirCost(t *testing.T) {
	for _, c := range []struct {
		took    time.Duration
		devices int
		want    time.Duration
	}{{0, 1, lookEvery}, {100 * time.Microsecond, 1, lookEvery}, {500 * time.Microsecond, 1, 263 * time.Millisecond}, {2 * time.Millisecond, 4, 263 * time.Millisecond}} {
		l := &looks{}
		l.cost(40*time.Millisecond, c.devices) // the driver's first
		if got := l.pause(true); got != lookEvery {
			t.Errorf("after the first look: every %v", got)
		}
		l.cost(c.took, c.devices)
		if got := l.pause(true).Round(time.Millisecond); got != c.want {
			t.Errorf("%v for %d devices: every %v, want %v", c.took, c.devices, got, c.want)
		}
		if got := l.pause(false); got != usersPeriod {
			t.Errorf("without a comparison: every %v", got)
		}
	}
	l := &looks{took: 400 * time.Microsecond, warm: true}
	l.cost(40*time.Millisecond, 1)
	if got := l.pause(true).Round(time.Millisecond); got != 237*time.Millisecond {
		t.Errorf("after one slow look: every %v", got)
	}
	for range 100 {
		l.cost(100*time.Microsecond, 1)
	}
	if got := l.pause(true); got != lookEvery {
		t.Errorf("after a slow look: every %v", got)
	}
}

// After a process has left a device two more looks are told, because the engine needs two to end a context that only looks have shown.
func TestLooksThatAreTold(t *testing.T) {
	l := &looks{told: make([]int, 2)}
	var told []bool
	for _, shown := range []bool{false, true, true, false, false, false, true, false, true} {
		told = append(told, l.tells(1, shown))
	}
	if want := []bool{false, true, true, true, true, false, true, true, true}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// In another PID namespace NVML's numbers are of other processes, so that it shows only some of those that have memory.
func TestNumbersOfAnotherNamespace(t *testing.T) {
	set := func(pids ...int) map[int]bool {
		out := map[int]bool{}
		for _, pid := range pids {
			out[pid] = true
		}
		return out
	}
	for _, c := range []struct {
		before, now, shown map[int]bool
		want               bool
	}{
		{set(), set(), set(1, 2), false},
		{set(), set(1), set(1), false}, // it may have got its memory after the look
		{set(1), set(1), set(1, 2), true},
		{set(1, 3), set(1, 3), set(1, 2), false},
		{set(1, 3), set(1), set(1), true},
	} {
		l := &looks{users: users{had: c.before}, owners: map[int]owner{}}
		for pid := range c.shown {
			l.owners[pid] = owner{}
		}
		if got := l.showsAll(c.now); got != c.want {
			t.Errorf("%v and then %v have memory, shown are %v: %v", c.before, c.now, c.shown, got)
		}
	}
}

// Where NVML knows no memory of processes, or does not tell at all, the run says so once, and nothing is charged.
func TestLooksWithoutMemory(t *testing.T) {
	for why, change := range map[string]func([]nvml.Process) ([]nvml.Process, error){
		"memory that no call shows cannot be seen: NVML does not know": func(found []nvml.Process) ([]nvml.Process, error) {
			for i := range found {
				found[i].UsedBytes = nil
			}
			return found, nil
		},
		"and memory that no call shows, could not be seen: no permission": func([]nvml.Process) ([]nvml.Process, error) {
			return nil, errors.New("no permission")
		},
	} {
		r := newHogRig(t, "case-alg3")
		all, looks := r.users, 0
		r.users = func(device int) ([]nvml.Process, time.Duration, error) {
			found, took, _ := all(device)
			if len(found) > 0 {
				if looks++; looks == 2 {
					r.tellPipe("next")
				}
			}
			found, err := change(found)
			return found, took, err
		}
		r.observe = func(s runner.Step) {
			if ended, ok := s.Event.(runner.JobEnded); ok && ended.Job == 1 {
				r.tellPipe("hog")
			}
		}
		jobs, rec := r.mustRun()
		n := 0
		for _, e := range rec.events {
			if e.Kind == results.EventSampler && strings.Contains(e.Detail, why) {
				n++
			}
		}
		if n != 1 || jobs[0].UnaccountedBytes != nil {
			t.Errorf("%q was said %d times, %v bytes: %+v", why, n, jobs[0].UnaccountedBytes, rec.events)
		}
	}
}

// A program outside the run that begins to use a device while the run runs makes the run doubtful. One that was there before was said before.
func TestStrangers(t *testing.T) {
	r := newRig(t, "case-alg3")
	r.jobs = []mixes.Job{{Name: "waits", Program: "/bin/sh", Args: []string{"-c", "read line <go"}}}
	if err := unix.Mkfifo(filepath.Join(r.dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.observe = func(s runner.Step) {
		if _, ok := s.Event.(runner.JobStarted); !ok {
			return
		}
		go func() {
			const before, later = -2 * time.Second, -time.Second
			l := &looks{began: before, ours: true, users: users{seen: map[[2]int]*sight{
				{0, 1}: {first: before}, {1, 1}: {first: later}, {1, os.Getpid()}: {first: later}, {1, 1 << 30}: {first: later}}}}
			for range 2 {
				for at := range l.users.seen {
					r.x.sees(l, at[1], at[0], 0)
				}
			}
			r.tellPipe("go")
		}()
	}
	_, rec := r.mustRun()
	if len(rec.events) != 2 || rec.events[0].Kind != results.EventDoubt || *rec.events[0].Device != 1 || !strings.HasPrefix(rec.events[0].Detail, "process 1 (") || rec.events[1].Kind != results.EventUnscheduled {
		t.Errorf("%+v", rec.events)
	}
}
