package schedshm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fixture reads bytes that native/probe/tests/wire_test.c checks too.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../native/probe/testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)#.*$|\s`).ReplaceAll(text, nil)
	b, err := hex.DecodeString(string(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

// sample has the values of the fixtures.
func sample() Config {
	return Config{Policy: "priority-fifo", WaitLimit: 30 * time.Second, Devices: []Device{{Ordinal: 2, CapacityBytes: 16 << 30, ContextBytes: 576 << 20,
		UUID: [16]byte{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}}}}
}

var (
	client  = Process{PID: 4242, Instance: 17, Started: 123456, Code: 0x555555554000, Stack: 0x7ffffffde000}
	holding = Holding{Process: client, Bytes: 3 << 30, Device: 0, Tasks: 2}
	request = Request{Process: client, ID: 123456789012345, Bytes: 1 << 30, ExpiresNS: 123456789999999, Priority: -5, Device: 0, Grows: 1, Answer: 0}
)

// TestLayout compares the written file with fixtures that the C side writes too.
func TestLayout(t *testing.T) {
	c, err := sample().raw()
	if err != nil {
		t.Fatal(err)
	}
	if len(encode(c)) != configSize || len(encode(rawBooks{})) != booksHead || len(encode(holding)) != holdingSize || len(encode(request)) != requestSize {
		t.Fatalf("sizes %d %d %d %d", len(encode(c)), len(encode(rawBooks{})), len(encode(holding)), len(encode(request)))
	}
	counts := rawCounts{Sequence: 42, Epoch: 987654321, LastID: 123456789012345, Holdings: 1, Requests: 1}
	books := rawBooks{sum(encode(counts)) ^ sum(encode(holding)) ^ sum(encode(request))*3, counts}
	for name, written := range map[string][]byte{
		"shared_config": encode(c)[:80], "shared_books": encode(books), "shared_holding": encode(holding), "shared_request": encode(request),
	} {
		if diff := cmp.Diff(hex.Dump(fixture(t, name)), hex.Dump(written)); diff != "" {
			t.Errorf("%s differs from its fixture (-fixture +written):\n%s", name, diff)
		}
	}
}

func TestCreateAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Create(path, sample()); err != nil {
		t.Fatal(err)
	}
	s, err := Read(path)
	if diff := cmp.Diff(State{Config: sample(), Holdings: []Holding{}, Requests: []Request{}}, s); err != nil || diff != "" {
		t.Errorf("read %v:\n%s", err, diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestReadBooks checks that Read uses the committed copy of the books.
func TestReadBooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Create(path, sample()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	books := text[booksAt+booksSize:]
	copy(books, fixture(t, "shared_books"))
	copy(text[committedAt:], books[:8])
	copy(books[booksHead:], fixture(t, "shared_holding"))
	copy(books[requestsAt:], fixture(t, "shared_request"))
	s, err := parse(text)
	if err != nil || len(s.Holdings) != 1 || s.Holdings[0] != holding || len(s.Requests) != 1 || s.Requests[0] != request {
		t.Errorf("read %+v: %v", s, err)
	}
	if used := s.Used(0); used != 3<<30+576<<20 {
		t.Errorf("%d bytes used", used)
	}
	for _, at := range []int{0, 9, 40, committedAt, booksAt + booksSize, booksAt + booksSize + 32, booksAt + booksSize + 41} {
		damaged := bytes.Clone(text)
		damaged[at] ^= 0x40
		if _, err := parse(damaged); !errors.Is(err, errDamaged) {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
	if _, err := parse(text[:100]); !errors.Is(err, errDamaged) {
		t.Errorf("100 bytes: %v", err)
	}
}

// Whatever a file's bytes are, they are read as the state that they are or refused.
func TestParsesAnything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Create(path, sample()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(47, 0))
	for range 500 {
		text := bytes.Clone(whole)
		from := []int{0, committedAt, booksAt, booksAt + booksSize}[random.IntN(4)]
		bit := 8*from + random.IntN(8*booksHead)
		text[bit/8] ^= 1 << (bit % 8)
		s, err := parse(text)
		if err == nil && !cmp.Equal(s, State{Config: sample(), Holdings: []Holding{}, Requests: []Request{}}) {
			t.Errorf("bit %d flipped: read %+v", bit, s)
		}
		if err != nil && !errors.Is(err, errDamaged) {
			t.Errorf("bit %d flipped: %v", bit, err)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Policy = "largest-first" },
		func(c *Config) { c.WaitLimit = -1 },
		func(c *Config) { c.Devices = nil },
		func(c *Config) { c.Devices = make([]Device, maxDevices+1) },
		func(c *Config) { c.Devices[0].CapacityBytes = 0 },
	} {
		c := sample()
		change(&c)
		if err := Create(filepath.Join(t.TempDir(), "state"), c); err == nil {
			t.Errorf("made a file of %+v", c)
		}
	}
}
