package slurmsweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/runner/slurm"
)

const (
	steps = 20 // of each part; a step is a line of the file
	tasks = 12
)

// work does the steps of a part that its file does not have.
func work(file string, number, until int) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for i := strings.Count(string(text), "\n"); i <= until && err == nil; i++ { // the plan is one line
		_, err = fmt.Fprintf(f, "%d %d\n", number, i)
	}
	return errors.Join(err, f.Close())
}

// asItIs is takeOver of a file that is ready.
func asItIs(context.Context, string) error { return nil }

func copyFile(_ context.Context, file, to string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// published makes the directory of published files, with a plan.
func published(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "parts")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(t.TempDir(), "plan")
	if err := os.WriteFile(plan, []byte("plan\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	publish(t, dir, planNumber, plan)
	return dir
}

// publish publishes a file as that of a new attempt.
func publish(t *testing.T, dir string, number int, file string) partFile {
	t.Helper()
	by, err := begin(dir, number)
	if err != nil {
		t.Fatal(err)
	}
	p, err := by.publish(file)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// merger collects the lines of files.
type merger map[string]bool

func (m merger) merge(_ context.Context, files []string) (complete bool, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if lines[0] != "plan" {
			return false, fmt.Errorf("%s begins with %q", file, lines[0])
		}
		for i, line := range lines[1:] {
			if _, step, _ := strings.Cut(line, " "); step != strconv.Itoa(i+1) {
				return false, fmt.Errorf("%s: line %d is %q", file, i+1, line)
			}
			m[line] = true
		}
	}
	return len(m) == tasks*steps, nil
}

// fakeSlurm makes tools of which squeue prints lines and sinfo prints states, and returns what scontrol was told. Without
// states sinfo fails.
func fakeSlurm(t *testing.T, lines string, states ...string) (told func() string) {
	t.Helper()
	bin := t.TempDir()
	sinfo := "exit 1"
	if len(states) > 0 {
		sinfo = "cat <<'END'\n" + strings.Join(states, "\n") + "\nEND"
	}
	for name, script := range map[string]string{
		"sinfo":    sinfo,
		"squeue":   "cat <<'END'\n" + lines + "END",
		"scontrol": `echo "$@" >>"$0.told"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return func() string {
		text, _ := os.ReadFile(filepath.Join(bin, "scontrol.told"))
		return string(text)
	}
}

// A task publishes what it has done however its work ends, and is requeued only where its time is up.
func TestTaskThatEndsEarly(t *testing.T) {
	failure := errors.New("it failed")
	for _, c := range []struct {
		name     string
		ends     error // of the work; nil: it ends with the context
		left     time.Duration
		restarts int
		told     string
		says     string
	}{
		{"fails", failure, time.Minute, 0, "", "it failed"},
		{"has no time for the next step", errTime, time.Hour, 2, "requeue 12_3\n", errTime.Error()},
		{"is warned", nil, 100 * time.Second, 0, "requeue 12_3\n", "canceled"},
		{"is warned early", nil, 179 * time.Second, 0, "requeue 12_3\n", "canceled"},
		{"is cancelled or requeued", nil, time.Hour, 0, "", "canceled"},
		{"was started again three times", errTime, time.Hour, 3, "", "part 3 is not started again"},
	} {
		dir, told := published(t), fakeSlurm(t, "")
		t.Setenv("SLURM_JOB_END_TIME", strconv.FormatInt(time.Now().Add(c.left).Unix(), 10))
		ctx, cancel := context.WithCancel(t.Context())
		task := task{dir: dir, number: 3, job: slurm.Allocation{Job: "12_3", Restarts: c.restarts}, every: time.Hour, takeOver: asItIs, copy: copyFile, say: t.Logf}
		task.work = func(ctx context.Context, file string, _ int, _ time.Time) error {
			if err := work(file, 3, 2); err != nil || c.ends != nil {
				return errors.Join(err, c.ends)
			}
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		if err := task.do(ctx); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("it %s: %v, want %q", c.name, err, c.says)
		}
		cancel()
		if told() != c.told {
			t.Errorf("it %s: scontrol was told %q, want %q", c.name, told(), c.told)
		}
		if got := fetched(t, dir, 3); got != "plan\n3 1\n3 2\n" {
			t.Errorf("it %s: it published %q", c.name, got)
		}
	}
}

// Until version 23.02 Slurm does not tell a job when its time ends, and says of one that was cancelled that it ends now.
func TestTaskThatIsCancelled(t *testing.T) {
	dir := published(t)
	fakeSlurm(t, fmt.Sprintln(time.Now().Add(time.Hour).Unix()))
	told := func() string { return "nothing" }
	t.Setenv("SLURM_JOB_END_TIME", "")
	ctx, cancel := context.WithCancel(t.Context())
	task := task{dir: dir, number: 3, job: slurm.Allocation{Job: "12_3"}, every: time.Hour, takeOver: asItIs, copy: copyFile, say: t.Logf}
	task.work = func(ctx context.Context, _ string, _ int, end time.Time) error {
		if left := time.Until(end); left < 50*time.Minute || left > time.Hour {
			t.Errorf("the task has %v", left)
		}
		told = fakeSlurm(t, fmt.Sprintln(time.Now().Unix()))
		cancel()
		return ctx.Err()
	}
	if err := task.do(ctx); !errors.Is(err, context.Canceled) || told() != "" {
		t.Errorf("%v; scontrol was told %q", err, told())
	}
}

func fetched(t *testing.T, dir string, number int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if _, err := fetch(dir, number, path); err != nil {
		t.Error(err)
	}
	text, _ := os.ReadFile(path)
	return string(text)
}

// A task resumes from what was published last, and no more often than it may.
func TestTaskGoesOn(t *testing.T) {
	dir := published(t)
	for restarts, want := range []string{"plan\n", "plan\n3 1\n", "plan\n3 1\n3 2\n", "plan\n3 1\n3 2\n3 3\n"} {
		task := task{dir: dir, number: 3, job: slurm.Allocation{Job: "12_3", Restarts: restarts}, every: time.Hour, takeOver: asItIs, copy: copyFile, say: t.Logf}
		task.work = func(ctx context.Context, file string, attempt int, _ time.Time) error {
			if text, err := os.ReadFile(file); err != nil || string(text) != want || attempt != restarts {
				t.Errorf("start %d, attempt %d, begins with %q, %v; want %q", restarts, attempt, text, err, want)
			}
			return work(file, 3, restarts+1)
		}
		if err := task.do(t.Context()); err != nil {
			t.Error(err)
		}
	}
	task := task{dir: dir, number: 3, job: slurm.Allocation{Job: "12_3", Restarts: 4}}
	if err := task.do(t.Context()); err == nil || !strings.Contains(err.Error(), "job 12_3 of Slurm was started again 4 times") {
		t.Errorf("the fifth start: %v", err)
	}
}

// While work goes on, copies are published, and an error of one does not end the work.
func TestTaskPublishesMeanwhile(t *testing.T) {
	dir := published(t)
	copies := 0
	var said []string
	task := task{dir: dir, number: 1, every: time.Millisecond, takeOver: asItIs, say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	two := make(chan struct{})
	task.copy = func(ctx context.Context, file, to string) error {
		if copies++; copies == 1 {
			return errors.New("the disk is full")
		}
		if copies == 2 {
			defer close(two)
		}
		return copyFile(ctx, file, to)
	}
	task.work = func(ctx context.Context, file string, _ int, _ time.Time) error { <-two; return nil }
	if err := task.do(t.Context()); err != nil {
		t.Error(err)
	}
	if got := fetched(t, dir, 1); got != "plan\n" || !strings.Contains(strings.Join(said, "\n"), "part 1 continues: the disk is full") {
		t.Errorf("published %q, said %q", got, said)
	}
}

// The store is copied only once it is the one that work is done in: what is open while a merge replaces it cannot be read.
func TestNothingIsCopiedBeforeThePartIsTakenOver(t *testing.T) {
	dir := published(t)
	synctest.Test(t, func(t *testing.T) {
		const every = time.Second
		ready := false
		var copied atomic.Bool
		task := task{dir: dir, number: 1, every: every, say: t.Logf}
		task.takeOver = func(context.Context, string) error {
			time.Sleep(5 * every)
			ready = true
			return nil
		}
		task.copy = func(ctx context.Context, file, to string) error {
			if !ready {
				t.Error("copied before the part was taken over")
			}
			copied.Store(true)
			return copyFile(ctx, file, to)
		}
		task.work = func(context.Context, string, int, time.Time) error {
			time.Sleep(3 * every / 2)
			if !copied.Load() {
				t.Error("not copied while work was under way")
			}
			return nil
		}
		if err := task.do(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The collector starts failed and held tasks again, not those that somebody cancelled, and says at the
// end what is missing.
func TestCollectWhatIsIncomplete(t *testing.T) {
	running := "6|6|RUNNING|0|n1|None|whole+1|\n"
	lines := "6|0|COMPLETED|0|n1|None|whole+1|\n6|1|CANCELLED|0|n1|None|whole+1|\n6|5|FAILED|3|n1|NonZeroExitCode|whole+1|\n"
	told := fakeSlurm(t, running+lines+"6|2|FAILED|2|n1|NonZeroExitCode|whole+1|\n6|3|PENDING|1||launch failed requeued held|whole+1|\n6|4|TIMEOUT|0|n2|TimeLimit|whole+1|\n")
	ctx, cancel := context.WithCancel(t.Context())
	shown := 0
	c := collector{name: "whole", dir: published(t), every: time.Millisecond, mergeFiles: merger{}.merge, say: t.Logf}
	c.show = func(tasks []slurm.Task) {
		if shown++; shown > 1 {
			cancel()
		}
		if len(tasks) != 7 {
			t.Errorf("%+v", tasks)
		}
	}
	if err := c.collect(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it to wait for task 7", err)
	}
	if diff := cmp.Diff("requeue 6_2\nrelease 6_3\nrequeue 6_4\n", told()[:len("requeue 6_2\nrelease 6_3\nrequeue 6_4\n")]); diff != "" {
		t.Errorf("scontrol was told (-want +got):\n%s", diff)
	}
	told = fakeSlurm(t, lines)
	c.show = func([]slurm.Task) {}
	err := c.collect(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no task of whole is left, and not all parts are complete: task 2 (job 6_1) is CANCELLED; task 6 (job 6_5) is FAILED: see") || told() != "" {
		t.Errorf("%v; scontrol was told %q", err, told())
	}
}

// collectorOf is a collector of what was published, which keeps what it says.
func collectorOf(t *testing.T, said *[]string) collector {
	return collector{name: "whole", dir: published(t), every: time.Millisecond, mergeFiles: merger{}.merge,
		say: func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) }}
}

// Of a task that leaves its node, the collector says whether the node is lost, also if that shows only later.
func TestCollectSaysWhichNodesAreLost(t *testing.T) {
	const running = "6|0|RUNNING|0|n1|None|whole+1|\n6|1|RUNNING|0|n2|None|whole+1|\n6|2|RUNNING|0|n3|None|whole+1|\n"
	const left = "6|0|PENDING|1||BeginTime|whole+1|\n6|1|PENDING|0||None|whole+1|\n6|2|PENDING|1||BeginTime|whole+1|\n"
	const again = "6|0|RUNNING|1|n4|None|whole+1|\n6|1|PENDING|0||None|whole+1|\n6|2|RUNNING|1|n3|None|whole+1|\n"
	fakeSlurm(t, running)
	ctx, cancel := context.WithCancel(t.Context())
	shown := 0
	var said []string
	c := collectorOf(t, &said)
	c.show = func([]slurm.Task) {
		switch shown++; shown { // the states are those of this time, and the tasks those of the next
		case 1:
			fakeSlurm(t, left)
		case 2:
			fakeSlurm(t, left, "n1|down*|", "n2|idle|", "n3|idle|")
		case 3:
			fakeSlurm(t, again, "n1|down*|", "n2|idle*|", "n3|mixed|")
		case 4, 5:
			fakeSlurm(t, again, "n1|down*|", "n2|down*|", "n3|down*|")
		case 6:
			cancel()
		}
	}
	if err := c.collect(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want := []string{
		"task 1 is started again: n1, where it ran, is down",
		"task 2 is started again: it ran on n2",
		"task 3 is started again: it ran on n3",
		"n2, which tasks have left, is down",
		"n3, which tasks have left, is down", // before anybody knows that the task has left it once more
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("the collector says (-want +got):\n%s", diff)
	}
	fakeSlurm(t, running)
	said, shown = nil, 0
	ctx, cancel = context.WithCancel(t.Context())
	c.show = func([]slurm.Task) {
		switch shown++; shown {
		case 1:
			fakeSlurm(t, left) // sinfo fails
		case 3:
			cancel()
		}
	}
	if err := c.collect(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want = []string{"task 1 is started again: it ran on n1", "task 2 is started again: it ran on n2", "task 3 is started again: it ran on n3"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("without states, the collector says (-want +got):\n%s", diff)
	}
}

// Broken files are said and left out.
func TestCollectSkipsBrokenFiles(t *testing.T) {
	fakeSlurm(t, "")
	dir := published(t)
	for number := 1; number <= tasks; number++ {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte("plan\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for attempt, until := range []int{steps, steps - 1} {
			if err := work(file, number, until); err != nil {
				t.Fatal(err)
			}
			if p := publish(t, dir, number, file); attempt == 1 {
				if err := os.Truncate(p.Path, 3); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	said := 0
	c := collector{name: "whole", dir: dir, every: time.Millisecond, mergeFiles: merger{}.merge, show: func([]slurm.Task) {}}
	c.say = func(string, ...any) { said++ }
	if err := c.collect(t.Context()); err != nil || said != tasks {
		t.Errorf("%v; %d broken files were said, want %d", err, said, tasks)
	}
}

// Tasks that wait for what may not end by itself are said once for each reason, however many they are.
func TestCollectSaysWhyTasksWait(t *testing.T) {
	const line = "6|%d|PENDING|0||%s|whole+1|\n"
	lines := ""
	for i, reason := range []string{"Resources", "Priority", "PartitionNodeLimit", "ReqNodeNotAvail, UnavailableNodes:n1", "ReqNodeNotAvail, UnavailableNodes:n1"} {
		lines += fmt.Sprintf(line, i, reason)
	}
	fakeSlurm(t, lines)
	ctx, cancel := context.WithCancel(t.Context())
	shown := 0
	var said []string
	c := collectorOf(t, &said)
	c.show = func([]slurm.Task) {
		switch shown++; shown {
		case 2:
			fakeSlurm(t, lines+fmt.Sprintf(line, 5, "PartitionNodeLimit")+fmt.Sprintf(line, 6, "BadConstraints"))
		case 4:
			cancel()
		}
	}
	if err := c.collect(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want := []string{"1 task waits: PartitionNodeLimit: sinfo -o ", "2 tasks wait: ReqNodeNotAvail, UnavailableNodes:n1: sinfo -R ", "1 task waits: BadConstraints: no node has as much: "}
	for i := range max(len(want), len(said)) {
		if i >= len(want) || i >= len(said) || !strings.HasPrefix(said[i], want[i]) {
			t.Fatalf("the collector says %q, want %q", said, want)
		}
	}
}
