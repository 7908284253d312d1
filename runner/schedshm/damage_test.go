package schedshm_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/runner/schedshm"
)

// rewrite changes bytes of a file in place.
func rewrite(t *testing.T, path string, at int64, text []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(text, at); err != nil {
		t.Fatal(err)
	}
}

var nonsense = []byte(strings.Repeat("nonsense", 1<<12))

const (
	configSize = 680
	booksAt    = 2808 // both copies
	booksSize  = 61480
)

// damages are changes to a state file after which clients go on.
var damages = map[string]func(t *testing.T, path string){
	"books":  func(t *testing.T, path string) { rewrite(t, path, booksAt, nonsense[:30000]) },
	"copies": func(t *testing.T, path string) { damageCopies(t, path) },
	"books and backup": func(t *testing.T, path string) {
		damageCopies(t, path)
		rewrite(t, path+".backup", configSize, nonsense[:8])
	},
	"configuration": func(t *testing.T, path string) { rewrite(t, path, 0, nonsense[:configSize]) },
	"all":           func(t *testing.T, path string) { damageCopies(t, path); rewrite(t, path, 0, nonsense[:configSize]) },
	"truncated":     func(t *testing.T, path string) { truncate(t, path, 100) },
	"emptied":       func(t *testing.T, path string) { truncate(t, path, 0) },
	"extended":      func(t *testing.T, path string) { truncate(t, path, 1<<20) },
}

func damageCopies(t *testing.T, path string) {
	rewrite(t, path, booksAt, nonsense[:1000])
	rewrite(t, path, booksAt+booksSize, nonsense[:1000])
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// Living clients re-enter their holdings and requests in a file that was damaged.
func TestDamagedFile(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			a := newShared(t, plain, "fifo").(*shared)
			s := scene{t, a}
			ended := s.holds(0, 100)
			holder, waiter := s.holds(0, 600), s.waits(0, 700, 0)
			ended.Finish() // writes a backup, and frees nothing that the waiter needs
			damage(t, a.path)
			holder.Say("grow t %d", mib)
			holder.Hear(granted)
			s.wait(1)
			s.uses(601*mib + 1024)
			s.free(holder)
			waiter.Hear(granted)
			waiter.Finish()
			holder.Finish()
			s.settled()
		})
	}
}

// A flipped bit of the configuration is restored from the backup, wherever it is: no later client believes
// that the file is of another version, or runs unscheduled.
func TestFlippedConfiguration(t *testing.T) {
	for _, bit := range []int64{3, 63, 64, 65, 95, 96, 127, 128, 200, 256, 300, 8*configSize - 1} {
		a := newShared(t, plain, "mmu").(*shared)
		flip(t, a.path, bit)
		c := start(t, append(a.env(0), "CASE_REQUIRED=0")...)
		c.Say("begin t 1")
		c.Hear(granted)
		c.Finish()
		if state := a.read(); state.Policy != "mmu" || len(state.Devices) != 1 || state.Devices[0].CapacityBytes != plain.capacity {
			t.Errorf("bit %d: the file says %+v", bit, state.Config)
		}
	}
}

func flip(t *testing.T, path string, bit int64) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at := bit / 8; at < int64(len(text)) {
		rewrite(t, path, at, []byte{text[at] ^ 1<<(bit%8)})
	}
}

