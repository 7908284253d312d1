// Package schedshm makes the state file of schedGPU's shared-memory architecture, in
// which clients decide for themselves who gets which memory. native/probe/shared/state.h specifies
// the file.
package schedshm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// policies are the names of schedGPU's four policies, in the order of enum case_shared_policy.
var policies = []string{"fifo", "mmu", "priority-fifo", "priority-mmu"}

// Config is the constant part of a state file.
type Config struct {
	Policy    string        // one of policies
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
	r.Policy = uint32(slices.Index(policies, c.Policy) + 1)
	r.Devices = uint32(len(c.Devices))
	switch {
	case r.Policy == 0:
		return r, fmt.Errorf("policy %q: it must be one of %v", c.Policy, policies)
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
