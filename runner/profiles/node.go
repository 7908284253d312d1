package profiles

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/mixes"
)

// launches of the short programs of benchmarks/node and of BS-L (Table 3-2 of the dissertation on runtime support for CPU-GPU clusters).
var launches = map[string]int{"bp": 40, "bfs": 24, "hs": 1, "nw": 256, "sp": 1, "mt": 816, "pr": 801, "sc": 3300, "bs": 256, "va": 1}

// arguments are those of a program of benchmarks/node.
type arguments struct {
	given map[string]string
	wrong bool // a value is not a number that a program takes
}

// readArguments reads options with values, and drops those that change nothing of what a program does.
func readArguments(args []string) (a arguments, ok bool) {
	a.given = map[string]string{}
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--verify" || args[i] == "--phases":
		case strings.HasPrefix(args[i], "--") && i+1 < len(args):
			a.given[args[i]] = args[i+1]
			i++
		default:
			return a, false
		}
	}
	return a, true
}

// number is the value of an option, which is taken from what is given.
func (a *arguments) number(option string, usual float64) float64 {
	text, given := a.given[option]
	delete(a.given, option)
	if !given {
		return usual
	}
	n, err := strconv.ParseFloat(text, 64)
	a.wrong = a.wrong || err != nil || math.IsNaN(n) || math.IsInf(n, 0)
	return n
}

func (a *arguments) text(option, usual string) string {
	if text, given := a.given[option]; given {
		delete(a.given, option)
		return text
	}
	return usual
}

// generated is the profile of a program of benchmarks/node, or of chapter 4, whose steps follow from its arguments. Its times are estimated: Table 3-2
// has 3 to 5 s on a C2050 for a short program, and 30 s for a long one without work of the host.
func generated(j mixes.Job) (p Profile, ok bool) {
	program, ofNode := strings.CutPrefix(j.Program, "node/")
	e, ofCluster := exchanges[j.Program]
	a, read := readArguments(j.Args)
	if !ofNode && !ofCluster || !read || j.Footprint.Bytes <= 0 || j.Footprint.Blocks == 0 {
		return p, false
	}
	p = Profile{Job: j.Name, Command: j.Command(), Kernels: Estimated, Footprint: j.Footprint, GPU: "Tesla C2050"}
	var lines string
	first, times := beforePhases, 1
	switch n := launches[program]; {
	case ofCluster:
		first = beforeExchanges
		lines, times = e.iterations(&a, j)
	case program == "mm":
		lines = products(&a, j)
	case program == "synth":
		lines, times = phases(&a, j)
	case program == "bs":
		if seconds := map[string]float64{"md": 3.5, "lg": 30}[a.text("--size", "lg")]; seconds > 0 {
			lines = short(&a, j, n, seconds)
		}
	case n > 0:
		lines = short(&a, j, n, 3.5)
	}
	if lines == "" || a.wrong || len(a.given) > 0 {
		return p, false
	}
	l, err := readSteps(j.Command(), []byte(lines))
	if err != nil || l.check(&j) != nil {
		return p, false
	}
	if times > 1 {
		l.repeat(first, times)
	}
	p.Listed = l
	return p, true
}

// repeat has each rank do its steps behind the first so many times.
func (l *Listing) repeat(first, times int) {
	readers := []*stepReader{&l.others}
	for _, r := range l.named {
		readers = append(readers, r)
	}
	for _, r := range readers {
		r.steps = slices.Concat(r.steps[:first], slices.Repeat(r.steps[first:], times))
	}
}

// beforePhases is how many steps synth does before its phases.
const beforePhases = 4

// step writes a step of a steps file.
func step(kind, format string, args ...any) string {
	return `{"step": "` + kind + `", ` + fmt.Sprintf(format, args...) + "}\n"
}

