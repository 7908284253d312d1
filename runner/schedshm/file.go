// Package schedshm makes and reads the state file of schedGPU's shared-memory architecture, in
// which clients decide for themselves who gets which memory. native/probe/shared/state.h specifies
// the file.
package schedshm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Policies are the names of schedGPU's four policies, in the order of enum case_shared_policy.
var Policies = []string{"fifo", "mmu", "priority-fifo", "priority-mmu"}

// Config is the constant part of a state file.
type Config struct {
	Policy    string        // one of Policies
	WaitLimit time.Duration // default limit of a request's wait; 0: no limit
	Devices   []Device      // the first is the default device of requests
}

// Device is a GPU that clients share.
type Device struct {
	UUID          [16]byte
	Ordinal       int   // for cudaSetDevice
	CapacityBytes int64 // for all clients together
	ContextBytes  int64 // for each client, from its first grant to its end
}

// State is the content of a file at one moment.
type State struct {
	Config
	Holdings []Holding
	Requests []Request // by arrival
}

// Process identifies a client by values from /proc/PID/stat.
type Process struct {
	PID, Instance        uint32
	Started, Code, Stack uint64
}

// Holding is the memory that a client holds on a device, without its context.
type Holding struct {
	Process Process
	Bytes   uint64
	Device  uint32 // index in Config.Devices
	Tasks   uint32
}

// Request is a client's request for memory.
type Request struct {
	Process   Process
	ID        uint64
	Bytes     uint64
	ExpiresNS uint64 // CLOCK_MONOTONIC; 0: never
	Priority  int32
	Device    uint32
	Grows     uint32 // 1: more memory for a task that already has its device
	Answer    uint32 // 0: the request waits
}

// Used returns the memory that clients hold on a device, contexts included.
func (s State) Used(device int) int64 {
	var used int64
	for _, h := range s.Holdings {
		if int(h.Device) == device {
			used += int64(h.Bytes) + s.Devices[device].ContextBytes
		}
	}
	return used
}

// The structs of state.h. A test checks their sizes.
type (
	rawDevice struct {
		UUID                   [16]byte
		Capacity, ContextBytes uint64
		Ordinal                int32
		_                      uint32
	}
	rawConfig struct {
		rawKind
		Checksum uint64
		rawSettings
	}
	rawKind struct {
		Magic         uint64
		Version, Size uint32
	}
	rawSettings struct {
		WaitLimitNS     uint64
		Policy, Devices uint32
		Device          [maxDevices]rawDevice
	}
	rawBooks struct {
		Checksum uint64
		rawCounts
	}
	rawCounts struct {
		Sequence, Epoch, LastID uint64
		Holdings, Requests      uint32
	}
)

const (
	magic       = 0x6d68736573616373
	version     = 2
	maxDevices  = 16
	maxHoldings = 512
	maxRequests = 512

	configSize  = 680
	committedAt = configSize + 64
	booksAt     = committedAt + 16 + 4*512
	booksHead   = 40
	holdingSize = 48
	requestSize = 72
	requestsAt  = booksHead + holdingSize*maxHoldings
	booksSize   = requestsAt + requestSize*maxRequests
	fileSize    = booksAt + 2*booksSize
)

var le = binary.LittleEndian

// encode returns a struct's bytes. It panics on a struct whose size is not fixed.
func encode(v any) []byte {
	b, err := binary.Append(nil, le, v)
	if err != nil {
		panic(err)
	}
	return b
}

func decode(b []byte, v any) {
	if _, err := binary.Decode(b, le, v); err != nil {
		panic(err)
	}
}

// sum is the checksum of books.c.
func sum(b []byte) uint64 {
	s := uint64(0xcbf29ce484222325)
	for ; len(b) > 0; b = b[8:] {
		s = (s ^ le.Uint64(b)) * 0x100000001b3
		s ^= s >> 29
	}
	return s
}

func (c Config) raw() (rawConfig, error) {
	r := rawConfig{rawKind: rawKind{magic, version, fileSize}}
	r.WaitLimitNS = uint64(c.WaitLimit.Nanoseconds())
	r.Policy = uint32(slices.Index(Policies, c.Policy) + 1)
	r.Devices = uint32(len(c.Devices))
	switch {
	case r.Policy == 0:
		return r, fmt.Errorf("policy %q: it must be one of %v", c.Policy, Policies)
	case c.WaitLimit < 0:
		return r, fmt.Errorf("wait limit %v: it must not be negative", c.WaitLimit)
	case len(c.Devices) == 0 || len(c.Devices) > maxDevices:
		return r, fmt.Errorf("%d devices: a state file has 1 to %d", len(c.Devices), maxDevices)
	}
	for i, d := range c.Devices {
		if d.CapacityBytes <= 0 || d.ContextBytes < 0 || d.Ordinal < 0 {
			return r, fmt.Errorf("device %d: capacity %d bytes, context %d bytes: neither may be negative, nor the capacity 0", d.Ordinal, d.CapacityBytes, d.ContextBytes)
		}
		r.Device[i] = rawDevice{UUID: d.UUID, Capacity: uint64(d.CapacityBytes), ContextBytes: uint64(d.ContextBytes), Ordinal: int32(d.Ordinal)}
	}
	r.Checksum = r.sum()
	return r, nil
}

