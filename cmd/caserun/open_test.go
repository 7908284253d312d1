package main

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Commands that read leave the store's file as the whole store: it may be copied,
// and whoever owns it may go on writing.
func TestReadingLeavesNothingBesideTheStore(t *testing.T) {
	inTempDir(t)
	for _, args := range [][]string{
		{"sweep", "--mixes", "W1", "--scheds", "sa,cg", "--node", "sim:1xV100", "--reps", "1"},
		{"sweep", "--mixes", "W1", "--scheds", "sa", "--node", "sim:1xV100", "--reps", "1", "--tag", "t"},
		{"report"}, {"report", "latest", "-v"}, {"report", "--html", os.DevNull},
		{"compare", "2", "1"}, {"regress", "--baseline", "sweep:1", "--candidate", "sweep:2"},
		{"sweep", "list"}, {"sweep", "show"}, {"sweep", "--resume", "--show-config"},
		{"sweep", "--mixes", "W2", "--scheds", "sa", "--node", "sim:1xV100", "--dry-run"},
		{"export", "--markdown", "-"}, {"export", "--bundle", "../b.tar.gz"}, {"paper", "--as", "4xV100", "--out", "../paper"},
	} {
		if status, _, errs := caserun(t, args...); status == exitUsage || status == exitInfrastructure {
			t.Errorf("%v: exit %d: %s", args, status, errs)
		}
		left, err := os.ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range left {
			names = append(names, f.Name())
		}
		if !slices.Equal(names, []string{"caserun.db"}) {
			t.Errorf("%v: %v are left", args, names)
		}
	}
}

// offered is a FIFO to which somebody is about to write text.
func offered(t *testing.T, path, text string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte(text), 0) }()
	t.Cleanup(func() {
		reader, err := os.OpenFile(path, os.O_RDWR, 0) // which lets the writer go on
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
}

// A FIFO in the place of a file is refused, and not waited for, whatever it would bring.
func TestFilesToReadAreNoFIFOs(t *testing.T) {
	inTempDir(t)
	offered(t, "c.yaml", "seed: 2\n")
	offered(t, "m.yaml", "jobs: [needle-16384]\n")
	offered(t, "m.wl", "/opt/rodinia/needle 16384 10\n")
	offered(t, "s.yaml", "mixes: [W1]\nscheds: [sa]\nnode: sim:1xV100\n")
	offered(t, "p.csv", "job,command\n")
	offered(t, "db", "\x1f\x8b\x08")
	for _, c := range []struct {
		args   []string
		path   string
		status int
	}{
		{[]string{"mix", "W1", "--node", "sim:1xV100", "--config", "c.yaml"}, "c.yaml", exitUsage},
		{[]string{"mix", "m.yaml", "--node", "sim:1xV100"}, "m.yaml", exitUsage},
		{[]string{"mixes", "show", "m.wl"}, "m.wl", exitUsage},
		{[]string{"sweep", "s.yaml"}, "s.yaml", exitUsage},
		{[]string{"mix", "W1", "--node", "sim:1xV100", "--profiles", "p.csv"}, "p.csv", exitUsage},
		{[]string{"mix", "W1", "--node", "sim:1xV100", "--db", "db"}, "db", exitInfrastructure},
		{[]string{"report", "--db", "db"}, "db", exitInfrastructure},
	} {
		status, _, errs := caserun(t, c.args...)
		if status != c.status || !strings.Contains(errs, c.path+": it is a pipe or FIFO, and not a regular file") {
			t.Errorf("%v: exit %d, want %d: %s", c.args, status, c.status, errs)
		}
	}
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:1xV100", "--config", os.DevNull); status != exitOK {
		t.Errorf("a configuration without settings: exit %d: %s", status, errs)
	}
}

// What comes through a pipe of the shell's, as of --config <(command), is waited for as
// long as the user lets it.
func TestPipesAreReadUntilASignal(t *testing.T) {
	dir := inTempDir(t)
	for _, args := range [][]string{
		{"mix", "W1", "--node", "sim:1xV100", "--config", "/dev/fd/3"},
		{"mix", "W1", "--node", "sim:1xV100", "--profiles", "/dev/fd/3"},
		{"sweep", "/dev/fd/3"},
	} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c := process(dir, args...)
		var said bytes.Buffer
		c.ExtraFiles, c.Stdout, c.Stderr = []*os.File{reader}, &said, &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// More than a pipe holds: it has begun to read when this is written.
		if _, err := io.WriteString(writer, strings.Repeat("# not all yet\n", 20_000)); err != nil {
			t.Fatal(err)
		}
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if status := c.ProcessState.ExitCode(); status != exitTerminated || !strings.Contains(said.String(), "/dev/fd/3: stopped by terminated") {
			t.Errorf("%v: exit %d: %s", args, status, said.String())
		}
		for _, end := range []*os.File{reader, writer} {
			if err := end.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := io.WriteString(writer, "seed: 77\n"); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	c := process(dir, "mix", "--show-config", "--config", "/dev/fd/3")
	c.ExtraFiles = []*os.File{reader}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "seed: 77") {
		t.Errorf("through a pipe: %v\n%s", err, out)
	}
}

// A page or report is written to a FIFO when somebody reads it, and holds nothing that
// would be lost.
func TestOutputToAFIFOWaitsForItsReader(t *testing.T) {
	dir := inTempDir(t)
	for range 2 {
		if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:1xV100"); status != exitOK {
			t.Fatal(errs)
		}
	}
	if err := syscall.Mkfifo("fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"report", "--html", "fifo"}, {"export", "--markdown", "fifo"}, {"regress", "--baseline", "1", "--candidate", "2", "--report-junit", "fifo"}} {
		c := process(dir, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("fifo")
		if err != nil || len(text) == 0 {
			t.Errorf("%v: %d bytes (%v)", args, len(text), err)
		}
		_ = c.Wait() // with whatever the gate says
	}
}
