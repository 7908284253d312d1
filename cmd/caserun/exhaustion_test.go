package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// limited is p under a limit of the shell's ulimit, such as "-n 128".
func limited(p *exec.Cmd, limit string) *exec.Cmd {
	p.Args = append([]string{"sh", "-c", "ulimit " + limit + `; exec "$0" "$@"`, p.Path}, p.Args[1:]...)
	p.Path = "/bin/sh"
	return p
}

// ownMix goes to a directory of its own with the mix own.yaml, which has so many of
// the jobs.
func ownMix(t *testing.T, jobs ...string) (dir string) {
	t.Helper()
	dir = inTempDir(t)
	writeFiles(t, map[string]string{"own.yaml": "name: own\njobs:\n" + strings.Join(jobs, "\n") + "\n"})
	return dir
}

// buildC compiles a program.
func buildC(t *testing.T, source string, flags ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	c := exec.Command("cc", append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", path, "-xc", "-"}, flags...)...)
	c.Stdin = strings.NewReader(source)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	return path
}

// A run whose harness has run out of something is not a measurement. Its jobs ended well,
// were stopped, or could not be started: no job crashed.
func TestExhaustedHarness(t *testing.T) {
	library := fakeNVML(t)
	connects := buildC(t, `#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	strcpy(to.sun_path, getenv("CASE_SOCKET"));
	for (int i = 0; i < 30 && fork() > 0; i++)
		;
	for (int i = 0; i < 4; i++) /* of each process */
		connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), (struct sockaddr *)&to, sizeof to);
	pause();
}`)
	const (
		waits  = "  - {program: /bin/sleep, args: ['600'], memory: 1MiB, count: 200}"
		passes = "  - {program: /bin/true, memory: 1MiB}"
	)
	for _, c := range []struct {
		name, limit string
		jobs        []string
		workers     int
		says        string
	}{
		{"descriptors", "-n 128", []string{waits}, 200, "ulimit -n"},
		{"descriptors that one job takes", "-n 128", []string{fmt.Sprintf("  - {program: %q, memory: 1MiB}", connects), passes}, 1, "ulimit -n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := ownMix(t, c.jobs...)
			status, text := finish(t, limited(onFakes(dir, library, nil, "mix", "own.yaml", "--sched", "zero", "--no-mps",
				"--devices", "3", "--workers", fmt.Sprint(c.workers)), c.limit))
			if status != exitInfrastructure || !strings.Contains(text, "run 1 is interrupted") || !strings.Contains(text, c.says) || !strings.Contains(text, "\n  not started ") {
				t.Errorf("exit %d, want %d, that the run is interrupted, how many jobs were not started, and %q:\n%s", status, exitInfrastructure, c.says, text)
			}
			run, jobs, events := stored(t, 1)
			if run.Status != results.Interrupted || run.Metrics.Crashed != 0 || run.Metrics.NotStarted == 0 {
				t.Errorf("the run is %s with %+v", run.Status, run.Metrics)
			}
			for _, j := range jobs {
				if o := *j.Outcome; o != results.OK && o != results.NotStarted && (o != results.Cancelled || j.StartS == nil) {
					t.Errorf("job %d is %s: %s", j.Index, o, j.Detail)
				}
			}
			if !has(events, results.EventFailed, c.says) || !has(events, results.EventCancelled, "") {
				t.Errorf("events %+v, want why the run failed, and that it was stopped", events)
			}
		})
	}
}

// A run of many jobs needs no thread once its jobs run: a job may have taken the last
// that the user may have.
func TestNoThreadsLeft(t *testing.T) {
	const jobs = 60
	library := fakeNVML(t)
	// The jobs wait for each other, and threads are gone when the first one starts.
	dir := ownMix(t,
		fmt.Sprintf("  - {program: /bin/sh, args: [-c, ': >no-threads; : >up.$$; while [ ! -e go ]; do sleep 0.2; done'], memory: 1MiB, count: %d}", jobs-1),
		fmt.Sprintf("  - {program: /bin/sh, args: [-c, 'until [ $(ls | grep -c ^up) = %d ]; do sleep 0.05; done; : >go'], memory: 1MiB}", jobs-1))
	shim := buildC(t, fmt.Sprintf(`#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
	return access(%q, F_OK) ? real(t, a, f, arg) : EAGAIN;
}`, filepath.Join(dir, "no-threads")), "-shared", "-fPIC")
	status, text := finish(t, onFakes(dir, library, []string{"LD_PRELOAD=" + shim}, "mix", "own.yaml", "--sched", "zero", "--no-mps",
		"--devices", "3", "--workers", fmt.Sprint(jobs)))
	if status != exitOK {
		t.Errorf("exit %d:\n%s", status, text)
	}
	if run, _, _ := stored(t, 1); run.Status != results.Complete || run.Metrics.OK != jobs {
		t.Errorf("the run is %s with %+v", run.Status, run.Metrics)
	}
}

// The harness takes what descriptors it may have. Its jobs have the limit that it was
// started with, and it says where more jobs may need more.
func TestLimitOfDescriptors(t *testing.T) {
	library := fakeNVML(t)
	dir := ownMix(t, "  - {program: /bin/sh, args: [-c, 'ulimit -Sn; ulimit -Hn'], memory: 1MiB}", "  - {program: /bin/true, memory: 1MiB, count: 40}")
	for _, c := range []struct {
		limit, workers, says, never string
	}{
		{"-Sn 100; ulimit -Hn 200", "40", "40 jobs at once may take 304 file descriptors and the limit is ", ""},
		{"-Sn 100; ulimit -Hn 200", "8", "", "file descriptors"},
	} {
		status, text := finish(t, limited(onFakes(dir, library, nil, "mix", "own.yaml", "--sched", "zero", "--no-mps",
			"--devices", "3", "--workers", c.workers), c.limit))
		if status != exitOK || !strings.Contains(text, c.says) || c.never != "" && strings.Contains(text, c.never) {
			t.Errorf("%s workers: exit %d, want %q and not %q:\n%s", c.workers, status, c.says, c.never, text)
		}
	}
	outputs, err := filepath.Glob("caserun-runs/*/job-0000.out")
	if err != nil || len(outputs) != 2 {
		t.Fatalf("output files %q, %v", outputs, err)
	}
	for _, path := range outputs {
		if text, err := os.ReadFile(path); err != nil || string(text) != "100\n200\n" {
			t.Errorf("%s: a job's limits are %q (%v), want those of its caller", path, text, err)
		}
	}
}
