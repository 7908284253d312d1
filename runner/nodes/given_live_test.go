package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
)

// The test binary is also a program that makes live runs, and the guard of their jobs.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == live.GuardCommand:
		if err := live.Guard(os.Stdin); err != nil {
			os.Exit(1)
		}
	case os.Getenv(giveLive) != "":
		if err := giveToALiveRun(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// giveLive, if set, has the test binary make a live run that is given jobs.
const giveLive = "CASERUN_TEST_GIVE_LIVE"

// follower calls back when a job has ended.
type follower struct {
	harness.Log
	ended func(job int)
}

func (f follower) Begun(results.Run, []results.Device) {}
func (f follower) Task(int64, results.Task)            {}
func (f follower) Swap(int64, results.Swap)            {}
func (f follower) Event(int64, results.Event)          {}
func (f follower) Ended(results.Run)                   {}
func (f follower) Job(_ int64, j results.Job) {
	if j.Outcome != nil {
		f.ended(j.Index)
	}
}

// giveToALiveRun gives jobs to a run that starts with none: the third once the first has ended, while the run has nothing
// else to do. It goes to the device that comes back. Then the run is stopped.
func giveToALiveRun() error {
	db, err := store.Open("runs.db")
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, stop := context.WithCancelCause(context.Background())
	jobs, told := make(chan harness.Given), make(chan int, 8)
	work := mixes.Job{Name: "work", Program: "native/lazy/build/13/lazy_program", Args: []string{"swapped", "1"}}
	missing := mixes.Job{Name: "missing", Program: "./missing"}
	answer := func(job int, err error) { fmt.Println("answer", job, err) }
	go func() {
		jobs <- harness.Given{Job: work, Answer: answer}
		jobs <- harness.Given{Job: missing, Where: "jobs.yaml:2", Answer: answer}
		<-told
		jobs <- harness.Given{Event: runner.DeviceLost{Device: 0, Why: "test", Planned: true}, Answer: answer}
		jobs <- harness.Given{Event: runner.DeviceLost{Device: 1, Why: "test", Planned: true}, Answer: answer}
		jobs <- harness.Given{Job: work, Answer: answer}
		jobs <- harness.Given{Event: runner.Limit{Job: 1}, Answer: answer}
		jobs <- harness.Given{Event: runner.DeviceAdded{Device: 1}, Answer: answer}
		jobs <- harness.Given{Event: runner.Limit{Job: 1, Devices: 1}, Answer: answer}
		<-told
		stop(errors.New("enough"))
	}()
	say := func(format string, args ...any) { fmt.Printf("caserun: "+format+"\n", args...) }
	o := harness.Options{Node: Local, NoMPS: true, Context: size.AmountOf(8 << 20), Runs: "out", Workers: 4, Suite: "builtin", Data: "data"}
	r := harness.Request{Configuration: harness.Configuration{Options: o, Sched: "case-alg3", Probe: results.Lazy}, Mix: mixes.Mix{Name: "own"},
		Given: jobs, Store: db, Say: say, Log: follower{ended: func(job int) { told <- job }}}
	var s Session
	outcome, err := s.Run(ctx, r)
	fmt.Println("run", outcome.Run.Status, len(outcome.Jobs), len(outcome.Given), strings.Count(outcome.Run.Provenance.Binaries, "lazy_program"), err)
	for _, j := range outcome.Jobs {
		fmt.Println("job", j.Index, *j.Outcome, *j.Device, j.Detail)
	}
	return s.Close()
}

// A live run on the fake node that is given jobs, with an error for one that it cannot have.
func TestALiveRunIsGivenJobs(t *testing.T) {
	native := filepath.Dir(nativetest.Build(t, "ballast", "ballast", "swaparea"))
	nativetest.Build(t, "lazy", "libcase.so", "programs")
	dir := t.TempDir()
	if err := os.Symlink(native, filepath.Join(dir, "native")); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(native, "fake-node"), os.Args[0])
	c.Dir, c.Env = dir, append(os.Environ(), giveLive+"=1", "FAKE_CUDA_KERNEL_US=100", "GORACE=atexit_sleep_ms=0")
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	if err := c.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, &text)
	}
	for _, want := range []string{
		"answer 0 <nil>\n",
		"answer 0 jobs.yaml:2: ", "missing",
		"answer 1 <nil>\n",
		"run interrupted 2 2 1 run 1 is interrupted: enough\n",
		"job 0 ok 0 \njob 1 ok 1 ",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
}
