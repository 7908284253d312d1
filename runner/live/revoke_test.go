package live

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/swaparea"
	"github.com/caserun/caserun/schedulers"
)

const mebibyte = 1 << 20

// newSwapArea makes a swap area of so many pieces of the fakes' host memory.
func newSwapArea(t *testing.T, pieces int64) *swaparea.Area {
	t.Helper()
	return newSwapAreaOf(t, pieces, swaparea.PieceBytes)
}

func newSwapAreaOf(t *testing.T, pieces, bytes int64) *swaparea.Area {
	t.Helper()
	ballast := nativetest.Build(t, "ballast", "swaparea", "build/libcuda.so.1")
	// The program finds the driver by a script, because the test's own environment is of all tests.
	program := filepath.Join(t.TempDir(), "start")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nLD_LIBRARY_PATH="+ballast+"/build exec "+ballast+"/swaparea \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	a, err := swaparea.Start(context.Background(), program, pieces*bytes, bytes, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// The jobs of newSwapRig, and its devices. All is a quarter of what it could be, because page faults take most of
// these tests' time.
const (
	smallPiece   = swaparea.PieceBytes / 4
	smallContext = 2 * mebibyte
	jobHeap      = 8 * mebibyte // CUDA's
	jobMoves     = (10 + 6) * mebibyte
)

// newSwapRig has jobs of 24 MiB each that need their memory again and again. A device has room for one
// of them, but not for two.
func newSwapRig(t *testing.T, sched string, jobs int, env ...string) *rig {
	t.Helper()
	lazy, fake := nativetest.Build(t, "lazy", "libcase.so", "programs"), nativetest.Build(t, "fake")
	r := newRig(t, sched)
	r.swap = newSwapAreaOf(t, 64, smallPiece)
	r.preload = filepath.Join(lazy, "libcase.so")
	r.device.CapacityBytes, r.device.ContextBytes = 2*(jobMoves+jobHeap+smallContext)-2*mebibyte, smallContext
	r.uuids, r.ids = nil, nil
	for i := range byte(2) {
		r.uuids = append(r.uuids, fmt.Sprintf("GPU-ca5e0000-0000-0000-0000-0000000000%02x", i))
		r.ids = append(r.ids, [16]byte{0xca, 0x5e, 15: i})
	}
	for range jobs {
		r.jobs = append(r.jobs, mixes.Job{Name: "swapped", Program: filepath.Join(lazy, "build/13/lazy_program"), Args: []string{"swapped", "10"},
			Env: append([]string{"LD_LIBRARY_PATH=" + filepath.Join(fake, "build/13"), "FAKE_CUDA_DEVICES=2", fmt.Sprint("FAKE_CUDA_CONTEXT=", smallContext),
				"FAKE_CUDA_KERNEL_US=2000"}, env...)})
	}
	return r
}

// meet has all jobs of a rig hold memory at one time, however late each of them starts.
func (r *rig) meet() {
	room := r.t.TempDir()
	for i := range r.jobs {
		r.jobs[i].Env = append(r.jobs[i].Env, fmt.Sprintf("SWAPPED_MEET=%s,%d", room, len(r.jobs)))
	}
}

// Jobs whose memory does not fit together run together, and each computes what it computes alone.
func TestMemoryMoves(t *testing.T) {
	for _, sched := range []string{"vgpu:n=4,victims=0", "demand", "vgpu:n=2,victims=0,bursts=on", "demand:bursts=on", "madvise"} {
		t.Run(sched, func(t *testing.T) {
			r := newSwapRig(t, sched, 4)
			r.meet()
			alone := newSwapRig(t, "sa", 1)
			alone.mustRun()
			want := computed(alone, 0)
			jobs, rec := r.mustRun()
			for i, j := range jobs {
				if *j.Outcome != results.OK || computed(r, i) != want {
					t.Errorf("job %d: %s: %s\n%s\nwant\n%s", i, *j.Outcome, j.Detail, r.output(i), want)
				}
			}
			moved := map[schedulers.Direction]int64{}
			for _, s := range rec.swaps {
				moved[s.Direction] += s.Bytes
				if s.Bytes > 0 && s.CopyS <= 0 {
					t.Errorf("no time to copy: %+v", s)
				}
			}
			if moved[schedulers.Out] == 0 || moved[schedulers.In] == 0 {
				t.Errorf("moved %v bytes; want some out and some in", moved)
			}
			if bytes := ownMoves(jobs, rec.swaps); bytes > 2*jobMoves {
				t.Errorf("the last job, alone on the node, moved %d bytes for itself", bytes)
			}
			r.wantWholeArea()
		})
	}
}

// ownMoves is how many bytes the last job moved out for itself after all others had ended.
func ownMoves(jobs []results.Job, swaps []results.Swap) (bytes int64) {
	ends := slices.SortedFunc(slices.Values(jobs), func(a, b results.Job) int { return cmp.Compare(*a.EndS, *b.EndS) })
	last, alone := ends[len(ends)-1], *ends[len(ends)-2].EndS
	for _, s := range swaps {
		if s.Job == last.Index && s.ForJob != nil && *s.ForJob == s.Job && s.StartS > alone {
			bytes += s.Bytes
		}
	}
	return bytes
}

// A kernel without end is stopped for a job that has waited too long, and begins again.
func TestAKernelWithoutEndIsStopped(t *testing.T) {
	r := newSwapRig(t, "mfit:wait=20ms", 2, "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_KERNEL_US=500", fmt.Sprint("STOPS_MIB=", jobMoves/mebibyte))
	r.uuids, r.ids, r.limit = r.uuids[:1], r.ids[:1], ample
	file := filepath.Join(t.TempDir(), "ended")
	r.jobs[0].Args, r.jobs[1].Args = []string{"stops", file}, []string{"stops", "rounds" + file}
	jobs, rec := r.mustRun()
	for i, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("job %d: %s: %s\n%s", i, *j.Outcome, j.Detail, r.output(i))
		}
	}
	if out := r.output(0); !strings.Contains(out, "begun 2\n") || !strings.Contains(out, "for ever: right") {
		t.Errorf("%s\n%+v", out, rec.swaps)
	}
	if out := r.output(1); strings.Count(out, "rounds: right") != 3 || strings.Count(out, "done 1\n") != 3 {
		t.Errorf("%s", out)
	}
	r.wantWholeArea()
}

