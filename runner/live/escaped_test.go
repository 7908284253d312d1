package live

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// Processes in these tests last for an hour if nobody ends them, which go test does not wait for.

func mustBeGone(t *testing.T) {
	t.Helper()
	program := testProgram(t, "job")
	if left := running(t, program); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
		for _, pid := range left {
			_ = exec.Command("kill", "-9", pid).Run()
		}
	}
}

// here is the end of a script whose processes say on fd 3 that they are there: it
// waits for so many of them.
func here(processes int) string { return strings.Repeat(" read line <&3;", processes) }

// Whoever leaves the job's group ends with the job all the same, before the next
// one starts.
func TestProcessesThatLeftTheGroupEndWithTheJob(t *testing.T) {
	for script, processes := range map[string]int{
		`timeout 3600 $JOB print:here sleep:3600000 2>&3 &`:                                                                   1, // a group of its own in the job's session
		`env -i timeout 3600 $JOB print:here sleep:3600000 2>&3 &`:                                                            1,
		`setsid $JOB print:here sleep:3600000 2>&3 &`:                                                                         1,
		`setsid sh -c 'setsid $JOB print:here sleep:3600000 2>&3 & timeout 3600 $JOB print:here sleep:3600000 2>&3 & wait' &`: 2, // and theirs
		`setsid $JOB begin:1000 print:here sleep:3600000 2>&3 &`:                                                              1, // connected
		`setsid $JOB stubborn print:here sleep:3600000 2>&3 &`:                                                                1,
	} {
		t.Run(script, func(t *testing.T) {
			r := newRig(t, "cg:workers=1").sh(`mkfifo up; exec 3<>up; ` + script + here(processes)).
				sh(`for exe in /proc/[0-9]*/exe; do test "$(readlink $exe)" != $JOB || exit 1; done`)
			jobs, rec := r.mustRun()
			if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.OK, results.OK}) {
				t.Errorf("outcomes %v: the second job looks for processes of the first", got)
			}
			if r.x.escaped.Load() == 0 {
				t.Error("nobody left the group: the test tested nothing")
			}
			if i := slices.IndexFunc(rec.events, func(e results.Event) bool { return e.Kind == results.EventEscaped }); i < 0 || *rec.events[i].Job != 0 {
				t.Errorf("the events %+v do not say what left job 0's group", rec.events)
			}
			mustBeGone(t)
		})
	}
}

// What neither session nor token tells is known when all the jobs have ended.
func TestProcessesThatHideEndWithTheRun(t *testing.T) {
	r := newRig(t, "sa").sh(`mkfifo up; exec 3<>up; env -i setsid $JOB print:here sleep:3600000 2>&3 &
		env -i setsid sh -c "setsid $JOB print:here sleep:3600000 2>&3 & wait" &` + here(2))
	r.mustRun()
	if n := r.x.escaped.Load(); n != 3 {
		t.Errorf("%d processes had left their group, want 3", n)
	}
	mustBeGone(t)
}

