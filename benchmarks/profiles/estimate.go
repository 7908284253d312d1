package profiles

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/benchmarks/darknet/inputs"
	"github.com/caserun/caserun/mixes"
)

// work is what a command does. Commands of one kind do the same to another amount.
type work struct {
	kind   string
	amount float64 // of pixels, nodes, pictures, characters, updates; 0: a file has it that is not there
	file   string  // that has the amount; "": the command has it
	// perUnit says that the program starts and ends alike whatever the amount.
	perUnit bool
}

// point is a profile of a known amount.
type point struct {
	Profile
	amount float64
}

// Estimate returns s with profiles of commands that it has none of, but has of commands of their kind: the same program with
// another size, or the same network with another number of pictures, characters or updates, or with files of other
// names. Notes say what is estimated from what. amount is what a file says of the amount: the pictures of a list, or the
// updates of a network's description. It is 0 if the file is not there, which then has the known amount.
//
// What a job does is on a straight line between the two nearest known amounts. Beyond them it continues the line, but is
// never less than in proportion to the amount below them, and never more above. Of one known amount it is in proportion.
func (s Set) Estimate(jobs []mixes.Job, amount func(file string) int) (Set, []string) {
	all := s.With(Set{})
	var notes []string
	var known map[string][]point
	for _, j := range jobs {
		command := j.Command()
		if _, found := all.byCommand[command]; found || j.Profile != nil || j.Steps != "" {
			continue
		}
		w, found := workOf(j.Program, j.Args, j.Stdin)
		if !found {
			continue
		}
		if known == nil {
			known = s.byKind()
		}
		of := known[w.kind]
		if len(of) == 0 {
			continue
		}
		if w.amount == 0 {
			w.amount = float64(cmp.Or(max(amount(w.file), 0), catalogUnits[path.Base(w.file)]))
		}
		if w.amount > mostTimes*of[len(of)-1].amount {
			continue
		}
		p, note := estimate(w, of)
		p.Command, p.Job = command, j.Name
		all.byCommand[command], all.estimated[command] = p, true
		notes = append(notes, fmt.Sprintf("%q was not measured alone: its profile is %s", command, note))
	}
	return all, notes
}

// mostTimes bounds an amount by the largest known one, so that bytes and times stay within their types.
const mostTimes = 1e6

// byKind has the measured profiles whose amounts are known, by kind and amount.
func (s Set) byKind() map[string][]point {
	out := map[string][]point{}
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
		if w.amount == 0 {
			w.amount = float64(catalogUnits[path.Base(w.file)])
		}
		if w.amount == 0 {
			continue
		}
		if p.Footprint == (mixes.Footprint{}) {
			p.Footprint = footprints()[p.Command]
		}
		out[w.kind] = append(out[w.kind], point{p, w.amount})
	}
	for _, of := range out {
		slices.SortFunc(of, func(a, b point) int { return cmp.Compare(a.amount, b.amount) })
	}
	return out
}

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

// catalogUnits are the amounts in the catalog's files.
var catalogUnits = map[string]int{
	"images-large.txt":  inputs.LargeImages,
	"images-medium.txt": inputs.MediumImages,
	"cifar_small.cfg":   inputs.CifarUpdates,
}

