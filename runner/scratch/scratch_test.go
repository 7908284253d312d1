package scratch

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// harnessEnv makes the test binary a process that makes a directory, prints its path, and waits.
const harnessEnv = "SCRATCH_TEST_HARNESS"

func TestMain(m *testing.M) {
	if os.Getenv(harnessEnv) == "" {
		os.Exit(m.Run())
	}
	d, err := Make("test")
	if err == nil {
		err = os.WriteFile(filepath.Join(d.Path(), "file"), nil, 0o600)
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(d.Path() + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// harness starts another process with a directory, and returns a function that kills the process.
func harness(t *testing.T) (dir string, kill func()) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), harnessEnv+"=1")
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	t.Cleanup(kill)
	said := make([]byte, 4096)
	n, err := out.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(said[:n])), kill
}

// Make removes directories of killed processes. It keeps directories that are in use, and
// directories that this package did not make.
func TestTheDeadLeaveNothing(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), "no [pattern")
	t.Setenv("TMPDIR", tmp)
	others := filepath.Join(tmp, prefix+"others")
	if err := os.MkdirAll(others, 0o700); err != nil {
		t.Fatal(err)
	}
	dead, kill := harness(t)
	alive, _ := harness(t)
	mine, err := Make("mine")
	if err != nil {
		t.Fatal(err)
	}
	want := func(paths ...string) {
		t.Helper()
		entries, err := os.ReadDir(tmp)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, e := range entries {
			found = append(found, filepath.Join(tmp, e.Name()))
		}
		slices.Sort(paths)
		if !slices.Equal(found, paths) {
			t.Fatalf("the temporary directory holds %q, want %q", found, paths)
		}
	}
	want(others, dead, alive, mine.Path())
	kill()
	want(others, dead, alive, mine.Path())
	second, err := Make("second")
	if err != nil {
		t.Fatal(err)
	}
	want(others, alive, mine.Path(), second.Path())
	for _, d := range []*Dir{mine, second} {
		if info, err := os.Stat(d.Path()); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v; want mode 0700", d.Path(), info, err)
		}
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	}
	want(others, alive)
}

// Processes that start at once do not take each other's directories.
func TestManyAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	made := make(chan *Dir)
	for range 50 {
		go func() {
			d, err := Make("many")
			if err != nil {
				t.Error(err)
			}
			made <- d
		}()
	}
	for range 50 {
		d := <-made
		if d == nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(d.Path(), marker)); err != nil {
			t.Error(err)
		}
	}
}

func TestNoTemporaryDirectory(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := Make("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// A TMPDIR that cannot be used is named as such.
func TestUnusableTMPDIR(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{filepath.Join(t.TempDir(), "missing"), file, "/proc"} {
		t.Setenv("TMPDIR", named)
		if _, err := Make("test"); err == nil || !strings.Contains(err.Error(), "TMPDIR="+named+" cannot be used") {
			t.Errorf("TMPDIR=%s: %v", named, err)
		}
	}
}

// A directory that a job has locked is removed too.
func TestRemoveLocked(t *testing.T) {
	d, err := Make("test")
	if err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(d.Path(), "a", "b")
	err = errors.Join(os.MkdirAll(inner, 0o700), os.WriteFile(filepath.Join(inner, "file"), nil, 0o600), os.Chmod(inner, 0), os.Chmod(filepath.Dir(inner), 0), os.Chmod(d.Path(), 0))
	if err := errors.Join(err, d.Remove()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there still: %v", err)
	}
}
