package config

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/sweep"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/userfile/yamlfile"
)

// SweepFile is a sweep as a file describes it. The file's keys are names of flags, and its
// values are what the flags take. A flag that the file leaves out has its default.
type SweepFile struct {
	Options  sweep.Options
	Settings map[string]any // of AddNodeFlags, by key
}

// LoadSweepFile reads a sweep's file. An unknown key is an error, and errors name file, line and
// column. Paths of mixes and of programs that decide are relative to the file.
func LoadSweepFile(ctx context.Context, path string) (SweepFile, error) {
	f := SweepFile{Settings: map[string]any{}}
	planned, node := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	AddSweepFlags(planned, &f.Options)
	AddNodeFlags(node)
	empty := true
	var distinct sweep.Distinct
	once := func(key string, value ast.Node, example string, read func(ast.Node, string) (string, error), take func(string) error) error {
		return eachItem(key, value, example, read, func(item string) error {
			err := take(item)
			if err == nil {
				_, err = distinct.Check(f.Options)
			}
			return err
		})
	}
	err := readYAML(ctx, path, func(key string, at, value ast.Node) (err error) {
		empty = false
		switch flag := node.Lookup(key); {
		case key == "mixes":
			return once(key, value, "[W1..W8, my.yaml]", yamlfile.Scalar, func(item string) error {
				if suites.IsMixFile(item) && !filepath.IsAbs(item) {
					item = filepath.Join(filepath.Dir(path), item)
				}
				return appendTo(&f.Options.Mixes, spreadMixes, item)
			})
		case key == "scheds":
			return once(key, value, "[sa, case-alg3]", schedText, func(item string) error {
				return f.addScheds(item, filepath.Dir(path))
			})
		case key == "probes":
			return once(key, value, "[lazy, static]", yamlfile.Scalar, func(item string) error {
				return appendTo(&f.Options.Probes, splitProbes, item)
			})
		case flag != nil:
			f.Settings[key], err = setFlag(flag, key, value)
			return err
		case planned.Lookup(key) != nil:
			_, err = setFlag(planned.Lookup(key), key, value)
			return err
		}
		return yamlfile.Fail(at, "unknown key %q: %s", key, near.OrKnown(key, append(namesOf(planned), namesOf(node)...)))
	})
	if err == nil && empty {
		err = fmt.Errorf("%s: no sweep in the file: write mixes and scheds, each with a list", path)
	}
	if err != nil {
		return f, fmt.Errorf("sweep file %w", err)
	}
	return f, nil
}

// eachItem takes every item of a key's list, as read has it.
func eachItem(key string, value ast.Node, example string, read func(ast.Node, string) (string, error), take func(string) error) error {
	list, ok := value.(*ast.SequenceNode)
	if !ok {
		return yamlfile.Fail(value, "%s is not a list: write %s: %s", key, key, example)
	}
	if len(list.Values) == 0 {
		return yamlfile.Fail(value, "%s is an empty list: write %s: %s, or remove it", key, key, example)
	}
	for _, item := range list.Values {
		text, err := read(item, "an item of "+key)
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" {
			return yamlfile.Fail(item, "an item of %s is empty: give it a value, or remove it", key)
		}
		if err := take(text); err != nil {
			return yamlfile.Fail(item, "%s: %v", key, err)
		}
	}
	return nil
}

// schedText is a scheduler of a sweep's file as the flag takes it. It may be a mapping: a sched, its parameters, each with a value or a
// list of values, and a name.
func schedText(n ast.Node, what string) (string, error) {
	body, is := yamlfile.Plain(n).(*ast.MappingNode)
	if !is {
		return yamlfile.Scalar(n, what)
	}
	var e schedEntry
	err := yamlfile.Each(body, e.take)
	if err == nil && e.sched == "" {
		err = yamlfile.Fail(n, "%s is without sched: write sched: case-alg3 with its parameters beside it, or fifo:=case-alg3:queue=fifo in one line", what)
	}
	return e.name + policies.With(e.sched, strings.Join(e.parameters, ",")), err
}

// schedEntry is the mapping of a scheduler.
type schedEntry struct {
	name, sched string
	parameters  []string
}

func (e *schedEntry) take(key string, at, value ast.Node) error {
	values, err := scanValues(key, at, value)
	if err != nil {
		return err
	}
	switch one := len(values) == 1; {
	case key != "name" && key != "sched":
		e.parameters = append(e.parameters, key+"="+strings.Join(values, policies.ScanSign))
	case !one:
		return yamlfile.Fail(at, "%s is a list: want one", key)
	case key == "name":
		e.name = values[0] + ":="
	default:
		e.sched = values[0]
	}
	return nil
}

// scanValues are a parameter's value, or its values if it is scanned.
func scanValues(key string, at, value ast.Node) (values []string, err error) {
	list, several := value.(*ast.SequenceNode)
	if !several {
		list = &ast.SequenceNode{Values: []ast.Node{value}}
	}
	for _, v := range list.Values {
		text, err := yamlfile.Scalar(v, key)
		if err != nil {
			return nil, err
		}
		if text == "" || key != "sched" && strings.Contains(text, ",") || several && strings.Contains(text, policies.ScanSign) {
			return nil, yamlfile.Fail(v, "%s %q: want a value without a comma, and in a list without /", key, text)
		}
		values = append(values, text)
	}
	if len(values) == 0 {
		return nil, yamlfile.Fail(at, "%s is an empty list: give it values, or remove it", key)
	}
	return values, nil
}

// addScheds adds the schedulers that an item stands for. Programs that decide are relative to the folder.
func (f *SweepFile) addScheds(item, folder string) error {
	texts, err := cluster.Spread(item)
	if err != nil {
		return err
	}
	for _, text := range texts {
		f.Options.Scheds = append(f.Options.Scheds, cluster.InFolder(folder, text))
		if err := Check("sched", text); err != nil {
			return err
		}
	}
	return nil
}

// Fill gives the options that no flag gave the values of the file.
func (f SweepFile) Fill(o *sweep.Options) {
	if o.Name == "" {
		o.Name = f.Options.Name
	}
	if len(o.Mixes) == 0 {
		o.Mixes = f.Options.Mixes
	}
	if len(o.Scheds) == 0 {
		o.Scheds = f.Options.Scheds
	}
	if len(o.Probes) == 0 {
		o.Probes = f.Options.Probes
	}
	if o.Reps == 0 {
		o.Reps = f.Options.Reps
	}
	if o.Warmups < 0 {
		o.Warmups = f.Options.Warmups
	}
}

// ShowSweep is what was asked of a sweep, as a sweep's file has it.
func ShowSweep(o sweep.Options) ([]byte, error) {
	var asked yaml.MapSlice
	add := func(key string, value any, given bool) {
		if given {
			asked = append(asked, yaml.MapItem{Key: key, Value: value})
		}
	}
	add("name", o.Name, o.Name != "")
	add("mixes", o.Mixes, len(o.Mixes) > 0)
	add("scheds", o.Scheds, len(o.Scheds) > 0)
	var probes []string
	for _, p := range o.Probes {
		probes = append(probes, p.String())
	}
	add("probes", probes, len(probes) > 0 && !slices.Equal(o.Probes, []results.Probe{results.Lazy}))
	add("reps", o.Reps, o.Reps > 0)
	add("warmups", o.Warmups, o.Warmups >= 0)
	if len(asked) == 0 {
		return nil, nil
	}
	text, err := yaml.Marshal(asked)
	if err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	return text, nil
}

// namesOf are the names of flags.
func namesOf(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}
