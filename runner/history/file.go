package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/csvfile"
)

// format is that of a history file (docs/reference/history.md).
var format = csvfile.Format[results.Known]{Record: "prediction",
	Key: func(e results.Known) string { return fmt.Sprintf("command %q on gpu %q", e.Command, e.GPU) }, Columns: []csvfile.Column[results.Known]{
		command(csvfile.Text("command", func(e *results.Known) *string { return &e.Command }, true)),
		csvfile.Text("gpu", func(e *results.Known) *string { return &e.GPU }, false),
		csvfile.Duration("before_s", func(e *results.Known) *float64 { return &e.BeforeS }),
		csvfile.Duration("held_s", func(e *results.Known) *float64 { return &e.HeldS }),
		csvfile.Duration("after_s", func(e *results.Known) *float64 { return &e.AfterS }),
		csvfile.Number("bytes", func(e *results.Known) *int64 { return &e.Bytes }),
		csvfile.Fraction("kernels", func(e *results.Known) **float64 { return &e.Kernels }),
		csvfile.Fraction("sms", func(e *results.Known) **float64 { return &e.SMs }),
		csvfile.Text("source", func(e *results.Known) *string { return &e.Source }, false),
		csvfile.Number("runs", func(e *results.Known) *int { return &e.Runs }),
		csvfile.Number("jobs", func(e *results.Known) *int { return &e.Jobs }),
	}}

// command refuses control characters. A job's command has none, because its words are quoted.
func command(c csvfile.Column[results.Known]) csvfile.Column[results.Known] {
	read := c.Read
	c.Read = func(e *results.Known, s string) error {
		if strings.ContainsFunc(s, unicode.IsControl) {
			return errors.New("it has control characters: write the command as caserun history shows it")
		}
		return read(e, s)
	}
	return c
}

// Write writes entries as a history file. Load reads the same. Of entries of one command and GPU it
// writes the first.
func Write(w io.Writer, entries []results.Known) error {
	out := format.NewWriter(w)
	written := map[string]bool{}
	for _, e := range entries {
		if key := format.Key(e); !written[key] {
			written[key] = true
			if err := out.Write(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// File is a history file. The zero value knows nothing.
type File struct {
	byCommand map[string]map[string]results.Known
}

// maxFileBytes bounds a history file. A line has about 120 bytes.
const maxFileBytes = 64 << 20

// Load reads a history file. Errors name file and line.
func Load(ctx context.Context, path string) (File, error) {
	text, err := userfile.Read(ctx, path, maxFileBytes)
	if err != nil {
		return File{}, fmt.Errorf("read history: %w", err)
	}
	return read(path, bytes.NewReader(text))
}

func read(name string, r io.Reader) (File, error) {
	entries, err := format.Read(name, r)
	if err != nil {
		return File{}, err
	}
	f := File{map[string]map[string]results.Known{}}
	for _, e := range entries {
		if f.byCommand[e.Command] == nil {
			f.byCommand[e.Command] = map[string]results.Known{}
		}
		f.byCommand[e.Command][e.GPU] = e
	}
	return f, nil
}

// Entries returns what the file has, with the file as its source.
func (f File) Entries() []results.Known {
	var out []results.Known
	for _, gpus := range f.byCommand {
		for _, e := range gpus {
			e.Source = sourceFile
			out = append(out, e)
		}
	}
	sortKnown(out)
	return out
}

// lookup finds a command on the first of the GPUs that the file has, or else on any GPU.
func (f File) lookup(command string, gpus []string) (results.Known, bool) {
	for _, gpu := range append(gpus[:len(gpus):len(gpus)], "") {
		if e, ok := f.byCommand[command][gpu]; ok {
			e.Source = sourceFile
			return e, true
		}
	}
	return results.Known{}, false
}

// FromFile reports whether what is known of a job comes from a file.
func FromFile(k *results.Known) bool { return k != nil && strings.HasPrefix(k.Source, sourceFile) }

// elsewhere finds a command on the model of GPU of which the file has the most jobs.
func (f File) elsewhere(command string, mode results.Mode) (most results.Known, found bool) {
	for _, gpu := range slices.Sorted(maps.Keys(f.byCommand[command])) {
		if e := f.byCommand[command][gpu]; e.Mode() == mode && (!found || e.Jobs > most.Jobs) {
			most, found = e, true
		}
	}
	most.Source = sourceFile + " on " + most.GPU
	return most, found
}

// Of returns what the file has of a command, by GPU.
func (f File) Of(command string) map[string]results.Known { return f.byCommand[command] }
