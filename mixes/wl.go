package mixes

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// shellCharacters have a meaning for a shell. They are refused, because jobs start without a
// shell.
const shellCharacters = ";&><$`\"'\\(){}[]*?|#~"

// parseWL reads a list of command lines, the format of the CASE authors' workload files. Each
// line is a job; words are separated by spaces or tabs. "cat FILE |" precedes a program that reads
// FILE. Blank lines and lines that begin with # are ignored.
//
// A program is recognised by its base name, srad also by its directory or its number of arguments, and stands for
// the suite's program whatever its path. has reports whether the suite has a program beside
// SuitePrograms. A file with the base name of an input file of the program's catalog jobs becomes
// that input file: /data/graph32M.txt is graph32M.txt in the suite's data directory. Other paths
// are kept. A command of the catalog gets the catalog's name and footprint. Any other command gets
// a footprint only if its arguments determine it exactly.
//
// A profiler before the program is left out, and a note says so. All jobs arrive at once, unless
// a line ends with & or is wait. The file is then a script, in which a wait, or a line without &,
// ends a group of jobs that arrive together (Job.Group). A note says how many groups there are.
func parseWL(in *lines, jobs jobIndex, has func(string) bool) (Mix, error) {
	r := &wlReader{file: in.file, jobs: jobs, has: has, known: map[string]Job{}}
	for len(r.errs) < maxErrors {
		text, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Mix{}, err
		}
		line := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		words := splitLine(line)
		if len(words) == 0 || strings.HasPrefix(words[0].text, "#") {
			continue
		}
		if err := r.line(in.number, words); err != nil {
			r.fail(err, in.number, strings.TrimSpace(line))
		}
		if len(r.all) > in.limits.jobs {
			r.errs = append(r.errs, in.tooManyJobs(in.number))
			break
		}
	}
	if len(r.all) == 0 && len(r.errs) == 0 {
		r.errs = InputErrors{{File: in.file, Line: 1, Msg: "no job in the file", Remedy: "write one command line per job"}}
	}
	if err := r.errs.asError(); err != nil {
		r.countUnknown()
		return Mix{}, err
	}
	r.arrive()
	return Mix{Name: baseName(in.file), Source: in.file, Jobs: r.all, Lines: r.at, Notes: r.notes()}, nil
}

// wlReader collects the jobs of one file and every error in it.
type wlReader struct {
	file   string
	jobs   jobIndex
	has    func(string) bool
	errs   InputErrors
	all    []Job
	at     []int  // the line of each job
	joined []bool // of each job: its line ends with &, and no wait follows
	script bool   // a line of the file ends with & or is wait
	tools  []droppedTool
	// unknown has the error of each unknown program, and the number of further lines with it.
	unknown  map[string]*unknownProgram
	remedied bool           // an error says where unknown programs come from
	known    map[string]Job // by their words: a large file repeats its commands, and equal jobs share their slices
}

// maxKnown bounds wlReader.known, for a file whose commands all differ.
const maxKnown = 10_000

// droppedTool is a profiler that was left out.
type droppedTool struct {
	name, text string
	line       int // the first line with the tool
	more       int // number of further lines with it
}

// unknownProgram is an error that many lines of a file may share.
type unknownProgram struct {
	err  *InputError
	more int // number of further lines with the program
}

// fail keeps the error of a line. An unknown program is named once, with the first command that wants it.
func (r *wlReader) fail(err *InputError, number int, line string) {
	err.File, err.Line = r.file, number
	if err.program == "" {
		err.Msg += fmt.Sprintf(": %q", line)
	} else if u, again := r.unknown[err.program]; again {
		u.more++
		return
	} else {
		if r.unknown == nil {
			r.unknown = map[string]*unknownProgram{}
		}
		r.unknown[err.program] = &unknownProgram{err: err}
	}
	r.errs = append(r.errs, err)
}

// countUnknown says of each unknown program how many lines have it.
func (r *wlReader) countUnknown() {
	for _, u := range r.unknown {
		if u.more > 0 {
			u.err.Msg += fmt.Sprintf(" (more lines with it: %d)", u.more)
		}
	}
}

