package profiles

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
)

// point is a profile of a known amount.
type point struct {
	Profile
	amount float64
}

// Estimate returns s with profiles of commands that it has none of, but has of commands of their kind: the same program with
// another size, or the same network with another number of pictures, characters or updates, or with files of other
// names. Notes say why a command of a known kind is not estimated, and then what is estimated from what.
//
// What a job does is on a straight line between the two nearest known amounts. Beyond them it continues the line, but is
// never less than in proportion to the amount below them, and never more above. Of one known amount it is in proportion.
//
// A profile of the catalog holds for a command if its files are not there, or say the same amount as those of the catalog.
func (s Set) Estimate(jobs []mixes.Job, open OpenFile) (Set, []string) {
	all := s.With(Set{})
	var notes, refusals []string
	var known map[string][]point
	looked := map[string]bool{}
	for _, j := range jobs {
		command := j.Single().Command()
		if looked[command] || j.Profile != nil || j.Steps != "" {
			continue
		}
		looked[command] = true
		w, found := workOf(j.Program, j.Args, j.Stdin)
		if !found {
			continue
		}
		has, measured := s.byCommand[command]
		if measured && !has.ofCatalog() {
			continue
		}
		if known == nil {
			known = s.byKind()
		}
		of := known[w.kind]
		if len(of) == 0 {
			continue
		}
		measuredOf := w
		knownErr := measuredOf.count(noFiles)
		err := w.count(func(file string) (io.ReadCloser, error) { return open(j, file) })
		if measured && err == nil && knownErr == nil && w.amount == measuredOf.amount {
			continue
		}
		if err == nil && w.amount > mostTimes*of[len(of)-1].amount {
			err = fmt.Errorf("it is more than %g times the largest known amount", mostTimes)
		}
		if err != nil {
			delete(all.byCommand, command)
			refusals = append(refusals, fmt.Sprintf("%q is not estimated: %v", command, err))
			continue
		}
		p, note := estimate(w, of)
		p.Command, p.Job = command, j.Name
		all.byCommand[command], all.estimated[command] = p, true
		why := "was not measured alone"
		if measured {
			why = "was measured with other files"
		}
		notes = append(notes, fmt.Sprintf("%q %s: its profile is %s", command, why, note))
	}
	return all, append(refusals, notes...)
}

// ofCatalog reports whether the catalog has the profile, and not a file of the user's own.
func (p Profile) ofCatalog() bool {
	c, found := catalog().byCommand[p.Command]
	return found && c.GPU == p.GPU && c.KernelS == p.KernelS && c.CopyInS == p.CopyInS
}

// mostTimes bounds an amount by the largest known one, so that bytes and times stay within their types.
const mostTimes = 1e6

// byKind has the measured profiles whose amounts are known, by kind and amount.
func (s Set) byKind() map[string][]point {
	out, ofCatalog := map[string][]point{}, footprints()
	for _, p := range s.All() {
		text, stdin, _ := strings.Cut(p.Command, " < ")
		words := strings.Fields(text)
		if len(words) == 0 || strings.ContainsAny(p.Command, `"\`) || p.Kernels == Untraced || s.estimated[p.Command] {
			continue
		}
		w, found := workOf(words[0], words[1:], stdin)
		if !found {
			continue
		}
		if err := w.count(noFiles); err != nil || w.amount == 0 {
			continue
		}
		if p.Footprint == (mixes.Footprint{}) {
			p.Footprint = ofCatalog[p.Command]
		}
		out[w.kind] = append(out[w.kind], point{p, w.amount})
	}
	for _, of := range out {
		slices.SortFunc(of, func(a, b point) int { return cmp.Compare(a.amount, b.amount) })
	}
	return out
}

// noFiles opens no file, because none is there.
func noFiles(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }

// footprints are those of the catalog's jobs, by command.
func footprints() map[string]mixes.Footprint {
	out := map[string]mixes.Footprint{}
	for _, m := range mixes.Catalog() {
		for _, j := range m.Jobs {
			out[j.Command()] = j.Footprint
		}
	}
	return out
}

// estimate is the profile of an amount of work, from those of its kind in ascending order, and how it was found.
func estimate(w work, of []point) (Profile, string) {
	near := slices.MinFunc(of, func(a, b point) int {
		return cmp.Compare(math.Abs(math.Log(a.amount/max(w.amount, 1))), math.Abs(math.Log(b.amount/max(w.amount, 1))))
	})
	if w.unknown {
		near = of[len(of)-1]
		return near.Profile, fmt.Sprintf("that of %q, as if %s had as many entries", near.Command, w.file)
	}
	if w.amount == near.amount {
		return near.Profile, fmt.Sprintf("that of %q, which does the same", near.Command) + w.by
	}
	of = slices.DeleteFunc(slices.Clone(of), func(p point) bool { return p.GPU != near.GPU })
	// The two points of the line: on both sides of the amount, or the nearest two.
	i, _ := slices.BinarySearchFunc(of, w.amount, func(p point, amount float64) int { return cmp.Compare(p.amount, amount) })
	i = min(max(i, 1), max(len(of)-1, 1))
	a, b := of[i-1], of[min(i, len(of)-1)]
	at := func(value func(Profile) float64) float64 {
		from := value(near.Profile)
		slope := from / near.amount
		if a.amount < b.amount {
			line := (value(b.Profile) - value(a.Profile)) / (b.amount - a.amount)
			if a.amount <= w.amount && w.amount <= b.amount {
				slope = line
			} else {
				slope = min(max(line, 0), slope)
			}
		}
		return from + (w.amount-near.amount)*slope
	}
	p := near.Profile
	if !w.perUnit {
		p.HostBeforeS, p.HostAfterS = at(func(p Profile) float64 { return p.HostBeforeS }), at(func(p Profile) float64 { return p.HostAfterS })
	}
	p.HostHeldS = at(func(p Profile) float64 { return p.HostHeldS })
	p.CopyInBytes, p.CopyInS = int64(at(func(p Profile) float64 { return float64(p.CopyInBytes) })), at(func(p Profile) float64 { return p.CopyInS })
	p.CopyOutBytes, p.CopyOutS = int64(at(func(p Profile) float64 { return float64(p.CopyOutBytes) })), at(func(p Profile) float64 { return p.CopyOutS })
	p.KernelS = at(func(p Profile) float64 { return p.KernelS })
	p.KernelPhases = slices.Clone(near.KernelPhases)
	if f := &p.Footprint; !w.perUnit {
		f.Bytes, f.Blocks = int64(float64(f.Bytes)*w.amount/near.amount), uint64(math.Ceil(float64(f.Blocks)*w.amount/near.amount))
		if w.footprint != (mixes.Footprint{}) {
			*f = w.footprint
		}
	}
	for k := range p.KernelPhases {
		if near.KernelS > 0 {
			p.KernelPhases[k].S *= p.KernelS / near.KernelS
		}
		if before := near.Footprint.Blocks; !w.perUnit && before > 0 {
			p.KernelPhases[k].SMs *= float64(p.Footprint.Blocks) / float64(before)
		}
	}
	p.Kernels = Estimated
	from := fmt.Sprintf("%q", near.Command)
	if a.amount < b.amount {
		from = fmt.Sprintf("%q and %q", a.Command, b.Command)
	}
	return p, "estimated from " + from + w.by
}