// A job with gaps between its bursts keeps its memory beside one that waits: no more moves than the job ends.
func TestMemoryStaysThroughGaps(t *testing.T) {
	r := newSwapRig(t, "mfit:wait=1h,linger=1h", 2, "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_KERNEL_US=100", "SWAPPED_GAP_US=5000")
	r.uuids, r.ids, r.limit = r.uuids[:1], r.ids[:1], ample
	jobs, rec := r.mustRun()
	for i, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("job %d: %s: %s\n%s", i, *j.Outcome, j.Detail, r.output(i))
		}
	}
	outs := slices.DeleteFunc(slices.Clone(rec.swaps), func(s results.Swap) bool { return s.Direction != schedulers.Out || s.Bytes == 0 })
	if len(outs) > 2 {
		t.Errorf("memory moved in gaps: %+v", outs)
	}
	r.wantWholeArea()
}

// A job whose kernel runs is not asked for its memory, although none of its calls is under way, and is asked once the
// kernel is over. On a machine with much to do the answer may be busy even then.
func TestNobodyIsAskedWhileAKernelRuns(t *testing.T) {
	const kernel = 300 * time.Millisecond
	for _, sched := range []string{"vgpu:n=4,victims=0", "demand", "demand:bursts=on"} {
		t.Run(sched, func(t *testing.T) {
			r := newSwapRig(t, sched, 2, "FAKE_CUDA_DEVICES=1", fmt.Sprintf("FAKE_CUDA_KERNEL_US=%d", kernel.Microseconds()))
			r.uuids, r.ids, r.limit = r.uuids[:1], r.ids[:1], ample
			room := t.TempDir()
			for i := range r.jobs {
				r.jobs[i].Args = []string{"leaves_work", room}
			}
			jobs, rec := r.mustRun()
			for i, j := range jobs {
				if *j.Outcome != results.OK {
					t.Errorf("job %d: %s: %s\n%s", i, *j.Outcome, j.Detail, r.output(i))
				}
			}
			moved := false
			for _, s := range rec.swaps {
				moved = moved || s.Direction == schedulers.Out && s.Bytes > 0
				granted := *rec.tasks[[2]int{s.Job, s.Task}].GrantS // its kernel began later
				if s.Action != "" && s.StartS < granted+kernel.Seconds() || s.Outcome == schedulers.Unable {
					t.Errorf("granted at %v s, asked while the kernel ran: %+v", granted, s)
				}
			}
			if !moved {
				t.Errorf("nothing moved: %+v", rec.swaps)
			}
		})
	}
}