func (r rawConfig) sum() uint64 { return sum(encode(r.rawKind)) ^ sum(encode(r.rawSettings))*3 }

// emptyBooks returns books without holdings and requests, for the file and its backup.
func emptyBooks() []byte {
	counts := rawCounts{Epoch: 1}
	return encode(rawBooks{sum(encode(counts)) ^ sum(nil) ^ sum(nil)*3, counts})
}

// Create makes the file and its backup, path.backup. Only this user can open them. The caller must
// remove both.
func Create(path string, c Config) error {
	r, err := c.raw()
	if err != nil {
		return fmt.Errorf("make state file %s: %w", path, err)
	}
	file := make([]byte, fileSize)
	copy(file, encode(r))
	books := emptyBooks()
	copy(file[booksAt:], books)
	copy(file[committedAt:], books[:8]) // their checksum
	// The whole file is written, so that no page is missing if memory runs out later.
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return fmt.Errorf("make state file: %w", errors.Join(err, os.Remove(path)))
	}
	if err := os.WriteFile(path+".backup", append(encode(r), books...), 0o600); err != nil {
		return fmt.Errorf("make the backup of a state file: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// Read reads the file while no client changes it.
func Read(path string) (State, error) {
	f, err := os.Open(path)
	if err != nil {
		return State{}, fmt.Errorf("read state file: %w", err)
	}
	defer f.Close()
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_SH); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return State{}, fmt.Errorf("lock state file %s: %w", path, err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return State{}, fmt.Errorf("read state file: %w", err)
	}
	s, err := parse(text)
	if err != nil {
		return State{}, fmt.Errorf("state file %s: %w", path, err)
	}
	return s, nil
}

var errDamaged = errors.New("it is damaged")

func parse(text []byte) (State, error) {
	if len(text) != fileSize {
		return State{}, fmt.Errorf("%w: it has %d bytes, not %d", errDamaged, len(text), fileSize)
	}
	var r rawConfig
	decode(text, &r)
	if r.Magic != magic || r.Version != version {
		return State{}, fmt.Errorf("%w: it is of version %d, not %d", errDamaged, r.Version, version)
	}
	if r.Checksum != r.sum() || r.Policy < 1 || int(r.Policy) > len(Policies) || r.Devices > maxDevices {
		return State{}, fmt.Errorf("%w: its configuration", errDamaged)
	}
	s := State{Config: Config{Policy: Policies[r.Policy-1], WaitLimit: time.Duration(r.WaitLimitNS)}}
	for _, d := range r.Device[:r.Devices] {
		s.Devices = append(s.Devices, Device{d.UUID, int(d.Ordinal), int64(d.Capacity), int64(d.ContextBytes)})
	}
	for i := range 2 {
		books := text[booksAt+i*booksSize:][:booksSize]
		if bytes.Equal(books[:8], text[committedAt:][:8]) {
			return s, s.parseBooks(books)
		}
	}
	return State{}, fmt.Errorf("%w: it does not have the books that were committed last", errDamaged)
}

func (s *State) parseBooks(text []byte) error {
	var r rawBooks
	decode(text, &r)
	if r.Holdings > maxHoldings || r.Requests > maxRequests {
		return fmt.Errorf("%w: %d holdings and %d requests", errDamaged, r.Holdings, r.Requests)
	}
	holdings := text[booksHead:][:r.Holdings*holdingSize]
	requests := text[requestsAt:][:r.Requests*requestSize]
	if r.Checksum != sum(encode(r.rawCounts))^sum(holdings)^sum(requests)*3 {
		return fmt.Errorf("%w: the checksum of its books", errDamaged)
	}
	s.Holdings, s.Requests = make([]Holding, r.Holdings), make([]Request, r.Requests)
	decode(holdings, s.Holdings)
	decode(requests, s.Requests)
	for _, h := range s.Holdings {
		if int(h.Device) >= len(s.Devices) {
			return fmt.Errorf("%w: a holding on device %d", errDamaged, h.Device)
		}
	}
	return nil
}
