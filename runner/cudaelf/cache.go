package cudaelf

import (
	"bytes"
	"encoding/binary"
)

// The cache's layout, from glibc's sysdeps/generic/dl-cache.h: a header of 48
// bytes, entries of 24, strings. Offsets of strings count from the header. It
// may follow a table of the older format.
const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48
	cacheEntry  = 24
)

// parseCache reads names and paths; what is malformed is left out.
func parseCache(data []byte) map[string][]string {
	at := bytes.Index(data, []byte(cacheMagic))
	if at < 0 || len(data)-at < cacheHeader {
		return nil
	}
	data = data[at:]
	text := func(offset uint32) string {
		if uint64(offset) >= uint64(len(data)) {
			return ""
		}
		s, _, _ := bytes.Cut(data[offset:], []byte{0})
		return string(s)
	}
	out := map[string][]string{}
	count := binary.NativeEndian.Uint32(data[len(cacheMagic):])
	for e := data[cacheHeader:]; count > 0 && len(e) >= cacheEntry; e, count = e[cacheEntry:], count-1 {
		name, path := text(binary.NativeEndian.Uint32(e[4:])), text(binary.NativeEndian.Uint32(e[8:]))
		if name != "" && path != "" {
			out[name] = append(out[name], path)
		}
	}
	return out
}