// Neighbours' processes are left alone, those too that this process inherited.
func TestProcessesOfOtherJobsGoOn(t *testing.T) {
	r := newRig(t, "sa").sh(`(setsid sh -c "echo here >there; read line <go; echo done; echo here >up" &); read line <up`).
		sh(`read line <there`).sh(`echo here >go`) // which starts when job 1 has ended
	for _, name := range []string{"there", "go", "up"} {
		if err := unix.Mkfifo(filepath.Join(r.dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	jobs, _ := r.mustRun()
	if got := r.output(0); *jobs[0].Outcome != results.OK || got != "done\n" {
		t.Errorf("job 0: %s, output %q: its child did not live to say so", *jobs[0].Outcome, got)
	}
}

// A client in another session is no reason to wait: not at the timeout, not when
// the run is stopped.
func TestEscapedClientsDoNotOutliveTheirLimits(t *testing.T) {
	script := `setsid $JOB begin:1000 print:here sleep:3600000 2>up & sleep 3600`
	r := newRig(t, "case-alg3").sh(script)
	r.limit = ample
	r.passWhen("up", 0, 2*ample)
	if jobs, _ := r.mustRun(); *jobs[0].Outcome != results.Timeout {
		t.Errorf("outcome %s", *jobs[0].Outcome)
	}
	mustBeGone(t)

	r = newRig(t, "case-alg3").sh(script)
	if jobs := r.cancelledWhen("up"); *jobs[0].Outcome != results.Cancelled {
		t.Errorf("outcome %s", *jobs[0].Outcome)
	}
	mustBeGone(t)
}

// cancelledWhen runs the jobs and stops them when one has written to the pipe of
// that name, which is made for it.
func (r *rig) cancelledWhen(pipe string) []results.Job {
	r.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	r.when(pipe, func(err error) { cancel(errors.Join(errors.New("stopped by the test"), err)) })
	jobs, _, _ := r.run(ctx)
	return jobs
}

// when does something once a job has written to the pipe of that name or closed it. The
// pipe is made.
func (r *rig) when(pipe string, do func(error)) {
	r.t.Helper()
	path := filepath.Join(r.dir, pipe)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		f, err := os.Open(path)
		if err == nil {
			_, err = f.Read(make([]byte, 1))
			defer f.Close()
		}
		do(err)
	}()
}

// passWhen lets the batch's time pass to a moment once the job has written to the pipe of
// that name or closed it.
func (r *rig) passWhen(pipe string, job int, to time.Duration) {
	r.t.Helper()
	r.began = make(chan int, len(r.jobs))
	r.when(pipe, func(error) {
		for i := range r.began { // the job's limit counts from here
			if i == job {
				x := <-r.made
				x.loop.Post(to, runner.Tick{})
				return
			}
		}
	})
}

// asks is a job that shows its environment on the pipe "env" and goes on when there
// is something on the pipe "go".
const asks = `env -0 >env; read line <go`

// startFor starts a program in the environment that a job shows, as a service that
// the job asks for it: not as its descendant. It returns when the program has said
// something.
func startFor(r *rig, program string, args ...string) *exec.Cmd {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "env"))
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return cmd
}