// launched is so many launches of a kernel, with work of the host after each.
func launched(n int, of mixes.Footprint, seconds, cpu float64, more string) string {
	kernel := func(times int) string {
		return step("kernel", `"blocks": %d, "threads": %d, "seconds": %g, "times": %d%s`, of.Blocks, of.ThreadsPerBlock, seconds, times, more)
	}
	if cpu > 0 {
		return strings.Repeat(kernel(1)+step("host", `"seconds": %g, "scale": "device"`, cpu*seconds), n)
	}
	var text strings.Builder
	for ; n > 0; n -= maxTimes {
		text.WriteString(kernel(min(n, maxTimes)))
	}
	return text.String()
}

func short(a *arguments, j mixes.Job, n int, seconds float64) string {
	cpu := a.number("--cpu-fraction", 0)
	return step("host", `"seconds": 0.3`) + step("allocate", `"object": "data", "bytes": %d`, j.Footprint.Bytes) + step("copy", `"object": "data", "direction": "in"`) +
		launched(n, j.Footprint, seconds/float64(n), cpu, "") + step("copy", `"object": "data", "direction": "out"`) + step("free", `"object": "data"`)
}

// products are those of mm: 200 of 2000 x 2000, or 10 of 10000 x 10000, take 30 s.
func products(a *arguments, j mixes.Job) string {
	size, matrices, count, cpu := a.number("--size", 10000), int(a.number("--matrices", 3)), int(a.number("--products", 10)), a.number("--cpu-fraction", 0)
	relative, seconds := size/10000, 3.0
	if size <= 5000 {
		relative, seconds = size/2000, 0.15
	}
	seconds *= relative * relative * relative
	if !(size >= 1 && matrices >= 3 && matrices <= 1000 && count >= 1 && count <= maxSteps) {
		return ""
	}
	name := func(i int) string { return fmt.Sprintf("m%d", i%matrices) }
	text := step("host", `"seconds": 0.3`)
	for i := range matrices {
		text += step("allocate", `"object": %q, "bytes": %d`, name(i), int64(4*size*size))
	}
	var launches strings.Builder
	for i := range count {
		launches.WriteString(launched(1, j.Footprint, seconds, cpu, fmt.Sprintf(`, "reads": [%q, %q], "writes": [%q]`, name(i), name(i+1), name(i+2))))
	}
	return text + launches.String() + step("copy", `"object": %q, "direction": "out"`, name(count+1))
}

// sent is a message between ranks of a job with so many.
func sent(ranks int, from, to string, bytes float64) string {
	if bytes < 1 || ranks == 1 {
		return ""
	}
	return step("message", `"from": %s, "to": %s, "bytes": %d`, from, to, int64(bytes))
}

// phases is one phase of synth behind what comes before, and how many phases there are. It measures the device, so that they are as long on each.
func phases(a *arguments, j mixes.Job) (lines string, count int) {
	gpu, cpu, by := a.number("--gpu-time", 0.5), a.number("--cpu-fraction", 0), a.number("--by", 0)
	times := a.number("--iterations", 200) * a.number("--per-iteration", 1)
	size, transfer, message := a.number("--size", 1<<20), a.number("--transfer", 100<<10), a.number("--message", 400<<10)
	kind, uneven := a.text("--communication", "none"), strings.Split(a.text("--uneven", ""), ",")
	if !(gpu > 0 && times >= 1 && times <= maxSteps && by > -1 && cpu >= 0 && size >= 1) {
		return "", 0
	}
	ranks := j.Processes()
	send := func(from, to string, bytes float64) string { return sent(ranks, from, to, bytes) }
	part := message / float64(ranks)
	communication, known := map[string][2]string{ // before a phase and after it
		"none": {}, "barrier": {"", `{"step": "barrier"}` + "\n"}, "broadcast": {"", send("0", `"all"`, message)},
		"scatter-gather": {send("0", `"all"`, part), send(`"all"`, "0", part)}, "all-to-all": {"", send(`"all"`, `"all"`, part)},
	}[kind]
	if !known {
		return "", 0
	}
	compute := ""
	for rank := range ranks {
		seconds := gpu
		if slices.Contains(uneven, strconv.Itoa(rank)) {
			seconds *= 1 + by
		}
		compute += step("kernel", `"blocks": %d, "threads": %d, "seconds": %g, "scale": "none", "rank": %d`, j.Footprint.Blocks, j.Footprint.ThreadsPerBlock, seconds, rank)
		if cpu > 0 {
			compute += step("host", `"seconds": %g, "scale": "none", "rank": %d`, cpu*seconds, rank)
		}
	}
	in, out := "", ""
	if moved := int64(min(transfer, 4*size)); moved > 0 {
		in, out = step("copy", `"object": "a", "direction": "in", "bytes": %d`, moved), step("copy", `"object": "c", "direction": "out", "bytes": %d`, moved)
	}
	text := step("host", `"seconds": 0.3`)
	for _, vector := range []string{"a", "b", "c"} {
		text += step("allocate", `"object": %q, "bytes": %d`, vector, int64(4*size))
	}
	return text + communication[0] + in + compute + out + communication[1], int(times)
}

