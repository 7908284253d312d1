package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// terminated are the processes that MPS was asked to spare the neighbours of.
type terminated struct {
	mu   sync.Mutex
	pids []int
	dead []int // by then
}

func (m *terminated) terminate(pids ...int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pids = append(m.pids, pids...)
	for _, pid := range pids {
		if s, ok := statOf(pid); !ok || s.ended {
			m.dead = append(m.dead, pid)
		}
	}
	return nil
}

// Under MPS every process of a job that is stopped may be a client, with a probe
// or without.
func TestStopAsksMPSFirst(t *testing.T) {
	for _, sched := range []string{"cg", "case-alg3"} {
		var m terminated
		r := newRig(t, sched).sh(`mkfifo here; exec 3<>here; sleep 3600 & echo $$ $!;
			setsid $JOB begin:1000 print:here sleep:3600000 2>&3 & echo $!; read line <&3; echo here >up; wait`)
		r.jobs[0].Binding, r.jobs[0].Footprint = mixes.BindDeclared, mixes.Footprint{Bytes: 1000}
		r.limit, r.mps, r.terminate = ample, true, m.terminate
		r.passWhen("up", 0, 2*ample)
		jobs, _ := r.mustRun()
		var leader, child, escaped int
		if _, err := fmt.Sscan(r.output(0), &leader, &child, &escaped); err != nil {
			t.Fatal(err)
		}
		if *jobs[0].Outcome != results.Timeout || len(m.dead) > 0 {
			t.Errorf("%s: %s, asked for %v of which %v were dead", sched, *jobs[0].Outcome, m.pids, m.dead)
		}
		for _, pid := range []int{leader, child, escaped} {
			if !slices.Contains(m.pids, pid) {
				t.Errorf("%s: MPS was asked for %v, want %d among them", sched, m.pids, pid)
			}
		}
	}
}

// A process that outlives its job is ended through MPS too, where it has
// neighbours.
func TestRestIsEndedThroughMPS(t *testing.T) {
	var m terminated
	r := newRig(t, "cg").sh(`mkfifo up; exec 3<>up; setsid $JOB print:here sleep:3600000 2>&3 & echo $!;` + here(1))
	r.mps, r.terminate = true, m.terminate
	r.mustRun()
	if got := fmt.Sprintln(m.pids); got != "["+strings.TrimSpace(r.output(0))+"]\n" || len(m.dead) > 0 {
		t.Errorf("MPS was asked for %v, dead %v, want %s alive", m.pids, m.dead, r.output(0))
	}
	m = terminated{}
	r = newRig(t, "cg").sh(`setsid $JOB print:here sleep:3600000 2>up & sleep 3600`)
	r.mps, r.terminate = true, m.terminate
	r.cancelledWhen("up")
	if len(m.pids) > 0 {
		t.Errorf("MPS was asked for %v while everything is stopped", m.pids)
	}
	mustBeGone(t)
}

// A signal that ends jobs interrupts the run, even if it reaches this program later.
func TestInterruptionThatReachesJobsFirst(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGHUP, unix.SIGTERM) // jobs inherit that Guard has this process ignore them
	defer signal.Stop(caught)
	for _, script := range []string{"kill -TERM $$", "kill -HUP $$", "exit 130"} {
		r := newRig(t, "sa").sh(script)
		cause := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(context.Background())
		r.after = func(wait time.Duration) <-chan time.Time { // the jobs have ended
			if wait > heard {
				t.Errorf("%s: the run waits for an interruption for %v", script, wait)
			}
			cancel(cause)
			return nil
		}
		if jobs, _, err := r.run(ctx); !errors.Is(err, cause) {
			t.Errorf("%s: %s, error %v; want the cause", script, *jobs[0].Outcome, err)
		}
		r = newRig(t, "sa").sh(script)
		r.after = func(time.Duration) <-chan time.Time { return time.After(0) }
		if jobs, _ := r.mustRun(); *jobs[0].Outcome != results.Crash {
			t.Errorf("%s without an interruption: %s", script, *jobs[0].Outcome)
		}
	}
}

// A process that SIGKILL does not end, as one that is blocked in the driver of a lost GPU, does not keep the run from ending, and the
// other jobs have their results. Without a lost GPU the run is not a measurement, because the process may hold memory.
func TestProcessThatCannotBeKilled(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			r := newRig(t, "case-alg3").sh("exec sleep 600").job("begin:1000", "free")
			r.jobs[0].Timeout = time.Hour
			r.began = make(chan int, 2)
			pid := make(chan int, 1)
			go func() {
				x := <-r.made
				x.killed = time.Millisecond
				x.mu.Lock()
				x.lost = lost
				x.mu.Unlock()
				for job := range r.began {
					if job == 0 {
						x.mu.Lock()
						p := x.procs[0][0]
						x.mu.Unlock()
						p.mu.Lock()
						p.gone = true // so no signal reaches it
						p.mu.Unlock()
						pid <- p.pid
						x.loop.Post(2*time.Hour, runner.Tick{})
					}
				}
			}()
			jobs, rec, err := r.run(t.Context())
			close(r.began)
			undead := <-pid
			if err := unix.Kill(undead, 0); err != nil {
				t.Errorf("the process is gone: %v", err)
			}
			_ = unix.Kill(undead, unix.SIGKILL)
			_, _ = unix.Wait4(undead, nil, 0, nil)
			if want := []results.Outcome{results.Timeout, results.OK}; !slices.Equal(outcomes(jobs), want) {
				t.Errorf("outcomes %v, want %v", outcomes(jobs), want)
			}
			says := slices.ContainsFunc(rec.events, func(e results.Event) bool {
				return e.Kind == results.EventEscaped && strings.Contains(e.Detail, "SIGKILL does not end")
			})
			if (err == nil) != lost || says != lost {
				t.Errorf("error %v, events %+v", err, rec.events)
			}
		})
	}
}
