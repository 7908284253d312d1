package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/mixes/suites"
)

// Every file that a Darknet job names is there but for the weights, which the builtin
// program makes. A file of the user's stays.
func TestDataOfDarknet(t *testing.T) {
	inTempDir(t)
	if err := os.MkdirAll("data/cfg", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("data/cfg/rnn.cfg", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := caserun(t, "data", "--mixes", "D-*"); status != exitOK || out != "" || !strings.Contains(errs, "keeping data/cfg/rnn.cfg") {
		t.Fatalf("exit %d: %s%s", status, out, errs)
	}
	if kept, err := os.ReadFile("data/cfg/rnn.cfg"); err != nil || string(kept) != "mine" {
		t.Errorf("the user's file is %q now: %v", kept, err)
	}
	if _, err := os.Stat("data/graph32M.txt"); err == nil {
		t.Error("no Darknet job reads the graph of bfs")
	}
	jobs, err := suites.CatalogJobs([]string{"D-128"})
	if err != nil || len(jobs) != 4 {
		t.Fatalf("%d different jobs, %v; want 4", len(jobs), err)
	}
	for _, j := range jobs {
		for _, file := range append(slices.Clone(j.Args), j.Stdin) {
			if !slices.Contains([]string{".cfg", ".data", ".txt"}, filepath.Ext(file)) {
				continue
			}
			if text, err := os.ReadFile(filepath.Join("data", file)); err != nil || len(text) == 0 {
				t.Errorf("%s: %s has %d bytes, %v", j.Name, file, len(text), err)
			}
		}
	}
	list, err := os.ReadFile("data/images-large.txt")
	if err != nil || !bytes.HasPrefix(list, []byte("gen:448x448:1\ngen:448x448:2\n")) {
		t.Errorf("%v: %.60q", err, list)
	}
}

// Only a regular file with something in it is an input file that is there. Nothing else is waited for, replaced or kept.
func TestDataKeepsNoOtherFiles(t *testing.T) {
	inTempDir(t)
	const list = "data/images-large.txt"
	if status, _, errs := caserun(t, "data", "--mixes", "D-predict"); status != exitOK {
		t.Fatal(errs)
	}
	if status, _, errs := caserun(t, "data", "--mixes", "D-predict"); status != exitOK || !strings.Contains(errs, "keeping "+list+"\n") {
		t.Errorf("exit %d: %s", status, errs)
	}
	if status, _, errs := caserun(t, "data", "--mixes", "D-predict", "--seed", "2"); status != exitOK || !strings.Contains(errs, "keeping "+list+", which is not what caserun data makes with this --seed") {
		t.Errorf("of another seed: exit %d: %s", status, errs)
	}
	for says, make := range map[string]func() error{
		"pipe or FIFO": func() error { return syscall.Mkfifo(list, 0o600) },
		"a directory":  func() error { return os.Mkdir(list, 0o700) },
		"is empty":     func() error { return os.WriteFile(list, nil, 0o600) },
		"a device":     func() error { return os.Symlink("/dev/zero", list) },
		"no such file": func() error { return os.Symlink("nowhere", list) },
	} {
		if err := errors.Join(os.RemoveAll(list), make()); err != nil {
			t.Fatal(err)
		}
		before, err := os.Lstat(list)
		if err != nil {
			t.Fatal(err)
		}
		status, _, errs := caserun(t, "data", "--mixes", "D-predict")
		if status != exitUsage || !strings.Contains(errs, says) || !strings.Contains(errs, "remove it, so that caserun data makes the file") {
			t.Errorf("%s: exit %d: %s", says, status, errs)
		}
		if after, err := os.Lstat(list); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: it is another file now (%v)", says, err)
		}
	}
	if left, err := filepath.Glob("data/.*"); err != nil || len(left) > 0 {
		t.Errorf("temporary files: %q (%v)", left, err)
	}
}

func TestMixesOfTheCatalogOnly(t *testing.T) {
	inTempDir(t)
	for _, args := range [][]string{
		{"data", "--mixes", "my.yaml"}, {"data", "--mixes", "X1"}, {"doctor", "--mixes", "D-nothing"}, {"paper", "--mixes", "W1"},
		{"paper", "--run", "--node", "sim:2xP100", "--mixes", "D-train"},
	} {
		if status, out, errs := caserun(t, args...); status != exitUsage || out != "" || !strings.Contains(errs, "--mixes") {
			t.Errorf("%v: exit %d: %s%s", args, status, out, errs)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v %v", files, err)
	}
}

// A build of the user's own gets Darknet's own arguments, the list on its standard input, and
// the data directory to work in.
func TestMixOfTheUsersDarknet(t *testing.T) {
	library := fakeNVML(t)
	dir := fakeNode(t, "", "")
	writeFiles(t, map[string]string{
		"theirs/darknet":        "#!/bin/sh\necho \"$@\"\npwd\ncat\n",
		"data/images-large.txt": "dog.jpg\neagle.jpg\n",
	})
	status, text := finish(t, onFakes(dir, library, nil, "mix", "D-predict", "--suite", "theirs", "--sched", "sa"))
	if status != exitOK {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	outputs, err := filepath.Glob("caserun-runs/run-*/job-*.out")
	if err != nil || len(outputs) != 8 {
		t.Fatalf("outputs %q, %v; want 8", outputs, err)
	}
	data, err := filepath.EvalSymlinks(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	want := "classifier predict imagenet1k.data darknet53_448.cfg darknet53_448.weights\n" + data + "\ndog.jpg\neagle.jpg\n"
	for _, path := range outputs {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}
