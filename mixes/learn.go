package mixes

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/userfile"
)

// Learn returns the text of a mix in YAML with measured footprints. A field that measured leaves
// zero keeps the job's own value. A YAML file keeps its comments and layout; a mix of the catalog
// or of a .wl file is rewritten.
func Learn(m Mix, measured func(Job) Footprint, has func(program string) bool) ([]byte, error) {
	if !IsYAML(m.Source) {
		learned := m.clone()
		for i, j := range learned.Jobs {
			learned.Jobs[i] = j.WithFootprint(j.Footprint.or(measured(j)))
		}
		var out bytes.Buffer
		err := WriteYAML(&out, learned)
		return out.Bytes(), err
	}
	text, err := readWhole(m.Source)
	if err != nil {
		return nil, unreadable(m.Source, err)
	}
	return learnYAML(m.Source, text, measured, has)
}

// Unmeasured names each command of a mix of which something was not measured.
func Unmeasured(m Mix, measured func(Job) Footprint) (says []string) {
	said := map[string]bool{}
	for _, j := range m.Jobs {
		f := measured(j)
		what := "its blocks and threads stay as they are: they were not measured"
		switch {
		case f == (Footprint{}):
			what = "its footprint stays as it is: it was not measured"
		case f.Bytes == 0:
			what = "its memory stays as it is: it was not measured"
		case f.Blocks > 0 && f.ThreadsPerBlock > 0:
			continue
		}
		if line := j.Command() + ": " + what; !said[line] {
			said[line] = true
			says = append(says, line)
		}
	}
	return says
}

// IsYAML reports by a file's name whether it is a mix in YAML.
func IsYAML(path string) bool { return slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) }

// or returns f with the non-zero fields of g.
func (f Footprint) or(g Footprint) Footprint {
	return Footprint{cmp.Or(g.Bytes, f.Bytes), cmp.Or(g.Blocks, f.Blocks), cmp.Or(g.ThreadsPerBlock, f.ThreadsPerBlock)}
}

// edit replaces text[from:to].
type edit struct {
	from, to int
	text     string
}

// errLayout means that the file is valid, but that its layout is not one that Learn can edit.
var errLayout = errors.New("its footprint is not written key by key, each on a line of its own or within braces: edit it by hand")

func learnYAML(file string, data []byte, measured func(Job) Footprint, has func(string) bool) ([]byte, error) {
	data, marked := bytes.CutPrefix(data, []byte(userfile.ByteOrderMark))
	returns := bytes.Count(data, []byte("\r\n"))
	if returns > 0 && returns < bytes.Count(data, []byte("\n")) {
		return nil, fmt.Errorf("%s: some of its lines end with a carriage return, and some do not: make them alike", file)
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	want, err := parseYAML(newLines(file, bytes.NewReader(data)), builtin().jobs, has)
	if err != nil {
		return nil, err
	}
	for i, j := range want.Jobs {
		want.Jobs[i] = j.WithFootprint(j.Footprint.or(measured(j)))
	}
	r := &yamlReader{file: file, jobs: builtin().jobs, has: has}
	list, _ := r.fields(r.document(piece{text: data}), "the mix", mixKeys)["jobs"].value.(*ast.SequenceNode) // parseYAML has just checked it
	source := newSource(data)
	var edits []edit
	for _, n := range list.Values {
		j, _ := r.job(n)
		more, err := source.jobEdits(r, n, j.Footprint, measured(j), list.IsFlowStyle)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", file, firstToken(n).Position.Line, j.Command(), err)
		}
		edits = append(edits, more...)
	}
	out := source.apply(edits)
	got, err := parseYAML(newLines(file, bytes.NewReader(out)), builtin().jobs, has)
	if err != nil || !slices.EqualFunc(got.Jobs, want.Jobs, Job.equal) {
		return nil, fmt.Errorf("%s: %w", file, errLayout)
	}
	if returns > 0 {
		out = bytes.ReplaceAll(out, []byte("\n"), []byte("\r\n"))
	}
	if marked {
		out = slices.Concat([]byte(userfile.ByteOrderMark), out)
	}
	return out, nil
}

// source is a file's text with the offsets of its lines.
type source struct {
	text  []byte
	lines []int // the offset at which each begins
}

