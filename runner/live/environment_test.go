package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// environ adds a job that prints its environment: a program without CUDA.
func (r *rig) environ(j mixes.Job) *rig {
	r.t.Helper()
	program, err := exec.LookPath("env")
	if err != nil {
		r.t.Fatal(err)
	}
	j.Name, j.Program = "env", program
	r.jobs = append(r.jobs, j)
	return r
}

func (r *rig) saw(job int, key string) string {
	r.t.Helper()
	return lookup(strings.Split(r.output(job), "\n"), key)
}

func TestEnvironmentOfJobs(t *testing.T) {
	t.Setenv("CASE_PIN", "1") // of whoever started caserun: not the job's
	t.Setenv("CASE_FOOTPRINT", "1,2,3")
	t.Setenv("CASE_DEVICES", "7")
	f := mixes.Footprint{Bytes: 3 << 30, Blocks: 1 << 33, ThreadsPerBlock: 256}
	for _, c := range []struct {
		sched                                 string
		job                                   mixes.Job
		visible, binding, pin, print, devices string
	}{
		{"case-alg3", mixes.Job{}, "GPU-zero,GPU-one", "task", "", "", "GPU-zero,GPU-one"},
		{"case-alg3", mixes.Job{Pin: true, Footprint: f}, "GPU-zero,GPU-one", "task", "1", "3221225472,8589934592,256", ""},
		{"case-alg3", mixes.Job{Binding: mixes.BindDeclared, Footprint: f, Pin: true}, "GPU-zero", "job", "", "3221225472,8589934592,256", ""},
		{"sa", mixes.Job{Pin: true, Footprint: mixes.Footprint{Bytes: 5}}, "GPU-zero", "job", "", "5,0,0", ""},
	} {
		r := newRig(t, c.sched).environ(c.job)
		if jobs, _ := r.mustRun(); *jobs[0].Outcome != results.OK {
			t.Fatalf("%s: %s", c.sched, jobs[0].Detail)
		}
		for key, want := range map[string]string{"CUDA_VISIBLE_DEVICES": c.visible, "CASE_BINDING": c.binding, "CASE_PIN": c.pin,
			"CASE_FOOTPRINT": c.print, "CASE_DEVICES": c.devices, "CASE_REQUIRED": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "LD_PRELOAD": os.Getenv("LD_PRELOAD")} {
			if got := r.saw(0, key); got != want {
				t.Errorf("%s, %+v: %s=%q, want %q", c.sched, c.job, key, got, want)
			}
		}
	}
}

// buildLibrary compiles a shared library that says so where it is loaded.
func buildLibrary(t *testing.T, says string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), says+".so")
	c := exec.Command("cc", "-shared", "-fPIC", "-o", path, "-xc", "-")
	c.Stdin = strings.NewReader(fmt.Sprintf(`#include <stdlib.h>
#include <unistd.h>
		__attribute__((constructor)) static void loaded(void) { if (getenv("SAY") && write(1, "%s\n", %d) < 0) abort(); }`, says, len(says)+1))
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build library: %v\n%s", err, text)
	}
	return path
}

// The library comes first, what the user preloads after it, and both reach the
// interpreter of a script.
func TestPreload(t *testing.T) {
	ours, users := buildLibrary(t, "ours"), buildLibrary(t, "users")
	r := newRig(t, "case-alg3").environ(mixes.Job{}).environ(mixes.Job{Env: []string{"LD_PRELOAD=" + users}})
	script := filepath.Join(r.dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nSAY=1 env true\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.jobs = append(r.jobs, mixes.Job{Name: "script", Program: script, Env: []string{"SAY=1"}})
	r.preload = ours
	r.mustRun()
	if got := r.saw(0, "LD_PRELOAD"); got != ours {
		t.Errorf("LD_PRELOAD=%q, want %q", got, ours)
	}
	if got, want := r.saw(1, "LD_PRELOAD"), ours+":"+users; got != want {
		t.Errorf("LD_PRELOAD=%q, want %q", got, want)
	}
	if got := r.output(2); got != "ours\nours\nours\n" { // sh, env, true
		t.Errorf("the script and its children said %q", got)
	}
	t.Setenv("LD_PRELOAD", users)
	r = newRig(t, "sa").environ(mixes.Job{})
	r.preload = ours
	r.mustRun()
	if got, want := r.saw(0, "LD_PRELOAD"), ours+":"+users; got != want {
		t.Errorf("LD_PRELOAD=%q, want %q", got, want)
	}
}

func TestFindLibrary(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("no library"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := buildLibrary(t, "good")
	t.Setenv(LibraryVariable, good)
	if path, err := FindLibrary(t.Context()); err != nil || path != good {
		t.Errorf("a library that loads: %q, %v", path, err)
	}
	for path, says := range map[string]string{
		write("broken.so"):             "does not load",
		filepath.Join(dir, "none.so"):  "make native",
		write("in a directory.so"):     "space or a colon",
		buildLibrary(t, "a:colon.bad"): "space or a colon",
	} {
		t.Setenv(LibraryVariable, path)
		if _, err := FindLibrary(t.Context()); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one with %q", path, err, says)
		}
	}
	t.Setenv(LibraryVariable, "")
	t.Chdir(dir) // no native/probe here, and none beside the test
	if _, err := FindLibrary(t.Context()); err == nil || !strings.Contains(err.Error(), "make native") {
		t.Errorf("nowhere: %v", err)
	}
}
