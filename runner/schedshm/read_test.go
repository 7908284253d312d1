package schedshm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

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

func decode(b []byte, v any) {
	if _, err := binary.Decode(b, le, v); err != nil {
		panic(err)
	}
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
	if r.Checksum != r.sum() || r.Policy < 1 || int(r.Policy) > len(policies) || r.Devices > maxDevices {
		return State{}, fmt.Errorf("%w: its configuration", errDamaged)
	}
	s := State{Config: Config{Policy: policies[r.Policy-1], WaitLimit: time.Duration(r.WaitLimitNS)}}
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