// harm does something at random to the state file or its backup, at any moment of its clients.
func harm(t *testing.T, random *rand.Rand, path string, earlier *[]byte) {
	t.Helper()
	if random.IntN(8) == 0 {
		path += ".backup"
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	size := info.Size()
	// Most of the file is not in use.
	from := []int64{0, 0, configSize + 64, booksAt, booksAt, booksAt + booksSize, booksAt + booksSize}[random.IntN(7)]
	at := from + random.Int64N(200)
	if random.IntN(8) == 0 {
		at = random.Int64N(size + 1)
	}
	switch random.IntN(7) {
	case 0:
		truncate(t, path, []int64{0, at, size + 4096}[random.IntN(3)])
	case 1: // with a hole where it was
		truncate(t, path, at)
		truncate(t, path, size)
	case 2:
		rewrite(t, path, at, nonsense[:1+random.IntN(4096)])
	case 3:
		rewrite(t, path, at, make([]byte, 1+random.IntN(4096)))
	case 4: // what it was at an earlier moment
		if len(*earlier) > 0 {
			rewrite(t, path, 0, *earlier)
		}
	default:
		flip(t, path, 8*at+random.Int64N(8))
	}
	if *earlier, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
}

// A client whose file is truncated in the middle of its critical section goes on, and makes the file whole.
func TestTruncatedAtEachPoint(t *testing.T) {
	for _, point := range points[:5] {
		for _, size := range []int{0, 100, 800, booksAt + 10, booksAt + booksSize + 10} {
			s := scene{t, newShared(t, node{capacity: 1000 * mib}, "fifo")}
			v := churn(t, s, rand.New(rand.NewPCG(uint64(size), 0)), point, "3", strconv.Itoa(size))
			if err := v.cmd.Wait(); err != nil {
				t.Errorf("truncated to %d bytes at the point %q: %v\n%s", size, point, err, v.said)
			}
			v.in.Close()
			s.holds(0, 999).Finish()
			s.settled()
		}
	}
}

// An earlier state that a client without a part in the later one takes for the latest leaves nothing behind: each
// client finds what it no longer has, or no longer asks for, when it next comes to the file.
func TestEarlierStateThatAnotherClientGoesOnWith(t *testing.T) {
	a := newShared(t, node{capacity: 1000 * mib}, "mmu").(*shared)
	s := scene{t, a}
	first := s.holds(0, 900)
	second := s.waits(0, 500, 0)
	other := s.holds(0, 10)
	earlier, err := os.ReadFile(a.path)
	if err != nil {
		t.Fatal(err)
	}
	s.free(first)
	second.Hear(granted)
	s.free(second)
	rewrite(t, a.path, 0, earlier)
	for range 10 {
		s.free(other)
		other.Say("begin t %d", 10*mib)
		other.Hear(granted)
	}
	for _, c := range []*client{second, first} {
		c.Say("begin t %d", 20*mib)
		c.Hear(granted)
	}
	if s.waiting() != 0 || s.used()/mib != 50 {
		t.Errorf("%d requests wait and %d MiB are in use, want none and 50", s.waiting(), s.used()/mib)
	}
	for _, c := range []*client{first, second, other} {
		s.free(c)
		c.Finish()
	}
	s.settled()
}

// Whatever happens to the file, no client dies of it or runs unscheduled: it goes on, or says what is
// wrong with the file.
func TestHarmedFile(t *testing.T) {
	for seed := range chance.Seeds(t, 4, 200) {
		random := rand.New(rand.NewPCG(seed, 0))
		a := newShared(t, node{capacity: 1000 * mib, context: 10 * mib}, orders[random.IntN(len(orders))]).(*shared)
		s := scene{t, a}
		var crowd []victim
		for range 3 {
			crowd = append(crowd, churn(t, s, random))
		}
		var earlier []byte
		for range 20 {
			for range 1 + random.IntN(20) {
				harm(t, random, a.path, &earlier)
			}
			c := start(t, append(a.env(0), "CASE_REQUIRED=0")...)
			c.Say("wait none")
			c.Say("begin t 1")
			answer := c.Line()
			said := c.Finish()
			if strings.Contains(said, "unscheduled") || (answer == "t 2 -1 0\n" && !strings.Contains(said, "state file")) {
				t.Errorf("seed %d: a new client said %q and %q", seed, answer, said)
			}
		}
		for _, v := range crowd {
			v.in.Close()
			if err := v.cmd.Wait(); err != nil && !strings.Contains(v.said.String(), "state file") {
				t.Errorf("seed %d: a client ended with %v\n%s", seed, err, v.said)
			}
		}
	}
}

// A client that finds a damaged file when it starts uses the backup's configuration.
func TestStartsOnDamagedFile(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			a := newShared(t, plain, "mmu").(*shared)
			damage(t, a.path)
			s := scene{t, a}
			s.holds(0, 1024).Finish()
			if state := a.read(); state.Policy != "mmu" || len(state.Devices) != 1 || state.Devices[0].CapacityBytes != plain.capacity {
				t.Errorf("the file says %+v", state.Config)
			}
		})
	}
}

