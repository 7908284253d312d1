package profiles

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites/inputs"
)

// OpenFile opens a file that a job names. The error of a file that is not there is fs.ErrNotExist.
type OpenFile func(j mixes.Job, file string) (io.ReadCloser, error)

// opener is OpenFile for the files of one job.
type opener func(file string) (io.ReadCloser, error)

// begin reads the first bytes of a file, at most so many.
func (open opener) begin(file string, most int64) ([]byte, error) {
	f, err := open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// work is what a command does. Commands of one kind do the same to another amount.
type work struct {
	kind   string
	amount float64 // of pixels, nodes, pictures, characters, updates
	// perUnit says that the program starts and ends alike whatever the amount.
	perUnit bool
	// footprint is what the command needs; zero if only its profile tells that.
	footprint mixes.Footprint
	err       error // the program does not do it

	// Files that the amount depends on; "": none.
	list, network, graph string
	training             bool // the network's file has the amount

	unknown bool   // a file that is not there has the amount
	file    string // that file
	by      string // what else there is to say of the amount
}

// workOf is what a command of a known program does, as far as the command tells.
func workOf(program string, args []string, stdin string) (work, bool) {
	if program == "darknet" {
		return darknetWork(args, stdin)
	}
	if program == "bfs" && len(args) == 1 && graphName.MatchString(path.Base(args[0])) {
		return work{kind: program, graph: args[0]}, true
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
	w := work{kind: program + " " + strings.Join(rest, " "), amount: math.Pow(amount, at.power)}
	var exact bool
	w.footprint, exact = mixes.FootprintOf(program, args)
	if !exact && (!at.image || 4*amount > math.MaxInt32) { // of an image only the number of bytes may be unknown
		w.err = fmt.Errorf("%s refuses this size, or cannot count it in 32 bits", program)
	}
	for _, i := range at.positions {
		if size := args[i]; !plainSize.MatchString(size) {
			w.err = fmt.Errorf("the size %s is not plain decimal: write it without zeros before it", size)
		}
	}
	return w, true
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
}

// plainSize is a size, or two, as people and programs of any kind read them alike.
var plainSize = regexp.MustCompile(`^[1-9]\d*(x[1-9]\d*)?$`)

func number(s string) (float64, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
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

// darknetWork is what a Darknet command does: a task with a network, of so many pictures, characters or updates. Where the
// files are, and what the lists, data and weights are called, does not matter.
func darknetWork(args []string, stdin string) (work, bool) {
	words, options, ok := darknetWords(args)
	if !ok {
		return work{}, false
	}
	task := strings.Join(words[:min(2, len(words))], " ")
	refused := refusedOption(options)
	of := func(task, cfg string) work {
		return work{kind: task + " " + strings.TrimSuffix(path.Base(cfg), ".cfg"), network: cfg, perUnit: true, err: refused}
	}
	// pictures has the pictures of a list, or the one of the command.
	pictures := func(w work, image bool) (work, bool) {
		if image {
			w.amount = 1
			return w, true
		}
		w.list = stdin
		return w, stdin != ""
	}
	switch {
	case task == "rnn generate" && len(words) == 4:
		w := of(task, words[2])
		w.amount, _ = number(options["-len"])
		return w, true
	case task == "classifier train" && len(words) == 4: // weights may say that a part is done
		w := of(task, words[3])
		w.training = true
		return w, true
	case task == "classifier predict" && len(words) >= 4 && len(words) <= 6:
		return pictures(of(task, words[3]), len(words) == 6)
	case len(words) >= 3 && len(words) <= 4 && words[0] == "detect":
		return pictures(of("detect", words[1]), len(words) == 4)
	}
	return work{}, false
}

// darknetWords tells a Darknet command's words from its options, which may be anywhere. It is false of an option that changes
// what is done, that is not known, or that is given twice: the builtin program takes the last, and the authors' the first.
func darknetWords(args []string) (words []string, options map[string]string, ok bool) {
	options = map[string]string{"-len": "1000", "-thresh": "0.5", "-srand": "0", "-seed": "a", "-temp": "0.7", "--seed": "7"}
	given := map[string]bool{}
	for i := 0; i < len(args); i++ {
		option := args[i]
		if !strings.HasPrefix(option, "-") {
			words = append(words, option)
			continue
		}
		i++
		if _, known := options[option]; !known || given[option] || i == len(args) {
			return nil, nil, false
		}
		options[option], given[option] = args[i], true
	}
	return words, options, true
}

// refusedOption says which option has a value that Darknet refuses (benchmarks/darknet/main.cpp).
func refusedOption(options map[string]string) error {
	if _, ok := number(options["-len"]); !ok {
		return fmt.Errorf("-len %s: want a number of characters, 1 or more", options["-len"])
	}
	for _, option := range []string{"-thresh", "-temp"} {
		value, err := strconv.ParseFloat(options[option], 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("darknet refuses %s %s: want a number", option, options[option])
		}
		if option == "-temp" && value <= 0 {
			return fmt.Errorf("darknet refuses -temp %s: want more than 0", options[option])
		}
	}
	for _, option := range []string{"-srand", "--seed"} {
		if _, err := strconv.ParseUint(options[option], 10, 63); err != nil {
			return fmt.Errorf("darknet refuses %s %s: want a whole number, 0 or more", option, options[option])
		}
	}
	if options["-seed"] == "" {
		return errors.New("darknet refuses -seed without a character")
	}
	return nil
}

const (
	maxCfgBytes = 1 << 20
	// maxNumberBytes is more than a number that begins a graph's file has.
	maxNumberBytes = 64
)

// count completes the amount by what files say of it. Of a file that is not there, its name counts.
func (w *work) count(open opener) error {
	if w.err != nil {
		return w.err
	}
	if w.graph != "" {
		return w.countNodes(open)
	}
	if w.network != "" {
		if err := w.checkNetwork(open); err != nil {
			return err
		}
	}
	if w.list == "" {
		return nil
	}
	f, err := open(w.list)
	if errors.Is(err, fs.ErrNotExist) {
		w.absent(w.list)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := pictures(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", w.list, err)
	}
	if n == 0 {
		return fmt.Errorf("the list %s has no entries: write the names of pictures into it, one a line, or remove it to take the known number", w.list)
	}
	w.amount = float64(n)
	return nil
}

// pictures counts the names in a list as Darknet reads them (benchmarks/darknet/input.cpp): a name ends at the first CR, LF or
// NUL of its line, and a line without a name is left out. A name of blanks alone, which no picture has, ends Darknet.
func pictures(list io.Reader) (n int64, err error) {
	in := bufio.NewReader(list)
	const (
		begins = iota // the next byte is the first of a line
		blanks        // the name has nothing else yet
		named
		over // the name has ended
	)
	state, line := begins, 1
	for {
		b, err := in.ReadByte()
		ends := err != nil || b == '\r' || b == '\n' || b == 0
		switch {
		case ends && state == blanks:
			return n, fmt.Errorf("line %d has only blanks, which Darknet takes for the name of a picture: remove it", line)
		case ends && state == named:
			n++
			state = over
		case ends:
			state = over
		case state != over && state != named && (b == ' ' || b == '\t'):
			state = blanks
		case state != over:
			state = named
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if b == '\n' {
			state, line = begins, line+1
		}
	}
}

// catalogUnits are the amounts in the catalog's files.
var catalogUnits = map[string]int{
	"images-large.txt":  inputs.LargeImages,
	"images-medium.txt": inputs.MediumImages,
	"cifar_small.cfg":   inputs.CifarUpdates,
}

// absent takes the amount of the catalog's file of that name, if there is one.
func (w *work) absent(file string) {
	units, found := catalogUnits[path.Base(file)]
	w.amount, w.unknown, w.file = float64(units), !found, file
}

// countNodes takes the number that a graph's file begins with, or else the number in its name.
func (w *work) countNodes(open opener) error {
	text, err := open.begin(w.graph, maxNumberBytes)
	if errors.Is(err, fs.ErrNotExist) {
		m := graphName.FindStringSubmatch(path.Base(w.graph))
		n, ok := number(m[1])
		w.amount = n * map[string]float64{"": 1, "k": 1 << 10, "M": 1 << 20}[m[2]]
		w.by = fmt.Sprintf(", as if %s had the nodes of its name", w.graph)
		if !ok || w.amount > math.MaxInt32 {
			return fmt.Errorf("bfs takes graphs of 1 to %d nodes", math.MaxInt32)
		}
		return nil
	}
	if err != nil {
		return err
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	n, ok := number(string(bytes.TrimSpace(first)))
	if !ok {
		return fmt.Errorf("%s does not begin with its number of nodes", w.graph)
	}
	w.amount = n
	return nil
}

// checkNetwork refuses the description of another network than the known one of that name. Of training it takes the number
// of updates.
func (w *work) checkNetwork(open opener) error {
	text, err := open.begin(w.network, maxCfgBytes+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if w.training {
			w.absent(w.network)
		}
		return nil
	case err != nil:
		return err
	case len(text) > maxCfgBytes:
		return fmt.Errorf("%s has more than %s", w.network, size.Format(maxCfgBytes))
	}
	if known, ours := networks()[path.Base(w.network)]; ours && shapeOf(text, w.training) != shapeOf(known, w.training) {
		return fmt.Errorf("%s describes another network than the known one of that name", w.network)
	}
	if !w.training {
		return nil
	}
	value, ok := lastValue(text, "max_batches"), false
	if w.amount, ok = number(value); !ok {
		return fmt.Errorf("%s has max_batches=%s: want the number of updates", w.network, value)
	}
	return nil
}

// networks are the known networks' descriptions, by the names of their files.
var networks = sync.OnceValue(func() map[string][]byte {
	out := map[string][]byte{}
	for _, f := range inputs.Files(1) {
		if path.Ext(f.Path) == ".cfg" {
			out[path.Base(f.Path)] = f.Content
		}
	}
	return out
})

// shapeKeys are the keys of a network's description that say how much there is to do, with their defaults, by section.
// Sections that are not here do little.
var shapeKeys = map[string][][2]string{
	"net":           {{"width", "0"}, {"height", "0"}, {"channels", "0"}, {"inputs", "0"}},
	"convolutional": {{"filters", "1"}, {"size", "1"}, {"stride", "1"}, {"groups", "1"}},
	"connected":     {{"output", "1"}},
	"rnn":           {{"output", "1"}, {"hidden", "1"}},
	"maxpool":       {{"stride", "1"}},
	"upsample":      {{"stride", "2"}},
	"reorg":         {{"stride", "1"}},
	"route":         {{"layers", ""}},
	"local":         {{"filters", "1"}, {"size", "1"}, {"stride", "1"}},
	"gru":           {{"output", "1"}},
	"lstm":          {{"output", "1"}},
}

// shapeOf is what of a network's description says how much there is to do.
func shapeOf(cfg []byte, training bool) string {
	var out strings.Builder
	for i, section := range sectionsOf(cfg) {
		for _, key := range shapeKeys[section.name] {
			value, found := section.values[key[0]]
			if !found {
				value = key[1]
			}
			fmt.Fprintf(&out, "%s.%s=%s\n", section.name, key[0], value)
		}
		if i == 0 && training {
			fmt.Fprintf(&out, "batch=%s/%s\n", section.values["batch"], section.values["subdivisions"])
		}
	}
	return out.String()
}

type section struct {
	name   string
	values map[string]string
}

// sectionsOf are the sections of a network's description. Darknet ignores all blanks in it.
func sectionsOf(cfg []byte) []section {
	var out []section
	for line := range strings.Lines(string(cfg)) {
		line = strings.Join(strings.Fields(line), "")
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "["):
			name := strings.Trim(line, "[]")
			if name == "network" {
				name = "net"
			}
			out = append(out, section{name, map[string]string{}})
		case len(out) > 0:
			key, value, _ := strings.Cut(line, "=")
			out[len(out)-1].values[key] = value
		}
	}
	return out
}

// lastValue is a value of the network as a whole.
func lastValue(cfg []byte, key string) string {
	if all := sectionsOf(cfg); len(all) > 0 {
		return all[0].values[key]
	}
	return ""
}
