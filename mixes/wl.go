package mixes

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// shellCharacters have a meaning for a shell, which never sees these lines.
const shellCharacters = ";&><$`\"'\\(){}[]*?|#~"

// parseWL reads a list of command lines, the form of the CASE authors' workload
// files: one job per line, words separated by spaces or tabs, "cat FILE |"
// before a program that reads FILE. Blank lines, and lines whose first
// character is #, are no jobs.
//
// A program is recognised by its base name, srad by its directory too, and
// stands for the suite's program whatever path the file gives. An argument or
// input file with the same base name as an input file of a catalog job of that
// program becomes that file, so /data/graph32M.txt is graph32M.txt in the
// suite's data directory; other paths stay as they are. A command of the
// catalog gets its name and footprint; any other gets a footprint where its
// arguments determine it exactly, and otherwise none.
func parseWL(file string, data []byte, jobs jobIndex) (Mix, error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if err := checkText(file, data); err != nil {
		return Mix{}, err
	}
	m := Mix{Name: baseName(file), Source: file}
	var errs InputErrors
	for i, line := range strings.Split(string(data), "\n") {
		words := splitLine(strings.TrimSuffix(line, "\r"))
		if len(words) == 0 || strings.HasPrefix(words[0].text, "#") {
			continue
		}
		j, err := parseCommandLine(words, jobs)
		if err != nil {
			err.File, err.Line = file, i+1
			err.Msg += fmt.Sprintf(": %q", strings.TrimSpace(line))
			errs = append(errs, err)
			continue
		}
		if len(m.Jobs) == maxJobs {
			errs = append(errs, &InputError{File: file, Line: i + 1, Msg: fmt.Sprintf("more than %d jobs in the mix", maxJobs)})
			break
		}
		m.Jobs = append(m.Jobs, j)
	}
	if len(m.Jobs) == 0 && len(errs) == 0 {
		errs = InputErrors{{File: file, Line: 1, Msg: "no job in the file", Remedy: "write one command line per job"}}
	}
	if err := errs.asError(); err != nil {
		return Mix{}, err
	}
	return m, nil
}

// word is a word of a line with the column, counted in characters from 1, at
// which it starts.
type word struct {
	text   string
	column int
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

func parseCommandLine(words []word, jobs jobIndex) (Job, *InputError) {
	var stdin string
	if path.Base(words[0].text) == "cat" {
		if len(words) < 4 || words[2].text != "|" || strings.HasPrefix(words[1].text, "-") {
			return Job{}, &InputError{Column: words[0].column, Msg: "unsupported use of cat", Remedy: "write cat FILE | program arguments"}
		}
		if err := refuseShell(words[1:2]); err != nil {
			return Job{}, err
		}
		stdin, words = words[1].text, words[3:]
	}
	if err := refuseShell(words); err != nil {
		return Job{}, err
	}
	program, found := recognise(words[0].text)
	if !found {
		remedy := "known are " + strings.Join(suitePrograms, ", ") + "; put your own programs into a .yaml mix"
		if path.Base(words[0].text) == "srad" {
			remedy = "write srad_v1/srad or srad_v2/srad, so that the version is known"
		}
		return Job{}, &InputError{Column: words[0].column, Msg: "unknown program", Remedy: remedy}
	}
	j := Job{Name: labelOf(program), Program: program, Stdin: stdin}
	for _, w := range words[1:] {
		j.Args = append(j.Args, w.text)
	}
	return identify(j, jobs), nil
}

func refuseShell(words []word) *InputError {
	for _, w := range words {
		if i := strings.IndexAny(w.text, shellCharacters); i >= 0 {
			return &InputError{
				Column: w.column + utf8.RuneCountInString(w.text[:i]),
				Msg:    "shell feature " + strconv.Quote(w.text[i:i+1]) + " is not supported",
				Remedy: "jobs start without a shell: write the program and its arguments, or put the job into a .yaml mix",
			}
		}
	}
	return nil
}

func recognise(program string) (string, bool) {
	base := path.Base(program)
	if base == "srad" {
		base = path.Join(path.Base(path.Dir(program)), base)
	}
	return base, slices.Contains(suitePrograms, base)
}

// identify maps the job's files onto the suite's and finds its name and
// footprint.
func identify(j Job, jobs jobIndex) Job {
	files := map[string]string{}
	for _, name := range jobs.names {
		known := jobs.byName[name]
		if known.Program != j.Program {
			continue
		}
		for _, a := range append([]string{known.Stdin}, known.Args...) {
			if namesFile(a) {
				files[path.Base(a)] = a
			}
		}
	}
	for i, a := range j.Args {
		if f, found := files[path.Base(a)]; found {
			j.Args[i] = f
		}
	}
	if f, found := files[path.Base(j.Stdin)]; found {
		j.Stdin = f
	}
	for _, name := range jobs.names {
		if known := jobs.byName[name]; known.Command() == j.Command() {
			return known.clone()
		}
	}
	if footprint, size, exact := footprintOf(j.Program, j.Args); exact {
		j.Footprint, j.Class = footprint, classOf(footprint.Bytes)
		j.Name += "-" + size
	}
	return j
}

// namesFile tells input files of the catalog from numbers and words: they have
// an extension, and 0.5 is a number.
func namesFile(arg string) bool {
	_, err := strconv.ParseFloat(arg, 64)
	return err != nil && path.Ext(arg) != ""
}