func (r *wlReader) line(number int, words []word) *InputError {
	if words[0].text == "wait" {
		if len(words) > 1 {
			return &InputError{Column: words[1].column, Msg: "wait with arguments", Remedy: "write only wait: it waits for all commands before it"}
		}
		r.script = true
		if n := len(r.all); n > 0 {
			r.joined[n-1] = false
		}
		return nil
	}
	background := false
	if last := &words[len(words)-1]; strings.HasSuffix(last.text, "&") && !strings.HasSuffix(last.text, "&&") {
		background, r.script = true, true
		if last.text = strings.TrimSuffix(last.text, "&"); last.text == "" {
			words = words[:len(words)-1]
		}
		if len(words) == 0 {
			return &InputError{Column: last.column, Msg: "no command before &", Remedy: "write & at the end of a command's line"}
		}
	}
	j, tools, err := r.job(words)
	if err != nil {
		return err
	}
	r.all, r.at, r.joined = append(r.all, j), append(r.at, number), append(r.joined, background)
	if len(tools) > 0 {
		r.drop(number, tools)
	}
	return nil
}

// job is command for words that it may have had before.
func (r *wlReader) job(words []word) (j Job, tools []word, err *InputError) {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	key := strings.Join(texts, " ")
	if j, again := r.known[key]; again {
		return j, nil, nil
	}
	if j, tools, err = r.command(words); err == nil && len(tools) == 0 && len(r.known) < maxKnown {
		r.known[key] = j
	}
	return j, tools, err
}

// arrive gives the jobs their groups.
func (r *wlReader) arrive() {
	group := 0
	for i := range r.all {
		r.all[i].Group = group
		if r.script && !r.joined[i] {
			group++
		}
	}
}

func (r *wlReader) drop(line int, tools []word) {
	name := path.Base(tools[0].text)
	for i := range r.tools {
		if r.tools[i].name == name {
			r.tools[i].more++
			return
		}
	}
	text := make([]string, len(tools))
	for i, w := range tools {
		text[i] = w.text
	}
	r.tools = append(r.tools, droppedTool{name: name, text: strings.Join(text, " "), line: line})
}

func (r *wlReader) notes() []string {
	var notes []string
	if groups := r.all[len(r.all)-1].Group + 1; r.script && groups > 1 {
		notes = append(notes, fmt.Sprintf("%s: `&` and `wait` make it a script: %d groups, each starts when the one before has ended", r.file, groups))
	}
	for _, d := range r.tools {
		note := fmt.Sprintf("%s:%d: %q before the program is left out", r.file, d.line, d.text)
		if d.more > 0 {
			note += fmt.Sprintf("; more lines with %s: %d", d.name, d.more)
		}
		notes = append(notes, note)
	}
	return notes
}

// word is a word of a line.
type word struct {
	text   string
	column int // of its first character, from 1
}

func splitLine(line string) []word {
	var words []word
	column := 1
	for line != "" {
		blank := len(line) - len(strings.TrimLeft(line, " \t"))
		line, column = line[blank:], column+blank
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		if end > 0 {
			words = append(words, word{line[:end], column})
		}
		column += utf8.RuneCountInString(line[:end])
		line = line[end:]
	}
	return words
}

// command returns the job of a command line, and the words of the tools before its program.
func (r *wlReader) command(words []word) (j Job, tools []word, err *InputError) {
	var stdin string
	if path.Base(words[0].text) == "cat" {
		if len(words) < 4 || words[2].text != "|" || strings.HasPrefix(words[1].text, "-") {
			return j, nil, &InputError{Column: words[0].column, Msg: "unsupported use of cat", Remedy: "write cat FILE | program arguments"}
		}
		if err := refuseShell(words[1:2]); err != nil {
			return j, nil, err
		}
		stdin, words = words[1].text, words[3:]
	}
	if err := refuseShell(words); err != nil {
		return j, nil, err
	}
	if tools, words, err = unwrap(words); err != nil {
		return j, nil, err
	}
	program, found := r.recognise(words[0].text, len(words)-1)
	if !found {
		return j, nil, r.notFound(words)
	}
	j = Job{Name: labelOf(program), Program: program, Stdin: stdin}
	for _, w := range words[1:] {
		j.Args = append(j.Args, w.text)
	}
	return identify(j, r.jobs), tools, nil
}

