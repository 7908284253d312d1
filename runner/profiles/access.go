package profiles

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Access is how a kernel works through an object. The zero value goes through it once, from its beginning to its end.
type Access struct {
	// Sweeps is how many times the object's bytes the kernel reaches; 0: once.
	Sweeps float64
	// Random: in any order. Else from the beginning to the end, again and again.
	Random bool
	// Of what is reached at random, the share HotShare lies in the first HotPart of the object; both 0: anywhere.
	HotShare, HotPart float64 `json:",omitempty"`
}

// maxSweeps is more than a kernel without end needs.
const maxSweeps = 1e9

// UnmarshalJSON reads a pattern as it is written: stream, cyclic N, random N, or hot F,H.
func (a *Access) UnmarshalJSON(text []byte) error {
	var pattern string
	if err := json.Unmarshal(text, &pattern); err != nil {
		return errAccess(string(text))
	}
	word, rest, _ := strings.Cut(pattern, " ")
	numbers, ok := numbersOf(rest)
	switch {
	case pattern == "stream":
		*a = Access{}
	case (word == "cyclic" || word == "random") && ok && len(numbers) == 1 && numbers[0] <= maxSweeps:
		*a = Access{Sweeps: numbers[0], Random: word == "random"}
	case word == "hot" && ok && len(numbers) == 2 && numbers[0] < 1 && numbers[1] < 1:
		*a = Access{Random: true, HotShare: numbers[0], HotPart: numbers[1]}
	default:
		return errAccess(pattern)
	}
	return nil
}

func errAccess(pattern string) error {
	return fmt.Errorf("access %q: write stream, cyclic N, random N (N sweeps, above 0 and up to %g), or hot F,H (two numbers above 0 and below 1)", pattern, maxSweeps)
}

// numbersOf reads numbers above 0, with commas between them.
func numbersOf(text string) (out []float64, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

// Uses reports whether a step works with an object on the device.
func (s *Step) Uses(object string) bool {
	if s.Kind != Kernel {
		return s.Object == object
	}
	return s.Reads == nil && s.Writes == nil || slices.Contains(s.Reads, object) || slices.Contains(s.Writes, object)
}

// MayWrite reports whether a step may write an object on the device.
func (s *Step) MayWrite(object string) bool {
	if s.Kind != Kernel {
		return s.Kind == CopyIn && s.Object == object
	}
	return s.Reads == nil && s.Writes == nil || slices.Contains(s.Writes, object)
}
