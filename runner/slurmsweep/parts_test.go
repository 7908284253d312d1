package slurmsweep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// publishText publishes a text with a publisher of its own.
func publishText(t *testing.T, dir, text string, number, attempt int) partFile {
	t.Helper()
	return publishBy(t, &publisher{dir: dir, number: number, attempt: attempt}, text)
}

func publishBy(t *testing.T, by *publisher, text string) partFile {
	t.Helper()
	p, err := by.publish(written(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// listed are the files without their sums.
func listed(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if at := strings.LastIndexByte(name, '-'); at > 0 {
			name = name[:at]
		}
		out = append(out, name)
	}
	return out
}

func TestPublish(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	first, anew, other := begun(t, dir, 7), begun(t, dir, 7), begun(t, dir, 12)
	for _, c := range []struct {
		by   *publisher
		text string
	}{
		{first, "a"}, {first, "b"}, {first, "c"}, {first, "c"}, // the same once more
		{anew, "d"},
		{first, "e"},                             // a process that was given up goes on
		{other, "f"}, {other, "b"}, {other, "f"}, // what was there before
	} {
		publishBy(t, c.by, c.text)
	}
	want := []string{"README", "begun-00007", "begun-00007", "begun-00012", "part-00007-0-0003", "part-00007-0-0004", "part-00007-1-0001", "part-00012-0-0002", "part-00012-0-0003"}
	if diff := cmp.Diff(want, listed(t, dir)); diff != "" {
		t.Error(diff)
	}
	for number, want := range map[int]string{7: "d", 12: "f"} {
		if got := fetched(t, dir, number); got != want {
			t.Errorf("part %d is %q, want %q", number, got, want)
		}
	}
	all, err := listParts(dir)
	if err != nil || len(all) != 5 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, p := range all {
		if i > 0 && later(all[i-1], p) >= 0 {
			t.Errorf("%+v is listed after %+v", p, all[i-1])
		}
	}
}

func begun(t *testing.T, dir string, number int) *publisher {
	t.Helper()
	p, err := begin(dir, number)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Attempts that begin at once are different ones.
func TestAttemptsAreUnique(t *testing.T) {
	dir := t.TempDir()
	const n = 20
	attempts := make(chan int, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			p, err := begin(dir, 3)
			if err != nil {
				t.Error(err)
				return
			}
			attempts <- p.attempt
		})
	}
	all.Wait()
	close(attempts)
	seen := map[int]bool{}
	for a := range attempts {
		seen[a] = true
	}
	if len(seen) != n || !seen[0] || !seen[n-1] {
		t.Errorf("attempts %v, want 0 to %d", seen, n-1)
	}
	if p := begun(t, dir, 4); p.attempt != 0 {
		t.Errorf("another part begins with attempt %d", p.attempt)
	}
	if _, err := begin(filepath.Join(dir, "missing"), 3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// Sequences are numbers: the tenth thousandth file is later than the one before.
func TestOrderIsOfNumbers(t *testing.T) {
	dir := t.TempDir()
	by := &publisher{dir: dir, number: 1, published: 9998}
	publishBy(t, by, "a")
	if p := publishBy(t, by, "b"); p.Sequence != 10000 {
		t.Errorf("%+v", p)
	}
	if got := fetched(t, dir, 1); got != "b" {
		t.Errorf("the latest is %q, want b", got)
	}
}

// Fetch takes the latest file that is whole, and leaves nothing of the others.
func TestFetchSkipsBrokenFiles(t *testing.T) {
	dir := t.TempDir()
	publishText(t, dir, "first", 1, 0)
	second, third := publishText(t, dir, "second", 1, 1), publishText(t, dir, "third", 1, 2)
	for _, damage := range []func() error{
		func() error { return os.Truncate(third.Path, 4) },
		func() error { return os.WriteFile(second.Path, []byte("sacond"), 0o644) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, temporary+"1"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := fetched(t, dir, 1); got != "first" {
		t.Errorf("the latest whole file is %q, want first", got)
	}
	path := filepath.Join(t.TempDir(), "out")
	if err := third.copyTo(path); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), third.Path) {
		t.Errorf("copy of a broken file: %v", err)
	}
	if _, err := fetch(dir, 2, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part that nobody has published: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("errors left a file: %v", err)
	}
}

// What is not a file was not published, whatever its name. A reader would wait for a FIFO.
func TestListIsOfFiles(t *testing.T) {
	dir := t.TempDir()
	whole := publishText(t, dir, "whole", 1, 0)
	for attempt, put := range []func(path string) error{
		func(path string) error { return os.Symlink(whole.Path, path) },
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
		func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		p := partFile{Number: 1, Attempt: attempt + 1, Sequence: 1, sum: whole.sum}
		if err := put(filepath.Join(dir, p.file())); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := listParts(dir); err != nil || len(all) != 1 || all[0] != whole {
		t.Errorf("%+v, %v; want the file alone", all, err)
	}
}

// While a file is fetched, a later one may replace it. Then that one is fetched.
func TestFetchOfAReplacedFile(t *testing.T) {
	dir := t.TempDir()
	by := begun(t, dir, 1)
	publishBy(t, by, "a")
	old, err := listParts(dir)
	if err != nil {
		t.Fatal(err)
	}
	publishBy(t, by, "b")
	publishBy(t, by, "c")
	if _, again, err := fetchFrom(old, 1, filepath.Join(t.TempDir(), "out")); !again || err != nil {
		t.Errorf("again %v, %v; want to list again", again, err)
	}
}

func TestFetchOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	publishText(t, dir, "new", 1, 0)
	path := written(t, "old")
	if _, err := fetch(dir, 1, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestFailedPublishLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := (&publisher{dir: dir, number: 3}).publish(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "publish part 3 in "+dir) {
		t.Errorf("%v", err)
	}
	if left := listed(t, dir); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// publisherVariable makes this test binary publish until it is killed, in this directory.
const publisherVariable = "SLURMSWEEP_TEST_PUBLISH"

// However often publishers are killed, all files that are listed are whole, and none gets lost.
func TestKilledPublishers(t *testing.T) {
	if dir := os.Getenv(publisherVariable); dir != "" {
		by := begun(t, dir, 1)
		for i := 1; ; i++ {
			p := publishBy(t, by, strings.Repeat(fmt.Sprint(os.Getpid(), i), 100_000))
			fmt.Println(p.Attempt, p.Sequence)
		}
	}
	dir := t.TempDir()
	for attempt := range 10 {
		c := exec.Command(os.Args[0], "-test.run=^TestKilledPublishers$")
		c.Env = append(os.Environ(), publisherVariable+"="+dir)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var last, next partFile // said
		for err == nil {
			if _, err = fmt.Fscan(out, &next.Attempt, &next.Sequence); err == nil {
				last = next
				_ = c.Process.Kill() // after the first; what it says until it is dead was published too
			}
		}
		_ = c.Wait()
		all, err := listParts(dir)
		if err != nil || len(all) == 0 || last.Attempt != attempt || last.Sequence == 0 || later(all[len(all)-1], partFile{Number: 1, Attempt: last.Attempt, Sequence: last.Sequence}) < 0 {
			t.Fatalf("%+v, %v: publication %d of attempt %d is lost", all, err, last.Sequence, last.Attempt)
		}
		for _, p := range all {
			if err := p.copyTo(filepath.Join(t.TempDir(), "out")); err != nil {
				t.Error(err)
			}
		}
	}
}
