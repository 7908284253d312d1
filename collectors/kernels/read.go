// Package kernels reads the files that the kernel tracer (native/tracer)
// writes, one for each process. docs/design/tracing.md describes them.
package kernels

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/ianlancetaylor/demangle"

	"github.com/caserun/caserun/userfile"
)

// Trace is the content of one file. Times are nanoseconds of the host's CLOCK_MONOTONIC.
type Trace struct {
	PID       uint32
	StartedNS int64
	Kernels   []Kernel // in the order of their launches
	Copies    []Copy
	Lost      uint64   // records that did not reach the file
	Torn      bool     // the process died while it wrote the last record, which is lost
	Ended     bool     // the process exited in order; else its last records may be missing
	Notes     []string // what went wrong in the tracer
}

// Device is a GPU's UUID; zeros if the tracer could not read it.
type Device [16]byte

// Kernel is one launch.
type Kernel struct {
	Name          string // demangled
	Grid, Block   [3]uint32
	Registers     uint32 // of each thread
	StaticShared  uint32 // bytes of each block
	DynamicShared uint32
	Device        Device
	Stream        uint32
	StartNS       int64
	EndNS         int64
	launch        uint32
}

// Copy is one copy or one cudaMemset.
type Copy struct {
	Kind    string // such as htod, or set
	Bytes   uint64
	Device  Device
	Stream  uint32
	StartNS int64
	EndNS   int64
	launch  uint32
}

// kinds are the sources and destinations of copies, by their numbers in native/tracer/trace.h.
var kinds = map[uint32]string{1: "htod", 2: "dtoh", 3: "htoa", 4: "atoh", 5: "atoa", 6: "atod", 7: "dtoa", 8: "dtod", 9: "htoh", 10: "ptop", 64: "set"}

// ReadFile reads the trace at path as Read does.
func ReadFile(path string) (Trace, error) {
	f, err := userfile.Open(path, 0)
	if err != nil {
		return Trace{}, fmt.Errorf("read kernel trace: %w", err)
	}
	defer f.Close()
	return read(f, path)
}

// read reads a trace; name is used in errors. A file that ends inside a record sets Torn. Any
// other content that the tracer does not write is an error with the offset of the record. read
// returns the preceding records beside the error.
func read(r io.Reader, name string) (Trace, error) {
	d := decoder{in: bufio.NewReaderSize(r, 1<<16), devices: map[uint32]Device{}}
	err := d.read()
	byLaunch := func(aLaunch, bLaunch uint32, aStart, bStart int64) int {
		return cmp.Or(cmp.Compare(aLaunch, bLaunch), cmp.Compare(aStart, bStart))
	}
	slices.SortStableFunc(d.out.Kernels, func(a, b Kernel) int { return byLaunch(a.launch, b.launch, a.StartNS, b.StartNS) })
	slices.SortStableFunc(d.out.Copies, func(a, b Copy) int { return byLaunch(a.launch, b.launch, a.StartNS, b.StartNS) })
	if err != nil {
		err = fmt.Errorf("read kernel trace %s: at byte %d: %w", name, d.at, err)
	}
	return d.out, err
}

// Sizes, types and limits of trace.h.
const (
	magic      = "CASETRC\n"
	version    = 1
	headerSize = 32
	maxText    = 8192

	typeName   = 1
	typeDevice = 2
	typeKernel = 3
	typeCopy   = 4
	typeLost   = 5
	typeNote   = 6
	typeEnd    = 7
)

// sizes of the records whose size is fixed.
var sizes = map[uint16]int{typeDevice: 24, typeKernel: 64, typeCopy: 48, typeLost: 16, typeEnd: 16}

var le = binary.LittleEndian

type decoder struct {
	in      *bufio.Reader
	at      int64 // offset of the record being read
	names   []string
	devices map[uint32]Device
	out     Trace
}

var errTorn = errors.New("the file ends within a record")