// estimate is the profile of an amount of work, from those of its kind in ascending order, and how it was found.
func estimate(w work, of []point) (Profile, string) {
	near := slices.MinFunc(of, func(a, b point) int {
		return cmp.Compare(math.Abs(math.Log(a.amount/max(w.amount, 1))), math.Abs(math.Log(b.amount/max(w.amount, 1))))
	})
	if w.amount == 0 {
		near = of[len(of)-1]
		return near.Profile, fmt.Sprintf("that of %q, as if %s had as many entries", near.Command, w.file)
	}
	if w.amount == near.amount {
		return near.Profile, fmt.Sprintf("that of %q, which does the same", near.Command)
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
	for k := range p.KernelPhases {
		p.KernelPhases[k].S *= p.KernelS / near.KernelS
		if !w.perUnit {
			p.KernelPhases[k].SMs *= w.amount / near.amount
		}
	}
	if f := &p.Footprint; !w.perUnit {
		f.Bytes, f.Blocks = int64(float64(f.Bytes)*w.amount/near.amount), uint64(math.Ceil(float64(f.Blocks)*w.amount/near.amount))
	}
	p.Kernels = Estimated
	from := fmt.Sprintf("%q", near.Command)
	if a.amount < b.amount {
		from = fmt.Sprintf("%q and %q", a.Command, b.Command)
	}
	return p, "estimated from " + from
}

// workOf is what a command of a known program does.
func workOf(program string, args []string, stdin string) (work, bool) {
	if program == "darknet" {
		return darknetWork(args, stdin)
	}
	at, known := sizes[program]
	if !known || len(args) != at.arguments {
		return work{}, false
	}
	amount, rest := 1.0, slices.Clone(args)
	for _, i := range at.positions {
		size, ok := at.size(args[i])
		if !ok {
			return work{}, false
		}
		amount *= size
		rest[i] = "N"
	}
	if at.image {
		rest[0] = "IMAGE"
	}
	return work{kind: program + " " + strings.Join(rest, " "), amount: math.Pow(amount, at.power)}, true
}

// sizes says where the sizes of a program are in its arguments. The amount of work is their product, to a power.
var sizes = map[string]struct {
	arguments int
	positions []int
	power     float64
	size      func(string) (float64, bool)
	image     bool // the first argument is a file that the work does not depend on
}{
	"backprop":     {1, []int{0}, 1, number, false},
	"needle":       {2, []int{0}, 2, number, false},
	"srad_v1/srad": {4, []int{2, 3}, 1, number, false},
	"srad_v2/srad": {8, []int{0, 1}, 1, number, false},
	"lavaMD":       {2, []int{1}, 3, number, false},
	"dwt2d":        {7, []int{2}, 1, area, true},
	"bfs":          {1, []int{0}, 1, nodes, false},
}

func number(s string) (float64, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return float64(n), err == nil && n > 0
}

// area is the size of WIDTHxHEIGHT.
func area(s string) (float64, bool) {
	w, h, _ := strings.Cut(s, "x")
	width, ok := number(w)
	height, also := number(h)
	return width * height, ok && also
}

// graphName is a graph file of Rodinia: graph32M.txt has 32 million nodes, and graph1MW_6.txt one million.
var graphName = regexp.MustCompile(`^graph(\d{1,6})([kM]?)(W_\d+)?\.txt$`)

func nodes(s string) (float64, bool) {
	m := graphName.FindStringSubmatch(path.Base(s))
	if m == nil {
		return 0, false
	}
	n, ok := number(m[1])
	return n * map[string]float64{"": 1, "k": 1 << 10, "M": 1 << 20}[m[2]], ok
}

// darknetWork is what a Darknet command does: a task with a network, of so many pictures, characters or updates. Where the
// files are, and what the lists, data and weights are called, does not matter.
func darknetWork(args []string, stdin string) (work, bool) {
	network := func(cfg string) string { return strings.TrimSuffix(path.Base(cfg), ".cfg") }
	task := strings.Join(args[:min(2, len(args))], " ")
	switch {
	case task == "rnn generate" && len(args) >= 3:
		w := work{kind: task + " " + network(args[2]), perUnit: true}
		for i := 3; i+1 < len(args); i++ {
			if args[i] == "-len" {
				var ok bool
				if w.amount, ok = number(args[i+1]); !ok {
					return work{}, false
				}
			}
		}
		return w, w.amount > 0
	case task == "classifier train" && len(args) >= 4:
		return work{kind: task + " " + network(args[3]), file: args[3], perUnit: true}, true
	case task == "classifier predict" && len(args) >= 4 && stdin != "":
		return work{kind: task + " " + network(args[3]), file: stdin, perUnit: true}, true
	case len(args) >= 2 && args[0] == "detect" && stdin != "":
		return work{kind: "detect " + network(args[1]), file: stdin, perUnit: true}, true
	}
	return work{}, false
}
