package parts

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

// publish publishes a text with a publisher of its own.
func publish(t *testing.T, dir, text string, number, attempt int) Part {
	t.Helper()
	return publishBy(t, &Publisher{dir: dir, number: number, attempt: attempt}, text)
}

func publishBy(t *testing.T, by *Publisher, text string) Part {
	t.Helper()
	p, err := by.Publish(written(t, text))
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

// fetched is the latest text of a number.
func fetched(t *testing.T, dir string, number int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fetched.db")
	if _, err := Fetch(dir, number, path); err != nil {
		t.Error(err)
	}
	text, _ := os.ReadFile(path)
	return string(text)
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
	first, anew, other := begin(t, dir, 7), begin(t, dir, 7), begin(t, dir, 12)
	for _, c := range []struct {
		by   *Publisher
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
	all, err := List(dir)
	if err != nil || len(all) != 5 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, p := range all {
		if i > 0 && later(all[i-1], p) >= 0 {
			t.Errorf("%+v is listed after %+v", p, all[i-1])
		}
	}
}

func begin(t *testing.T, dir string, number int) *Publisher {
	t.Helper()
	p, err := Begin(dir, number)
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
			p, err := Begin(dir, 3)
			if err != nil {
				t.Error(err)
				return
			}
			attempts <- p.Attempt()
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
	if p := begin(t, dir, 4); p.Attempt() != 0 {
		t.Errorf("another part begins with attempt %d", p.Attempt())
	}
	if _, err := Begin(filepath.Join(dir, "missing"), 3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// Sequences are numbers: the tenth thousandth file is later than the one before.
func TestOrderIsOfNumbers(t *testing.T) {
	dir := t.TempDir()
	by := &Publisher{dir: dir, number: 1, published: 9998}
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
	publish(t, dir, "first", 1, 0)
	second, third := publish(t, dir, "second", 1, 1), publish(t, dir, "third", 1, 2)
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
	if err := third.CopyTo(path); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), third.Path) {
		t.Errorf("copy of a broken file: %v", err)
	}
	if _, err := Fetch(dir, 2, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part that nobody has published: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("errors left a file: %v", err)
	}
}

// What is not a file was not published, whatever its name. A reader would wait for a FIFO.
func TestListIsOfFiles(t *testing.T) {
	dir := t.TempDir()
	whole := publish(t, dir, "whole", 1, 0)
	for attempt, put := range []func(path string) error{
		func(path string) error { return os.Symlink(whole.Path, path) },
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
		func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		p := Part{Number: 1, Attempt: attempt + 1, Sequence: 1, sum: whole.sum}
		if err := put(filepath.Join(dir, p.file())); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := List(dir); err != nil || len(all) != 1 || all[0] != whole {
		t.Errorf("%+v, %v; want the file alone", all, err)
	}
}

// While a file is fetched, a later one may replace it. Then that one is fetched.
func TestFetchOfAReplacedFile(t *testing.T) {
	dir := t.TempDir()
	by := begin(t, dir, 1)
	publishBy(t, by, "a")
	old, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	publishBy(t, by, "b")
	publishBy(t, by, "c")
	if _, again, err := fetch(old, 1, filepath.Join(t.TempDir(), "out")); !again || err != nil {
		t.Errorf("again %v, %v; want to list again", again, err)
	}
}

func TestFetchOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	publish(t, dir, "new", 1, 0)
	path := written(t, "old")
	if _, err := Fetch(dir, 1, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestFailedPublishLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := (&Publisher{dir: dir, number: 3}).Publish(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "publish part 3 in "+dir) {
		t.Errorf("%v", err)
	}
	if left := listed(t, dir); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// publisherVariable makes this test binary publish until it is killed, in this directory.
const publisherVariable = "PARTS_TEST_PUBLISH"

// However often publishers are killed, all files that are listed are whole, and none gets lost.
func TestKilledPublishers(t *testing.T) {
	if dir := os.Getenv(publisherVariable); dir != "" {
		by := begin(t, dir, 1)
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
		var last, next Part // said
		for err == nil {
			if _, err = fmt.Fscan(out, &next.Attempt, &next.Sequence); err == nil {
				last = next
				_ = c.Process.Kill() // after the first; what it says until it is dead was published too
			}
		}
		_ = c.Wait()
		all, err := List(dir)
		if err != nil || len(all) == 0 || last.Attempt != attempt || last.Sequence == 0 || later(all[len(all)-1], Part{Number: 1, Attempt: last.Attempt, Sequence: last.Sequence}) < 0 {
			t.Fatalf("%+v, %v: publication %d of attempt %d is lost", all, err, last.Sequence, last.Attempt)
		}
		for _, p := range all {
			if err := p.CopyTo(filepath.Join(t.TempDir(), "out")); err != nil {
				t.Error(err)
			}
		}
	}
}