func newSource(text []byte) source {
	s := source{text: text, lines: []int{0}}
	for i, c := range text {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// at returns the offset at which a token begins.
func (s source) at(t *token.Token) (int, bool) {
	if t.Position.Line < 1 || t.Position.Line > len(s.lines) {
		return 0, false
	}
	at := s.lines[t.Position.Line-1]
	for range t.Position.Column - 1 {
		_, size := utf8.DecodeRune(s.text[at:])
		at += size
	}
	return at, at < len(s.text)
}

// scalar returns the offsets at which a value on one line begins and ends.
func (s source) scalar(n ast.Node) (from, to int, err error) {
	t := n.GetToken()
	from, ok := s.at(t)
	if ok {
		for _, written := range []string{`"` + t.Value + `"`, "'" + t.Value + "'", t.Value} {
			if bytes.HasPrefix(s.text[from:], []byte(written)) {
				return from, from + len(written), nil
			}
		}
	}
	return 0, 0, errLayout
}

// jobEdits returns the edits that give a job of the list its measured footprint.
func (s source) jobEdits(r *yamlReader, n ast.Node, was, measured Footprint, inFlow bool) ([]edit, error) {
	var keys, values []string
	add := func(key string, was, now uint64, text string) {
		if now != 0 && now != was {
			keys, values = append(keys, key), append(values, text)
		}
	}
	add("memory", uint64(was.Bytes), uint64(measured.Bytes), size.FormatChosen(measured.Bytes))
	add("blocks", was.Blocks, measured.Blocks, strconv.FormatUint(measured.Blocks, 10))
	add("threads_per_block", uint64(was.ThreadsPerBlock), uint64(measured.ThreadsPerBlock), strconv.FormatUint(uint64(measured.ThreadsPerBlock), 10))
	if len(keys) == 0 {
		return nil, nil
	}
	if m, isMapping := n.(*ast.MappingNode); isMapping {
		return s.mappingEdits(r.fields(m, "a job", jobKeys), m, keys, values)
	}
	from, to, err := s.scalar(n) // a job of the catalog
	if err != nil {
		return nil, err
	}
	if inFlow {
		return []edit{{from, from, "{job: "}, {to, to, ", " + joined(keys, values, ", ") + "}"}}, nil
	}
	return []edit{{from, from, "job: "}, s.newLines(from, keys, values)}, nil
}

// mappingEdits returns edits that change the keys that a job has, and add the missing keys. Inside
// braces the added keys come first. Otherwise they are on lines of their own after what the job runs.
func (s source) mappingEdits(fields map[string]field, m *ast.MappingNode, keys, values []string) (edits []edit, err error) {
	var newKeys, newValues []string
	for i, key := range keys {
		f, found := fields[key]
		if !found {
			newKeys, newValues = append(newKeys, key), append(newValues, values[i])
			continue
		}
		from, to, err := s.scalar(f.value)
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit{from, to, values[i]})
	}
	if len(newKeys) == 0 {
		return edits, nil
	}
	if m.IsFlowStyle {
		at, ok := s.at(m.Start)
		if !ok {
			return nil, errLayout
		}
		return append(edits, edit{at + 1, at + 1, joined(newKeys, newValues, ", ") + ", "}), nil
	}
	var named field // what the job runs
	for _, key := range []string{"steps", "program", "job"} {
		if f, found := fields[key]; found {
			named = f
		}
	}
	key, ok := s.at(named.key)
	if !ok {
		return nil, errLayout
	}
	return append(edits, s.newLines(key, newKeys, newValues)), nil
}

// newLines adds keys below the line of an offset, in the offset's column.
func (s source) newLines(under int, keys, values []string) edit {
	start := bytes.LastIndexByte(s.text[:under], '\n') + 1
	indent := strings.Repeat(" ", utf8.RuneCount(s.text[start:under]))
	text := "\n" + indent + joined(keys, values, "\n"+indent)
	to := len(s.text)
	if i := bytes.IndexByte(s.text[under:], '\n'); i >= 0 {
		to = under + i
	}
	return edit{to, to, text}
}

func joined(keys, values []string, between string) string {
	var out []string
	for i, key := range keys {
		out = append(out, key+": "+values[i])
	}
	return strings.Join(out, between)
}

func (s source) apply(edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out []byte
	done := 0
	for _, e := range edits {
		out = append(append(out, s.text[done:e.from]...), e.text...)
		done = e.to
	}
	return append(out, s.text[done:]...)
}
