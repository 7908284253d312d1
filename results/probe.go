package results

import (
	"encoding"
	"fmt"
	"strings"
)

// Probe is how the programs of a live run ask for GPU tasks. A simulated run has no programs,
// and its probe is Lazy.
type Probe uint8

const (
	// Lazy is the lazy runtime: libcase.so is preloaded, and makes tasks of a program's CUDA calls.
	Lazy Probe = iota
	// Static is CASE's compiler pass: programs are those that casecc has built. libcase.so is
	// preloaded too, for what the pass left to it.
	Static
	// Explicit is the task API alone: nothing is preloaded.
	Explicit
)

var probes = [...]string{Lazy: "lazy", Static: "static", Explicit: "explicit"}

// Probes are the names of all probes, the default first.
func Probes() []string { return probes[:] }

var (
	_ encoding.TextMarshaler   = Probe(0)
	_ encoding.TextUnmarshaler = (*Probe)(nil)
)

func (p Probe) String() string { return probes[p] }

func (p Probe) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func (p *Probe) UnmarshalText(text []byte) error {
	for i, name := range probes {
		if name == string(text) {
			*p = Probe(i)
			return nil
		}
	}
	return fmt.Errorf("want %s or %s", strings.Join(probes[:len(probes)-1], ", "), probes[len(probes)-1])
}
