package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// mustEndSoon fails where a run took as long as the processes in these tests do
// if nobody ends them.
func mustEndSoon(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func mustBeGone(t *testing.T) {
	t.Helper()
	program, err := buildJob()
	if err != nil {
		t.Fatal(err)
	}
	if left := running(t, program); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
		for _, pid := range left {
			_ = exec.Command("kill", "-9", pid).Run()
		}
	}
}

// Whoever leaves the job's group ends with the job all the same, before the next
// one starts.
func TestProcessesThatLeftTheGroupEndWithTheJob(t *testing.T) {
	for _, script := range []string{
		`timeout 60 $JOB sleep:60000 &`, // a group of its own in the job's session
		`env -i timeout 60 $JOB sleep:60000 &`,
		`setsid $JOB sleep:60000 &`,
		`setsid sh -c 'setsid $JOB sleep:60000 & timeout 60 $JOB sleep:60000 & wait' &`, // and theirs
		`setsid $JOB begin:1000 sleep:60000 &`,                                          // connected
		`setsid $JOB stubborn sleep:60000 &`,
	} {
		t.Run(script, func(t *testing.T) {
			r := newRig(t, "cg:workers=1").sh(script + ` sleep 0.5`).
				sh(`for exe in /proc/[0-9]*/exe; do test "$(readlink $exe)" != $JOB || exit 1; done`)
			began := time.Now()
			jobs, rec := r.mustRun()
			mustEndSoon(t, began)
			if got := outcomes(jobs); !slices.Equal(got, []results.Outcome{results.OK, results.OK}) {
				t.Errorf("outcomes %v: the second job looks for processes of the first", got)
			}
			if r.x.escaped.Load() == 0 {
				t.Error("nobody left the group: the test tested nothing")
			}
			if i := slices.IndexFunc(rec.events, func(e results.Event) bool { return e.Kind == "escaped" }); i < 0 || *rec.events[i].Job != 0 {
				t.Errorf("the events %+v do not say what left job 0's group", rec.events)
			}
			mustBeGone(t)
		})
	}
}

// What neither session nor token tells is known when all the jobs have ended.
func TestProcessesThatHideEndWithTheRun(t *testing.T) {
	r := newRig(t, "sa").sh(`env -i setsid $JOB sleep:60000 & env -i setsid sh -c "setsid $JOB sleep:60000 & wait" & sleep 0.5`)
	r.mustRun()
	if n := r.x.escaped.Load(); n != 3 {
		t.Errorf("%d processes had left their group, want 3", n)
	}
	mustBeGone(t)
}

// Neighbours' processes are left alone, those too that this process inherited.
func TestProcessesOfOtherJobsGoOn(t *testing.T) {
	r := newRig(t, "sa").sh(`(setsid $JOB sleep:500 exit:0 & setsid sh -c "$JOB sleep:500; echo done" &); sleep 1`).
		sh(`sleep 0.2`).sh(`sleep 0.1`)
	jobs, _ := r.mustRun()
	if got := r.output(0); *jobs[0].Outcome != results.OK || got != "done\n" {
		t.Errorf("job 0: %s, output %q: its child did not live to say so", *jobs[0].Outcome, got)
	}
}

// A client in another session is no reason to wait: not at the timeout, not when
// the run is stopped.
func TestEscapedClientsDoNotOutliveTheirLimits(t *testing.T) {
	script := `setsid $JOB begin:1000 sleep:60000 & sleep 60`
	r := newRig(t, "case-alg3").sh(script)
	r.limit = 300 * time.Millisecond
	began := time.Now()
	if jobs, _ := r.mustRun(); *jobs[0].Outcome != results.Timeout {
		t.Errorf("outcome %s", *jobs[0].Outcome)
	}
	mustEndSoon(t, began)
	mustBeGone(t)

	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	began = time.Now()
	if jobs, _, _ := newRig(t, "case-alg3").sh(script).run(ctx); *jobs[0].Outcome != results.Cancelled {
		t.Errorf("outcome %s", *jobs[0].Outcome)
	}
	mustEndSoon(t, began)
	mustBeGone(t)
}

