package installation

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// As a copy of the test's executable, this test says what is found.
func TestMain(m *testing.M) {
	if os.Getenv("FIND") == "" {
		os.Exit(m.Run())
	}
	path, found, err := Find("native/probe", "part.so", func(i fs.FileInfo) bool { return i.Mode().IsRegular() })
	fmt.Println(path, found, err)
}

func TestFind(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, text []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	exe := filepath.Join(root, "prefix/bin/caserun")
	write(exe, text)
	find := func() string {
		cmd := exec.Command(exe)
		cmd.Env, cmd.Dir = append(os.Environ(), "FIND=1"), filepath.Join(root)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if got := find(); got != " false <nil>\n" {
		t.Errorf("nowhere: %q", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "prefix/bin/part.so"), 0o700); err != nil { // a folder is not the part
		t.Fatal(err)
	}
	for _, place := range []string{"native/probe", "prefix/native/probe", "prefix/lib/caserun"} { // last first
		path := filepath.Join(root, place, "part.so")
		write(path, nil)
		if got, want := find(), path+" true <nil>\n"; got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	if err := os.Remove(filepath.Join(root, "prefix/bin/part.so")); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(root, "prefix/bin/part.so"), nil)
	if got, want := find(), filepath.Join(root, "prefix/bin/part.so")+" true <nil>\n"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}
