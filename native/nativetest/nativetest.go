// Package nativetest builds the native parts that tests run. go test then sees what they are built
// from, so that it never answers from its cache for other sources or flags.
package nativetest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// native is the directory of the native parts. A test begins in the directory of its package.
var native, errNative = func() (string, error) {
	here, err := os.Getwd()
	for dir := here; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "native"), nil
		}
	}
	return "", fmt.Errorf("no go.mod above %s: %w", here, err)
}()

// built has a func() error for each part and its targets.
var built sync.Map

// Build has make build targets of a part, which is a directory under native such as "probe", and returns the part's
// absolute path. It does so once a process. Processes that build wait for one another.
func Build(tb testing.TB, part string, targets ...string) string {
	tb.Helper()
	if errNative != nil {
		tb.Fatal(errNative)
	}
	once, _ := built.LoadOrStore(part+" "+strings.Join(targets, " "), sync.OnceValue(func() error { return build(part, targets) }))
	if err := once.(func() error)(); err != nil {
		tb.Fatalf("build %s of native/%s: %v", strings.Join(targets, " "), part, err)
	}
	return filepath.Join(native, part)
}

func build(part string, targets []string) error {
	lock, err := os.OpenFile(filepath.Join(native, ".lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return err
	}
	c := exec.Command("make", append([]string{"-C", filepath.Join(native, part), "-j", strconv.Itoa(runtime.NumCPU())}, targets...)...)
	for _, variable := range os.Environ() {
		// A make that runs the tests would hand over its flags, and a job server that this make cannot reach.
		if name, _, _ := strings.Cut(variable, "="); name != "MAKEFLAGS" && name != "MFLAGS" && name != "MAKELEVEL" {
			c.Env = append(c.Env, variable)
		}
	}
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return visit()
}

// visit asks for the state of each source and of the flags that were last built with (build/flags). go test notes
// these files as input of the test: it runs the test again when one has changed.
func visit() error {
	return filepath.WalkDir(native, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() != "build" {
				return nil
			}
			if _, err := os.Stat(filepath.Join(path, "flags")); err != nil && !os.IsNotExist(err) {
				return err
			}
			return fs.SkipDir
		}
		switch filepath.Ext(path) {
		case ".a", ".so", ".link", ".lock", ".go": // are built, or no source
			return nil
		}
		_, err = os.Stat(path)
		return err
	})
}