// Files of another version or of another user are left alone, and a program does not run beside them
// unscheduled, whether or not its environment requires a scheduler.
func TestForeignFile(t *testing.T) {
	for want, change := range map[string]func(t *testing.T, path string){
		"is of version 9": func(t *testing.T, path string) {
			rewrite(t, path, 8, binary.LittleEndian.AppendUint32(nil, 9))
			rewrite(t, path+".backup", 8, binary.LittleEndian.AppendUint32(nil, 9))
		},
		"is not a file of this user": func(t *testing.T, path string) {
			if os.Remove(path) != nil || os.Mkdir(path, 0o700) != nil {
				t.Fatal("no directory in its place")
			}
		},
	} {
		a := newShared(t, plain, "fifo").(*shared)
		change(t, a.path)
		before, _ := os.ReadFile(a.path)
		for _, required := range []string{"CASE_REQUIRED=1", "CASE_REQUIRED=0"} {
			c := start(t, append(a.env(0), required)...)
			c.Say("begin t 1")
			c.Hear("t 2 -1 0")
			if text := c.Finish(); !strings.Contains(text, want) && !strings.Contains(text, "Is a directory") {
				t.Errorf("stderr %q, want %q", text, want)
			}
		}
		if after, _ := os.ReadFile(a.path); string(after) != string(before) {
			t.Errorf("%s: the file was changed", want)
		}
	}
}

func alone(t *testing.T, path string, env ...string) []string {
	t.Helper()
	dir := filepath.Join(nativetest.Build(t, "nvml"), "build")
	return append([]string{"CASE_SHARED=" + path, "CASE_REQUIRED=1", "LD_LIBRARY_PATH=" + dir}, env...)
}

// Without a run any client that is the first makes the file, with the devices that NVML reports.
func TestMadeByTheFirstClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	var clients []*client
	for range 8 {
		clients = append(clients, start(t, alone(t, path, "FAKE_GPUS=3", "SCHEDGPU_QUEUE=priority-mmu")...))
		clients[len(clients)-1].Say("on t 1 %d", 1<<30)
	}
	for _, c := range clients {
		c.Hear("t 0 1 16") // device 1 of the stand-in in PCI bus order, whose UUID is 10...
	}
	state, err := schedshm.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if state.Policy != "priority-mmu" || len(state.Devices) != 3 || len(state.Holdings) != 8 {
		t.Errorf("the file says %+v, %+v", state.Config, state.Holdings)
	}
	for i, d := range state.Devices {
		if d.Ordinal != i || d.UUID != [16]byte{byte(i << 4)} || d.CapacityBytes != 16<<30 || d.ContextBytes != 576*mib {
			t.Errorf("device %d: %+v", i, d)
		}
	}
	for _, c := range clients {
		c.Finish()
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A client that cannot make the file says why.
func TestCannotMakeTheFile(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full.so")
	build := exec.Command("cc", "-shared", "-fPIC", "-xc", "-o", full, "-")
	build.Stdin = strings.NewReader("#include <errno.h>\nint posix_fallocate(int f, long o, long n) { (void)f, (void)o, (void)n; return ENOSPC; }\n")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for want, env := range map[string][]string{
		"No space left on device": {"LD_PRELOAD=" + full},
		"SCHEDGPU_QUEUE is lifo":  {"SCHEDGPU_QUEUE=lifo"},
		"NVML finds no GPU":       {"FAKE_GPUS=0"},
	} {
		c := start(t, alone(t, filepath.Join(t.TempDir(), "state"), env...)...)
		c.Say("begin t 1")
		c.Hear("t 2 -1 0")
		if text := c.Finish(); !strings.Contains(text, want) {
			t.Errorf("stderr %q, want %q", text, want)
		}
	}
}

// A client of a run does not make a file: if the run's file is gone, nothing schedules.
func TestRemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	holder := start(t, alone(t, path)...)
	holder.Say("begin t %d", 10<<30)
	holder.Hear("t 0 0 0")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other := start(t, alone(t, path)...) // makes another file
	other.Say("begin t %d", mib)
	other.Hear("t 0 0 0")
	holder.Say("grow t %d", mib) // enters its holdings there
	holder.Hear("t 0 0 0")
	other.Say("wait none")
	other.Say("grow t %d", 10<<30)
	other.Hear("t 3 0 0")
}