// buildOdd compiles a job that does what job.c cannot.
var buildOdd = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "caserun-odd-")
	if err != nil {
		return "", err
	}
	native := filepath.Join("..", "..", "native", "probe")
	out := filepath.Join(dir, "odd")
	c := exec.Command("cc", "-std=gnu11", "-O2", "-pthread", "-I", native, "-o", out, "-xc", "-", "-xnone",
		filepath.Join(native, "case.c"), filepath.Join(native, "link.c"))
	c.Stdin = strings.NewReader(`
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "case.h"

extern char **environ;
static const struct case_need need = { .bytes = 12000000000, .blocks = 1024, .threads_per_block = 256 };

static void *second(void *unused)
{
	struct case_task task = { 0 };
	case_task_ask(&need, &task);
	return unused;
}

/* odd wipe: has a task and nothing in its environment, for a minute.
 * odd die: holds a task, asks for another one, and dies. */
int main(int argc, char **argv)
{
	struct case_task task = { 0 };
	pthread_t thread;

	if (argc != 2 || case_task_ask(&need, &task))
		return 5;
	if (!strcmp(argv[1], "wipe")) {
		for (char **e = environ; *e; e++)
			memset(*e, 0, strlen(*e));
		sleep(60);
		return 0;
	}
	pthread_create(&thread, NULL, second, NULL);
	usleep(200000);
	abort();
}`)
	if text, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build job: %w\n%s", err, text)
	}
	return out, nil
})

// startFor starts a program in the environment of the first process that prints
// its own to the path, as a service that a job asks for it: not as its descendant.
func startFor(t *testing.T, path, program string, args ...string) *exec.Cmd {
	t.Helper()
	var text []byte
	for began := time.Now(); !strings.HasSuffix(string(text), "THE_END=1\x00"); time.Sleep(10 * time.Millisecond) {
		text, _ = os.ReadFile(path)
		if time.Since(began) > 10*time.Second {
			t.Fatal("the job does not show its environment")
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Env = strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A client that is nobody's child ends with the job too; one that cannot be told
// for the job's is not waited for.
func TestClientsThatTheJobDidNotStart(t *testing.T) {
	job, err := buildJob()
	if err != nil {
		t.Fatal(err)
	}
	odd, err := buildOdd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program string
		args    []string
		killed  bool
	}{
		{job, []string{"begin:1000", "sleep:60000"}, true},
		{odd, []string{"wipe"}, false},
	} {
		r := newRig(t, "case-alg3").sh(`env -0 >env; printf 'THE_END=1\0' >>env; while ! test -e go; do sleep 0.01; done`)
		if !c.killed {
			r.patience = 100 * time.Millisecond
		}
		began := time.Now()
		ended := make(chan struct{})
		var jobs []results.Job
		var err error
		go func() {
			defer close(ended)
			jobs, _, err = r.run(context.Background())
		}()
		cmd := startFor(t, filepath.Join(r.dir, "env"), c.program, c.args...)
		time.Sleep(200 * time.Millisecond) // it connects
		if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		<-ended
		mustEndSoon(t, began)
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
	odd, err := buildOdd()
	if err != nil {
		t.Fatal(err)
	}
	for _, cancels := range []bool{false, true} {
		r := newRig(t, "case-alg3").sh(`env -0 >env; printf 'THE_END=1\0' >>env; while ! test -e go; do sleep 0.01; done`)
		r.patience, r.limit = 3*time.Second, 2*time.Second
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan struct{})
		var jobs []results.Job
		go func() {
			defer close(ended)
			jobs, _, _ = r.run(ctx)
		}()
		cmd := startFor(t, filepath.Join(r.dir, "env"), odd, "wipe")
		time.Sleep(200 * time.Millisecond) // it connects
		if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if cancels {
			time.Sleep(time.Second) // the job ends
			cancel(errors.New("stopped by the test"))
		}
		<-ended
		cancel(nil)
		if j := jobs[0]; *j.Outcome != results.OK || *j.EndS > 2 {
			t.Errorf("stopped %v: the job is %s and ended after %v s", cancels, *j.Outcome, *j.EndS)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
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
	p := &process{pid: cmd.Process.Pid, gone: true, ended: make(chan struct{})}
	close(p.ended)
	p.stop(time.Millisecond)
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
	odd, err := buildOdd()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r := newRig(t, "schedgpu:queue=fifo")
		r.jobs = []mixes.Job{{Name: "odd", Program: odd, Args: []string{"die"}}}
		r.job("sleep:100", "begin:12000000000", "free")
		_, rec := r.mustRun()
		held, waited := rec.tasks[[2]int{0, 0}], rec.tasks[[2]int{0, 1}]
		if waited.SubmitS == 0 || waited.GrantS != nil {
			t.Errorf("the dead process's waiting task: %+v, want one without a grant", waited)
		}
		if after := rec.tasks[[2]int{1, 0}]; *after.GrantS < *held.ReleaseS {
			t.Errorf("job 1 was granted at %v, the dead process gave back at %v", *after.GrantS, *held.ReleaseS)
		}
		if n := len(r.x.waiting); n != 0 {
			t.Errorf("%d requests of dead processes are kept", n)
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
