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
	if target := os.Getenv("MAKE"); target != "" {
		fmt.Println(Make(target))
		return
	}
	path, found, err := Find("native/probe", "part.so", func(i fs.FileInfo) bool { return i.Mode().IsRegular() })
	fmt.Println(path, found, err)
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
}

// installed copies the test's executable to prefix/bin/caserun of a folder, and returns the folder
// and a function that runs the copy there.
func installed(t *testing.T) (root string, run func(variables ...string) string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	root, err = filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(root, "prefix/bin/caserun")
	write(t, exe, text)
	return root, func(variables ...string) string {
		cmd := exec.Command(exe)
		cmd.Env, cmd.Dir = append(append(os.Environ(), "FIND=1"), variables...), root
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
}

func TestFind(t *testing.T) {
	root, find := installed(t)
	if got := find(); got != " false <nil>\n" {
		t.Errorf("nowhere: %q", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "prefix/bin/part.so"), 0o700); err != nil { // a folder is not the part
		t.Fatal(err)
	}
	for _, place := range []string{"native/probe", "prefix/native/probe", "prefix/lib/caserun"} { // last first
		path := filepath.Join(root, place, "part.so")
		write(t, path, nil)
		if got, want := find(), path+" true <nil>\n"; got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	if err := os.Remove(filepath.Join(root, "prefix/bin/part.so")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "prefix/bin/part.so"), nil)
	if got, want := find(), filepath.Join(root, "prefix/bin/part.so")+" true <nil>\n"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

// What is missing is made where its sources are: here, in the executable's tree, or else in a tree
// that the user has to get.
func TestMakeNamesTheTree(t *testing.T) {
	root, run := installed(t)
	expect := func(target, want string) {
		t.Helper()
		if got := run("MAKE=" + target); got != want+"\n" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("cuda", "run make cuda and make install in caserun's source tree, because "+root+"/prefix/bin/caserun was installed without it")
	write(t, filepath.Join(root, "prefix/benchmarks/rodinia/Makefile"), nil) // an archive has the suites' sources
	expect("cuda", "run make -C "+root+"/prefix cuda")
	expect("native", "run make native and make install in caserun's source tree, because "+root+"/prefix/bin/caserun was installed without it")
	write(t, filepath.Join(root, "native/probe/Makefile"), nil)
	expect("native", "run make native")
}
