package live

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
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
		r := newRig(t, sched).sh(`sleep 60 & echo $$ $!; setsid $JOB begin:1000 sleep:60000 & echo $!; wait`)
		r.jobs[0].Binding, r.jobs[0].Footprint = mixes.BindDeclared, mixes.Footprint{Bytes: 1000}
		r.limit, r.mps, r.terminate = time.Second, true, m.terminate
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
	r := newRig(t, "cg").sh(`mkfifo up; exec 3<>up; setsid $JOB print:here sleep:60000 2>&3 & echo $!;` + here(1))
	r.mps, r.terminate = true, m.terminate
	r.mustRun()
	if got := fmt.Sprintln(m.pids); got != "["+strings.TrimSpace(r.output(0))+"]\n" || len(m.dead) > 0 {
		t.Errorf("MPS was asked for %v, dead %v, want %s alive", m.pids, m.dead, r.output(0))
	}
	m = terminated{}
	r = newRig(t, "cg").sh(`setsid $JOB print:here sleep:60000 2>up & sleep 60`)
	r.mps, r.terminate = true, m.terminate
	r.cancelledWhen("up")
	if len(m.pids) > 0 {
		t.Errorf("MPS was asked for %v while everything is stopped", m.pids)
	}
	mustBeGone(t)
}