// fill fills b. It returns io.EOF if the file has no more bytes, and errTorn if it has too few.
func (d *decoder) fill(b []byte) error {
	_, err := io.ReadFull(d.in, b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

func (d *decoder) read() error {
	var b [headerSize]byte
	n, err := io.ReadFull(d.in, b[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if start := min(n, len(magic)); string(b[:start]) == magic[:start] {
			d.out.Torn = true // killed while it wrote the header
			return nil
		}
	} else if err != nil {
		return err
	}
	if string(b[:8]) != magic {
		return errors.New("not a kernel trace")
	}
	if v, size := le.Uint32(b[8:]), le.Uint32(b[12:]); v != version || size != headerSize {
		return fmt.Errorf("version %d with a header of %d bytes: this program reads version %d with %d", v, size, version, headerSize)
	}
	d.out.PID = le.Uint32(b[16:])
	if d.out.StartedNS, err = nanoseconds(b[24:]); err != nil {
		return err
	}
	buf := make([]byte, 8+maxText)
	for d.at = headerSize; ; {
		size, err := d.record(buf)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errTorn):
			d.out.Torn = true
			return nil
		case err != nil:
			return err
		}
		d.at += int64(size)
	}
}

// record reads one record and returns its size.
func (d *decoder) record(buf []byte) (int, error) {
	if err := d.fill(buf[:8]); err != nil {
		return 0, err
	}
	kind, size := le.Uint16(buf), int(le.Uint16(buf[2:]))
	want, fixed := sizes[kind]
	switch {
	case kind < typeName || kind > typeEnd:
		return 0, fmt.Errorf("unknown record type %d", kind)
	case fixed && size != want, size < 8 || size > len(buf) || size%8 != 0:
		return 0, fmt.Errorf("record of type %d has a size of %d bytes", kind, size)
	}
	if err := d.fill(buf[8:size]); size > 8 && errors.Is(err, io.EOF) {
		return 0, errTorn
	} else if err != nil {
		return 0, err
	}
	return size, d.take(kind, buf[:size])
}

func (d *decoder) take(kind uint16, b []byte) error {
	number := le.Uint32(b[4:])
	switch kind {
	case typeName:
		if int64(number) != int64(len(d.names)) {
			return fmt.Errorf("name %d follows %d names", number, len(d.names))
		}
		d.names = append(d.names, plain(text(b)))
	case typeDevice:
		d.devices[number] = Device(b[8:24])
	case typeKernel:
		return d.kernel(number, b)
	case typeCopy:
		return d.copy(number, b)
	case typeLost:
		if n := le.Uint64(b[8:]); n <= math.MaxInt64-d.out.Lost {
			d.out.Lost += n
		} else {
			return fmt.Errorf("%d lost records", n)
		}
	case typeNote:
		d.out.Notes = append(d.out.Notes, fmt.Sprintf("%s (%d)", text(b), number))
	case typeEnd:
		d.out.Ended = true
	}
	return nil
}

func (d *decoder) kernel(name uint32, b []byte) error {
	if int64(name) >= int64(len(d.names)) {
		return fmt.Errorf("kernel with name %d of %d", name, len(d.names))
	}
	start, end, err := interval(b[8:])
	if err != nil {
		return err
	}
	k := Kernel{Name: d.names[name], StartNS: start, EndNS: end, Registers: uint32(le.Uint16(b[42:])),
		StaticShared: le.Uint32(b[44:]), DynamicShared: le.Uint32(b[48:]), Stream: le.Uint32(b[52:]), launch: le.Uint32(b[56:])}
	for i := range 3 {
		k.Grid[i], k.Block[i] = le.Uint32(b[24+4*i:]), uint32(le.Uint16(b[36+2*i:]))
	}
	if k.Device, err = d.device(le.Uint32(b[60:])); err != nil {
		return err
	}
	d.out.Kernels = append(d.out.Kernels, k)
	return nil
}

func (d *decoder) copy(kind uint32, b []byte) error {
	start, end, err := interval(b[8:])
	if err != nil {
		return err
	}
	c := Copy{Kind: cmp.Or(kinds[kind], "other"), StartNS: start, EndNS: end, Bytes: le.Uint64(b[24:]), Stream: le.Uint32(b[32:]), launch: le.Uint32(b[36:])}
	if c.Bytes > math.MaxInt64 {
		return fmt.Errorf("copy of %d bytes", c.Bytes)
	}
	if c.Device, err = d.device(le.Uint32(b[40:])); err != nil {
		return err
	}
	d.out.Copies = append(d.out.Copies, c)
	return nil
}

func (d *decoder) device(ordinal uint32) (Device, error) {
	device, ok := d.devices[ordinal]
	if !ok {
		return device, fmt.Errorf("device %d is not introduced", ordinal)
	}
	return device, nil
}

func interval(b []byte) (start, end int64, err error) {
	if start, err = nanoseconds(b); err != nil {
		return 0, 0, err
	}
	if end, err = nanoseconds(b[8:]); err != nil {
		return 0, 0, err
	}
	if end < start {
		return 0, 0, fmt.Errorf("it ends at %d ns, before it starts at %d", end, start)
	}
	return start, end, nil
}

func nanoseconds(b []byte) (int64, error) {
	ns := le.Uint64(b)
	if ns > math.MaxInt64 {
		return 0, fmt.Errorf("time of %d ns", ns)
	}
	return int64(ns), nil
}

// text returns the text of a record, which follows its header, without padding.
func text(b []byte) string {
	return string(bytes.ToValidUTF8(bytes.TrimRight(b[8:], "\x00"), []byte("\uFFFD")))
}

// plain demangles a kernel's name. It returns other names unchanged.
func plain(name string) string {
	return demangle.Filter(name, demangle.MaxLength(16))
}
