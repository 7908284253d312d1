//go:build slurm

package slurmsweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

const (
	// taskVariable makes this test binary a task: its arguments are a directory and the part's number.
	taskVariable = "SLURMSWEEP_TEST_TASK"
	killed       = 3 // the first attempts of these parts wait in the middle until they are ended
	late         = 4 // this part's first attempt runs out of time
	lost         = 2 // this part's node is lost, and its later attempts wait until that is said
)

func TestMain(m *testing.M) {
	if os.Getenv(taskVariable) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := doTask(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func doTask(ctx context.Context, dir, number string) error {
	job, err := slurm.Current()
	if err != nil || job == nil {
		return fmt.Errorf("job %v: %w", job, err)
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	t := task{dir: filepath.Join(dir, "parts"), number: n, job: *job, every: 20 * time.Millisecond, takeOver: asItIs, copy: copyFile,
		say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	t.work = func(ctx context.Context, file string, attempt int, _ time.Time) error {
		if err := work(file, n, steps/2); err != nil {
			return err
		}
		switch {
		case attempt > 0 && n == lost:
			if err := waitFor(ctx, filepath.Join(dir, "lost")); err != nil {
				return err
			}
		case attempt > 0:
		case n <= killed:
			if err := os.WriteFile(filepath.Join(dir, "middle-"+number), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		case n == late:
			return fmt.Errorf("in the middle: %w", errTime)
		}
		return work(file, n, steps)
	}
	return t.do(ctx)
}

// waitFor waits until a file exists.
func waitFor(ctx context.Context, file string) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A whole is complete although a task is requeued, a task is killed, a task runs out of time, a node is
// lost, and the controller is killed.
func TestArrayOfParts(t *testing.T) {
	dir := filepath.Dir(published(t))
	c := slurmtest.Start(t)
	t.Setenv(taskVariable, "1")
	a := slurm.Array{Name: "whole", Tasks: tasks, Gres: "gpu:1", Logs: dir, Command: []string{os.Args[0], dir, slurm.TaskNumber}}
	if _, err := a.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
			for _, name := range logs {
				text, _ := os.ReadFile(name)
				t.Logf("%s:\n%s", name, text)
			}
		}
	})
	waiting := func(number int) (pid int, ok bool) {
		text, _ := os.ReadFile(filepath.Join(dir, fmt.Sprintf("middle-%d", number)))
		pid, err := strconv.Atoi(string(text))
		return pid, err == nil
	}
	c.Await("the parts are in the middle", func() bool {
		for number := 1; number <= killed; number++ {
			if _, ok := waiting(number); !ok {
				return false
			}
		}
		return true
	})
	all := merger{}
	collected := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said := make(chan string, 1000)
	say := func(format string, args ...any) { said <- fmt.Sprintf(format, args...) }
	listed := make(chan bool, 1000)
	go func() {
		collector := collector{name: a.Name, dir: filepath.Join(dir, "parts"), every: 200 * time.Millisecond, mergeFiles: all.merge, say: say,
			show: func([]slurm.Task) { listed <- true }}
		collected <- collector.collect(ctx)
	}()
	<-listed
	before, err := slurm.List(t.Context(), a.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := slurm.Requeue(t.Context(), before[0].Job); err != nil {
		t.Fatal(err)
	}
	pid, _ := waiting(3)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	node := before[lost-1].Nodes
	c.LoseNode(node)
	c.KillController()
	c.StartController()
	var ended error
	isLost, registered := false, false
	c.Await("the parts are collected", func() bool {
		c.ResumeNodes()
		// Slurm may take a task for running that was started just before the controller was killed.
		registered = registered || isLost && c.RegisterNodes()
		select {
		case line := <-said:
			t.Log(line)
			// The controller may have forgotten that task 2 ran, and start it again before it finds the node down.
			if strings.Contains(line, node+", where it ran, is down") || line == node+", which tasks have left, is down" {
				if err := os.WriteFile(filepath.Join(dir, "lost"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				isLost = true
			}
		case ended = <-collected:
			return true
		default:
		}
		return false
	})
	if _, err := os.Stat(filepath.Join(dir, "lost")); err != nil {
		t.Errorf("the collector does not say that %s is down: %v", node, err)
	}
	if ended != nil || len(all) != tasks*steps {
		t.Errorf("%v; %d lines, want %d", ended, len(all), tasks*steps)
	}
	for number := 1; number <= late; number++ {
		log, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("whole+1-%d.log", number-1)))
		if starts := strings.Count(string(log), " resumes from "); err != nil || starts < 2 {
			t.Errorf("part %d was started %d times, %v", number, starts, err)
		}
	}
}
