package kernels

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sample is what native/tracer/tests/sample.c writes.
const samplePath = "../../native/tracer/testdata/sample.trace"

func sample(tb testing.TB) []byte {
	tb.Helper()
	content, err := os.ReadFile(samplePath)
	if err != nil {
		tb.Fatal(err)
	}
	return content
}

func wantSample() Trace {
	var device Device
	for i := range device {
		device[i] = byte(0xa0 + i)
	}
	fill := Kernel{Name: "fill(float*, int)", Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{256, 2, 1}, Registers: 32,
		StaticShared: 4096, DynamicShared: 1024, Device: device, Stream: 7, StartNS: 1000000100, EndNS: 1000000350}
	sum := Kernel{Name: "sum", Grid: [3]uint32{0x7fffffff, 65535, 65535}, Block: [3]uint32{1024, 1, 1}, Registers: 255,
		Device: device, Stream: 13, StartNS: 1000000400, EndNS: 1000000400}
	up := Copy{Kind: "htod", Bytes: 5 << 30, Device: device, Stream: 7, StartNS: 1000000000, EndNS: 1000000050}
	set := up
	set.Kind, set.Bytes = "set", 3
	return Trace{PID: 4242, StartedNS: 999999999, Kernels: []Kernel{sum, fill, fill}, // sum was launched first
		Copies: []Copy{up, set}, Lost: 5, Ended: true, Notes: []string{"cuptiActivityEnable: a sample (8)"}}
}

var ignoreOrder = cmpopts.IgnoreUnexported(Kernel{}, Copy{})

func TestReadsWhatTheTracerWrites(t *testing.T) {
	got, err := ReadFile(samplePath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantSample(), got, ignoreOrder); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// boundaries returns the offsets at which records begin, and the end of the file.
func boundaries(content []byte) map[int]bool {
	at := map[int]bool{}
	for i := headerSize; i < len(content); i += int(binary.LittleEndian.Uint16(content[i+2:])) {
		at[i] = true
	}
	at[len(content)] = true
	return at
}

// A file that kill -9 truncated anywhere is readable up to its end.
func TestReadsATornFile(t *testing.T) {
	content := sample(t)
	whole := boundaries(content)
	records := 0
	for n := range len(content) {
		got, err := read(bytes.NewReader(content[:n]), "torn")
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if got.Torn == whole[n] {
			t.Errorf("cut at %d: torn is %t", n, got.Torn)
		}
		if have := len(got.Kernels) + len(got.Copies); have < records {
			t.Errorf("cut at %d: %d records, fewer than from a shorter file", n, have)
		} else {
			records = have
		}
		if got.Ended && n < len(content)-16 {
			t.Errorf("cut at %d: ended before its last record", n)
		}
	}
	if records != 5 {
		t.Errorf("the longest torn file has %d records, want 5", records)
	}
}

func TestRefusesWhatTheTracerDoesNotWrite(t *testing.T) {
	const device, firstCopy, name, kernel = 0x20, 0x38, 0x68, 0x80
	for _, c := range []struct {
		why     string
		at      int
		bytes   string
		want    string
		kernels int
	}{
		{"magic", 0, "X", "at byte 0: not a kernel trace", 0},
		{"version", 8, "\x02", "version 2", 0},
		{"type 0", device, "\x00", "at byte 32: unknown record type 0", 0},
		{"type 8", firstCopy, "\x08", "at byte 56: unknown record type 8", 0},
		{"size of a device", device + 2, "\x20", "type 2 has a size of 32 bytes", 0},
		{"size of a name", name + 2, "\x19", "type 1 has a size of 25 bytes", 0},
		{"a size of 0", name + 2, "\x00", "type 1 has a size of 0 bytes", 0},
		{"number of a name", name + 4, "\x07", "at byte 104: name 7 follows 0 names", 0},
		{"name of a kernel", kernel + 4, "\x01", "at byte 128: kernel with name 1 of 1", 0},
		{"end of a kernel", kernel + 16, "\x00\x00\x00\x00", "before it starts", 0},
		{"start of a kernel", kernel + 15, "\x80", "time of", 0},
		{"device of a kernel", kernel + 60, "\x09", "device 9 is not introduced", 0},
		{"bytes of a copy", firstCopy + 31, "\xff", "copy of", 0},
		{"third kernel", 0x110 + 4, "\x09", "at byte 272: kernel with name 9 of 2", 2},
	} {
		content := sample(t)
		copy(content[c.at:], c.bytes)
		got, err := read(bytes.NewReader(content), "some/77.trace")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "some/77.trace") {
			t.Errorf("%s: error %v, want one with %q and the file's name", c.why, err, c.want)
		}
		if len(got.Kernels) != c.kernels {
			t.Errorf("%s: %d kernels are kept, want %d", c.why, len(got.Kernels), c.kernels)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none.trace")); err == nil {
		t.Error("a file that is not there was read")
	}
	fifo := filepath.Join(t.TempDir(), "1.trace") // a job may create a FIFO there
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(fifo); err == nil || !strings.Contains(err.Error(), fifo) {
		t.Errorf("a FIFO: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	content := sample(f)
	f.Add(content)
	f.Add(content[:100])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := read(bytes.NewReader(content), "fuzz")
		if err != nil && got.Torn {
			t.Errorf("a torn file is an error: %v", err)
		}
		if kept := 64*len(got.Kernels) + 48*len(got.Copies); kept > len(content) {
			t.Errorf("records of %d bytes from a file of %d", kept, len(content))
		}
		for _, k := range got.Kernels {
			if k.StartNS < 0 || k.EndNS < k.StartNS {
				t.Errorf("kernel from %d to %d", k.StartNS, k.EndNS)
			}
		}
	})
}
