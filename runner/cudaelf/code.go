package cudaelf

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Code is device code that an object contains.
type Code struct {
	// Architecture is the compute capability that it was compiled for, as 10 × major + minor.
	Architecture int
	// PTX is code that the driver compiles when the program starts. Otherwise it is machine code.
	PTX bool
}

// Runs reports whether a device of an architecture takes the code. Machine code runs on devices of
// its major version that are not older, PTX on all that are not older ("CUDA C++ Programming Guide",
// binary and PTX compatibility).
func (c Code) Runs(device int) bool {
	return c.Architecture <= device && (c.PTX || c.Architecture/10 == device/10)
}

// fatMagic begins a fat binary.
const fatMagic = 0xba55ed50

// fatHeader is followed by Size bytes of entries.
type fatHeader struct {
	Magic               uint32
	Version, HeaderSize uint16
	Size                uint64
}

// fatEntry is followed by Size bytes of code, HeaderSize after its own beginning.
type fatEntry struct {
	Kind, _      uint16
	HeaderSize   uint32
	Size         uint64
	_            [3]uint32
	Architecture uint32
}

// Kinds of entries.
const (
	fatPTX   = 1
	fatCubin = 2
)

// DeviceCode lists the device code of a program, and not that of its libraries. A file that is not
// an ELF file, such as a script, has none.
func DeviceCode(path string) ([]Code, error) {
	f, err := elf.Open(path)
	var malformed *elf.FormatError
	if errors.Is(err, io.EOF) || errors.As(err, &malformed) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read device code: %w", err)
	}
	defer f.Close()
	s := f.Section(fatBinary)
	if s == nil || s.Type != elf.SHT_PROGBITS {
		return nil, nil
	}
	code, err := codeOf(s, int64(s.Size))
	if err != nil {
		return nil, fmt.Errorf("read device code of %s: section %s: %w", path, fatBinary, err)
	}
	return code, nil
}

// codeOf reads size bytes of fat binaries, which are aligned to 8 bytes or more.
func codeOf(r io.ReaderAt, size int64) ([]Code, error) {
	var found []Code
	read := func(at int64, into any) error {
		return binary.Read(io.NewSectionReader(r, at, size-at), binary.LittleEndian, into)
	}
	for at := int64(0); at < size; at = (at + 7) &^ 7 {
		var h fatHeader
		if err := read(at, &h); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break // padding
		} else if err != nil {
			return nil, fmt.Errorf("header at byte %d: %w", at, err)
		}
		if h == (fatHeader{}) { // padding
			at += 8
			continue
		}
		left := uint64(size - at)
		if h.Magic != fatMagic || h.HeaderSize < 16 || h.Size > left || uint64(h.HeaderSize) > left-h.Size {
			return nil, fmt.Errorf("no fat binary at byte %d", at)
		}
		at += int64(h.HeaderSize)
		end := at + int64(h.Size)
		for at < end {
			var e fatEntry
			if err := read(at, &e); err != nil {
				return nil, fmt.Errorf("entry at byte %d: %w", at, err)
			}
			left := uint64(end - at)
			if e.HeaderSize < 32 || e.Size > left || uint64(e.HeaderSize) > left-e.Size {
				return nil, fmt.Errorf("no entry of a fat binary at byte %d", at)
			}
			at += int64(e.HeaderSize) + int64(e.Size)
			if e.Kind == fatPTX || e.Kind == fatCubin {
				found = append(found, Code{int(e.Architecture), e.Kind == fatPTX})
			}
		}
	}
	return found, nil
}