func (r *rig) letGo() {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "go"), []byte("go\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// asking is a rig with a job that asks.
func asking(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, "case-alg3").sh(asks)
	if err := errors.Join(unix.Mkfifo(filepath.Join(r.dir, "env"), 0o600), unix.Mkfifo(filepath.Join(r.dir, "go"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return r
}

// A client that is nobody's child ends with the job too; one that cannot be told
// for the job's is not waited for.
func TestClientsThatTheJobDidNotStart(t *testing.T) {
	job, odd := testProgram(t, "job"), testProgram(t, "odd")
	for _, c := range []struct {
		program string
		args    []string
		killed  bool
	}{
		{job, []string{"begin:1000", "device", "sleep:3600000"}, true},
		{odd, []string{"wipe"}, false},
	} {
		r := asking(t)
		if !c.killed {
			r.patience = 100 * time.Millisecond
		}
		ended := make(chan struct{})
		var jobs []results.Job
		var err error
		go func() {
			defer close(ended)
			jobs, _, err = r.run(context.Background())
		}()
		cmd := startFor(r, c.program, c.args...)
		r.letGo()
		<-ended
		if alive := unix.Kill(cmd.Process.Pid, 0) == nil && !mustStat(t, cmd.Process.Pid).ended; alive == c.killed {
			t.Errorf("%s %v: alive %v, want %v", filepath.Base(c.program), c.args, alive, !c.killed)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if c.killed != (err == nil) || err != nil && !strings.Contains(err.Error(), "job 0: a process that it did not start itself outlives it") {
			t.Errorf("%s %v: the run says %v", filepath.Base(c.program), c.args, err)
		}
		if *jobs[0].Outcome != results.OK {
			t.Errorf("%s %v: job 0 is %s: %s", filepath.Base(c.program), c.args, *jobs[0].Outcome, jobs[0].Detail)
		}
	}
}

// A job that has ended is not stopped any more, and its time has ended too, however
// long what it had started for it takes to go.
func TestJobHasEndedWhenItsProcessHas(t *testing.T) {
	odd := testProgram(t, "odd")
	for _, cancels := range []bool{false, true} {
		r := asking(t)
		cancelled := make(chan struct{})
		r.observe = func(s runner.Step) {
			if _, is := s.Event.(runner.Cancel); is {
				close(cancelled)
			}
		}
		r.patience, r.limit, r.began = time.Hour, time.Hour, make(chan int, 1)
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan struct{})
		var jobs []results.Job
		go func() {
			defer close(ended)
			jobs, _, _ = r.run(ctx)
		}()
		cmd := startFor(r, odd, "wipe")
		x := <-r.made
		r.letGo()
		<-r.began
		x.mu.Lock()
		p := x.procs[0][0]
		x.mu.Unlock()
		<-p.ended
		exited := x.now()
		if cancels {
			cancel(errors.New("stopped by the test"))
			<-cancelled
		} else {
			x.loop.Post(2*r.limit, runner.Tick{})
		}
		select {
		case <-ended:
			t.Errorf("stopped %v: the run did not wait for the process that the job had started for it", cancels)
		default:
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-ended
		cancel(nil)
		if j := jobs[0]; *j.Outcome != results.OK || *j.EndS > exited.Seconds() {
			t.Errorf("stopped %v: the job is %s and ended after %v s, its process after %v s", cancels, *j.Outcome, *j.EndS, exited.Seconds())
		}
	}
}

// Jobs are the children of another thread than the one that orphans go to.
func TestJobsAreNotAmongTheInherited(t *testing.T) {
	for range 50 {
		s := startSpawner()
		thread := make(chan int, 1)
		s.do(func() { thread <- unix.Gettid() })
		if got := <-thread; got == os.Getpid() {
			t.Fatal("jobs are started by the first thread")
		}
		s.close()
	}
}

// What has been collected gets no signal: its number may be another's by now.
func TestNoSignalToWhatIsGone(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{pid: cmd.Process.Pid, gone: true, ended: make(chan struct{}), undead: make(chan struct{})}
	close(p.ended)
	p.stop(time.Millisecond, time.Millisecond)
	p.signal(syscall.SIGKILL)
	if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: quit" {
		t.Errorf("the process that has the number: %v, want the signal that came last", err)
	}
}

func mustStat(t *testing.T, pid int) stat {
	t.Helper()
	s, ok := statOf(pid)
	if !ok {
		t.Fatalf("process %d has no stat", pid)
	}
	return s
}

// A process that died holds nothing and gets nothing.
func TestDeadProcessIsGrantedNothing(t *testing.T) {
	odd := testProgram(t, "odd")
	for range 5 {
		r := newRig(t, "schedgpu:queue=fifo").sh(`exec $ODD die >up`).sh(`read line <up; exec $JOB begin:12000000000 free`)
		r.jobs[0].Env = append(r.jobs[0].Env, "ODD="+odd)
		if err := unix.Mkfifo(filepath.Join(r.dir, "up"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, rec := r.mustRun()
		held, waited := rec.tasks[[2]int{0, 0}], rec.tasks[[2]int{0, 1}]
		if waited.SubmitS == 0 || waited.GrantS != nil {
			t.Errorf("the dead process's waiting task: %+v, want one without a grant", waited)
		}
		if after := rec.tasks[[2]int{1, 0}]; *after.GrantS < *held.ReleaseS {
			t.Errorf("job 1 was granted at %v, the dead process gave back at %v", *after.GrantS, *held.ReleaseS)
		}
	}
}

// Children that were there before the run are nobody's of it.
func TestChildrenFromBeforeTheRunGoOn(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	newRig(t, "sa").sh(`true`).mustRun()
	if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: quit" {
		t.Errorf("the child that was there before: %v", err)
	}
}