// notFound is the error of a command whose program is unknown.
func (r *wlReader) notFound(words []word) *InputError {
	program := words[0].text
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	err := &InputError{Column: words[0].column, Msg: fmt.Sprintf("unknown program %q in %q", path.Base(program), strings.Join(texts, " ")), program: program}
	switch {
	case path.Base(program) == "srad":
		err.Remedy = "srad_v1/srad has 4 arguments and srad_v2/srad 8: write one of them, so that the version is known"
	case path.Ext(program) == ".wl":
		err.Remedy = "it is a workload file: run it as a mix of its own, with " + shellLine("caserun", "mix", program)
	case slices.Contains(starters, path.Base(program)):
		err.Remedy = "jobs start as they are: remove what is before the program, or put the job into a .yaml mix (env, timeout)"
	case strings.Contains(program, "="):
		err.Remedy = "jobs start without a shell: put the job into a .yaml mix, and its environment into the key env"
	default:
		if err.program = path.Base(program); !r.remedied { // once is enough for a file
			r.remedied = true
			err.Remedy = "known are " + strings.Join(suitePrograms, ", ") + "; " + moreOfSuite(r.file, r.has) + "; put your own programs into a .yaml mix"
		}
	}
	return err
}

// starters start a program in another way. Lines that begin with them are refused, because the job would not be measured so.
var starters = strings.Fields("bash chrt cuda-gdb docker env exec gdb mpiexec mpirun nice nohup numactl setsid sh srun stdbuf sudo taskset timeout valgrind")

// moreOfSuite says where programs beside SuitePrograms come from.
func moreOfSuite(file string, has func(string) bool) string {
	where := "--suite DIR adds those of your own build"
	if has != nil {
		where = "neither --suite nor --profiles has it"
	}
	return where + "; a simulated node needs their profiles: on a machine with a GPU, run " +
		ProfileCommand(file, "--suite", "DIR") + ", and add --profiles " + ProfilesFile
}

func refuseShell(words []word) *InputError {
	for _, w := range words {
		if i := strings.IndexAny(w.text, shellCharacters); i >= 0 {
			feature, remedy := w.text[i:i+1], "write the program and its arguments, or put the job into a .yaml mix"
			switch feature {
			case "<":
				remedy = "write cat FILE | program arguments"
			case ">":
				remedy = "remove the redirection: caserun keeps the output of each job"
			}
			return &InputError{
				Column: w.column + utf8.RuneCountInString(w.text[:i]),
				Msg:    "shell feature " + strconv.Quote(feature) + " is not supported",
				Remedy: "jobs start without a shell: " + remedy,
			}
		}
	}
	return nil
}

func (r *wlReader) recognise(program string, arguments int) (string, bool) {
	base := path.Base(program)
	if in := path.Join(path.Base(path.Dir(program)), base); slices.Contains(suitePrograms, in) {
		return in, true
	}
	if base == "srad" { // two programs have this base name
		of, found := map[int]string{4: "srad_v1/srad", 8: "srad_v2/srad"}[arguments]
		return of, found
	}
	return base, slices.Contains(suitePrograms, base) || r.has != nil && r.has(base)
}

// identify replaces the job's files by the suite's files and finds the job's name and footprint.
func identify(j Job, jobs jobIndex) Job {
	files := jobs.inputs[j.Program]
	for i, a := range j.Args {
		if f, found := files[path.Base(a)]; found {
			j.Args[i] = f
		}
	}
	if f, found := files[path.Base(j.Stdin)]; found {
		j.Stdin = f
	}
	if known, found := jobs.byCommand[j.Command()]; found {
		return known.clone()
	}
	if footprint, size, exact := footprintOf(j.Program, j.Args); exact {
		j.Footprint, j.Class = footprint, classOf(footprint.Bytes)
		j.Name += "-" + size
	}
	return j
}

// namesFile reports whether an argument of the catalog is an input file: it has an extension and
// is not a number such as 0.5.
func namesFile(arg string) bool {
	_, err := strconv.ParseFloat(arg, 64)
	return err != nil && path.Ext(arg) != ""
}