// exchange is what the ranks of a program of chapter 4 do in an iteration (section 4.4.1 and Table 4-2 of the dissertation).
type exchange struct {
	scatter, gather float64 // bytes that the root, rank 0, sends to all ranks, and gets of all
	seconds         float64 // of kernels on a C2050, of all ranks together
	each            bool    // of each rank, because it has an input of its own
}

// exchanges are by programs. Seconds are estimated: MM has 24 products of 1,600 x 1,600, each 0.512 times as long as one of node/mm with
// 2,000 x 2,000. The dissertation has no time of NW and ADFA. It says of NW that messages take most of its time, which are 1.3 s over Gigabit
// Ethernet, and of ADFA that it runs for long. The long programs of Table 3-2 run for 30 s, as a rank does here in two iterations.
var exchanges = map[string]exchange{
	"cluster/mm":   {scatter: 533e6, gather: 267e6, seconds: 24 * 0.512 * 0.15},
	"cluster/nw":   {scatter: 1e6, gather: 149e6, seconds: 0.5},
	"cluster/adfa": {gather: 8e6, seconds: 15, each: true},
}

// bytesOfDFA is the input of a rank of ADFA: 30,000 states with 256 transitions each.
const bytesOfDFA = 30000 * 256 * 4

// beforeExchanges is how many steps come before the iterations.
const beforeExchanges = 2

// iterations is one iteration behind what comes before, and how many iterations there are.
func (e exchange) iterations(a *arguments, j mixes.Job) (lines string, count int) {
	times, factor := a.number("--iterations", 1), a.number("--gpu-factor", 1)
	if !(times >= 1 && times <= maxSteps && factor > 0) {
		return "", 0
	}
	ranks := j.Processes()
	part := func(of float64) float64 { return of / float64(ranks) }
	seconds, in := e.seconds*factor, int64(part(e.scatter))
	if e.each {
		in = min(j.Footprint.Bytes/2, bytesOfDFA)
	} else {
		seconds = part(seconds)
	}
	return step("host", `"seconds": 0.3`) + step("allocate", `"object": "data", "bytes": %d`, j.Footprint.Bytes) +
		sent(ranks, "0", `"all"`, part(e.scatter)) + step("copy", `"object": "data", "direction": "in", "bytes": %d`, in) +
		step("kernel", `"blocks": %d, "threads": %d, "seconds": %g`, j.Footprint.Blocks, j.Footprint.ThreadsPerBlock, seconds) +
		step("copy", `"object": "data", "direction": "out", "bytes": %d`, int64(part(e.gather))) + sent(ranks, `"all"`, "0", part(e.gather)) +
		`{"step": "barrier"}` + "\n", int(times)
}