// A job that is stopped when its memory is asked for keeps nobody waiting for ever: others give what they can. Once it
// continues, its late answer counts, and all jobs compute what they compute alone.
func TestNobodyWaitsForAStoppedProcess(t *testing.T) {
	alone := newSwapRig(t, "sa", 1)
	alone.mustRun()
	want := computed(alone, 0)
	r := newSwapRig(t, "demand", 4)
	r.meet()
	r.grace, r.limit = 50*time.Millisecond, ample
	var victim *process
	var asked schedulers.Ticket
	var answered schedulers.Outcome
	r.observe = func(s runner.Step) {
		if e, ok := s.Event.(runner.TaskRevoked); ok && e.Answer.Ticket == asked {
			answered = e.Answer.Outcome
		}
		for _, c := range s.Commands {
			switch c := c.(type) {
			case runner.Revoke:
				if victim == nil {
					at := slices.IndexFunc(r.x.running(), func(p runs) bool { return p.job == int(c.Decision.Task.Job) })
					victim, asked = r.x.running()[at].process, c.Decision.Ticket
					victim.signal(unix.SIGSTOP) // before it is told
				}
			case runner.RecordEvent:
				if c.Event.Kind == results.EventUnanswered {
					victim.signal(unix.SIGCONT)
					if !regexp.MustCompile(`has not answered for \d+\.\d s`).MatchString(c.Event.Detail) {
						t.Errorf("event %+v", c.Event)
					}
				}
			}
		}
	}
	jobs, rec := r.mustRun()
	for i, j := range jobs {
		if *j.Outcome != results.OK || computed(r, i) != want {
			t.Errorf("job %d: %s: %s\n%s\nwant\n%s", i, *j.Outcome, j.Detail, r.output(i), want)
		}
	}
	if rec.count(results.EventUnanswered) == 0 || answered == "" {
		t.Errorf("the late answer: %q; events %+v", answered, rec.events)
	}
	r.wantWholeArea()
}

// There is too little host memory for all jobs, and some may have been offered what others need. All compute what they compute alone.
func TestMemoryMovesWithLittleHostMemory(t *testing.T) {
	alone := newSwapRig(t, "sa", 1)
	alone.mustRun()
	want := computed(alone, 0)
	for _, pieces := range []int64{1, 3, 5} {
		t.Run(fmt.Sprint(pieces), func(t *testing.T) {
			r := newSwapRig(t, "vgpu:n=4,victims=0", 4)
			r.swap = newSwapAreaOf(t, pieces, smallPiece)
			jobs, _ := r.mustRun()
			for i, j := range jobs {
				if *j.Outcome != results.OK || computed(r, i) != want {
					t.Errorf("job %d: %s: %s\n%s\nwant\n%s", i, *j.Outcome, j.Detail, r.output(i), want)
				}
			}
			r.wantWholeArea()
		})
	}
}

// A job whose memory is to be taken, because another waits, has host memory before.
func TestHostMemoryIsThereBeforeItIsNeeded(t *testing.T) {
	r := newSwapRig(t, "vgpu:n=4,victims=0", 4)
	r.meet()
	traces := t.TempDir()
	trace := func(job int) string { return filepath.Join(traces, fmt.Sprint(job)) }
	for i := range r.jobs {
		r.jobs[i].Env = append(r.jobs[i].Env, "FAKE_CUDA_TRACE="+trace(i))
	}
	r.mustRun()
	ready, taken := 0, 0
	for i := range r.jobs {
		text, err := os.ReadFile(trace(i))
		if err != nil {
			t.Fatal(err)
		}
		before, _, revoked := strings.Cut(string(text), "\ncuCtxSynchronize")
		if revoked {
			taken++
		}
		if revoked && strings.Contains(before, "\ncuMemImportFromShareableHandle") {
			ready++
		}
	}
	if ready == 0 {
		t.Errorf("of %d jobs whose memory was taken none had host memory before", taken)
	}
	r.wantWholeArea()
}

// Jobs of which each needs more than its device has run together, and compute what they compute on a larger one.
func TestJobLargerThanItsDevice(t *testing.T) {
	const room = smallContext + jobHeap + jobMoves*3/4
	r := newSwapRig(t, "vgpu:n=2,victims=0", 3, fmt.Sprint("FAKE_CUDA_MEMORY=", room))
	alone := newSwapRig(t, "sa", 1)
	alone.mustRun()
	want := computed(alone, 0)
	r.device.CapacityBytes = room
	jobs, rec := r.mustRun()
	for i, j := range jobs {
		if *j.Outcome != results.OK || computed(r, i) != want {
			t.Errorf("job %d: %s: %s\n%s\nwant\n%s", i, *j.Outcome, j.Detail, r.output(i), want)
		}
	}
	for _, task := range rec.tasks {
		if task.Bytes+task.HeapBytes != jobMoves+jobHeap || task.Refusal != nil {
			t.Errorf("%+v", task)
		}
	}
	r.wantWholeArea()
}

// Jobs that are killed while their memory moves harm no other job, and their parts of the swap area come
// back.
func TestKilledInTheMiddleOfASwap(t *testing.T) {
	for _, where := range []string{"cuMemImportFromShareableHandle:1", "cuMemcpyAsync:2", "cuMemcpyAsync:4", "cuMemRelease:1"} {
		t.Run(where, func(t *testing.T) {
			r := newSwapRig(t, "vgpu:n=4,victims=0", 4)
			r.meet()
			for i := range r.jobs { // whichever comes there
				r.jobs[i].Env = append(r.jobs[i].Env, "FAKE_CUDA_KILL="+where)
			}
			jobs, rec := r.mustRun()
			killed := 0
			for i, j := range jobs {
				if j.Signal != nil && *j.Signal == "SIGKILL" {
					killed++
				} else if *j.Outcome != results.OK {
					t.Errorf("job %d: %s: %s", i, *j.Outcome, j.Detail)
				}
			}
			if killed == 0 {
				t.Error("no job was killed")
			}
			r.wantWholeArea()
			for key, task := range rec.tasks {
				if task.GrantS != nil && task.ReleaseS == nil {
					t.Errorf("task %v was granted and never released", key)
				}
			}
		})
	}
}

// wantWholeArea: every piece of the swap area can be had again.
func (r *rig) wantWholeArea() {
	r.t.Helper()
	if got, want := int64(len(r.swap.Take(math.MaxInt)))*r.swap.Piece(), r.swap.Bytes(); got != want {
		r.t.Errorf("%d bytes of the swap area came back; want %d", got, want)
	}
}

// computed is what a job has computed, without what it says of its device.
func computed(r *rig, job int) string {
	text, _, _ := strings.Cut(r.output(job), "after: ")
	return text
}

// Under schedulers that stop no kernel, the neighbour of a kernel without end says why it waits.
func TestTheNeighbourOfAKernelWithoutEndSaysWhyItWaits(t *testing.T) {
	for _, sched := range []string{"demand", "vgpu:n=2", "quantum:tq=50ms"} {
		t.Run(sched, func(t *testing.T) {
			r := newSwapRig(t, sched, 2, "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_KERNEL_US=500", fmt.Sprint("STOPS_MIB=", jobMoves/mebibyte))
			r.uuids, r.ids, r.limit, r.starved = r.uuids[:1], r.ids[:1], ample, 20*time.Millisecond
			file, said, program := filepath.Join(t.TempDir(), "ended"), filepath.Join(t.TempDir(), "said"), r.jobs[0].Program
			if err := unix.Mkfifo(said, 0o600); err != nil {
				t.Fatal(err)
			}
			for i, script := range []string{
				"exec 3<>" + said + "; exec " + program + " stops " + file + " >&3",
				"while read line; do case $line in begun*) exec " + program + " stops rounds" + file + "; esac; done <" + said,
			} {
				r.jobs[i].Program, r.jobs[i].Args = "/bin/sh", []string{"-c", script}
			}
			r.observe = func(s runner.Step) {
				for _, c := range s.Commands {
					if e, ok := c.(runner.RecordEvent); ok && e.Event.Kind == results.EventStarved {
						if err := os.WriteFile(file, nil, 0o600); err != nil { // its kernel ends
							t.Error(err)
						}
					}
				}
			}
			jobs, rec := r.mustRun()
			for i, j := range jobs {
				if *j.Outcome != results.OK {
					t.Errorf("job %d: %s: %s\n%s", i, *j.Outcome, j.Detail, r.output(i))
				}
			}
			name, _, _ := strings.Cut(sched, ":")
			if first := rec.events[slices.IndexFunc(rec.events, func(e results.Event) bool { return e.Kind == results.EventStarved })]; *first.Job != 1 ||
				!strings.Contains(first.Detail, "job 0 (swapped) has ") || !strings.Contains(first.Detail, name+" stops no kernel") {
				t.Errorf("%+v", first)
			}
			r.wantWholeArea()
		})
	}
}
