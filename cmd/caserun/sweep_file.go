package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"
)

// sweepFile is a sweep as a file describes it. Its keys are the names of flags,
// and its values what they take. What a file leaves out has the flag's default.
type sweepFile struct {
	options  sweepOptions
	settings map[string]any // those of addNodeFlags, by key
}

// loadSweepFile reads a sweep's file. A key that it does not know is an error,
// and errors name file, line and column. Paths of mixes are relative to the file.
func loadSweepFile(ctx context.Context, path string) (sweepFile, error) {
	f := sweepFile{settings: map[string]any{}}
	planned, node := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	f.options.addPlanned(planned)
	addNodeFlags(node)
	empty := true
	err := readYAML(ctx, path, func(key string, at, value ast.Node) (err error) {
		empty = false
		switch flag := node.Lookup(key); {
		case key == "mixes":
			return eachItem(key, value, "[W1..W8, my.yaml]", func(item string) error {
				if isMixFile(item) && !filepath.IsAbs(item) {
					item = filepath.Join(filepath.Dir(path), item)
				}
				return appendTo(&f.options.Mixes, spreadMixes, item)
			})
		case key == "scheds":
			return eachItem(key, value, "[sa, case-alg3]", func(item string) error {
				f.options.Scheds = append(f.options.Scheds, item)
				return checkSetting("sched", item)
			})
		case flag != nil:
			f.settings[key], err = setFlag(flag, key, value)
			return err
		case planned.Lookup(key) != nil:
			_, err = setFlag(planned.Lookup(key), key, value)
			return err
		}
		var known []string
		for _, flags := range []*pflag.FlagSet{planned, node} {
			flags.VisitAll(func(flag *pflag.Flag) { known = append(known, flag.Name) })
		}
		return failAt(at, "unknown key %q: known are %s", key, strings.Join(known, ", "))
	})
	if err == nil && empty {
		err = fmt.Errorf("%s: %w", path, errors.New("no sweep in the file: write mixes and scheds, each with a list"))
	}
	if err != nil {
		return f, usageError(fmt.Errorf("sweep file %w", err))
	}
	return f, nil
}

// eachItem takes every item of a key's list.
func eachItem(key string, value ast.Node, example string, take func(string) error) error {
	list, ok := value.(*ast.SequenceNode)
	if !ok {
		return failAt(value, "%s is no list: write %s: %s", key, key, example)
	}
	for _, item := range list.Values {
		text, err := scalar(item, "an item of "+key)
		if err != nil {
			return err
		}
		if err := take(text); err != nil {
			return failAt(item, "%s: %v", key, err)
		}
	}
	return nil
}

// fill gives the options that no flag gave what the file says.
func (f sweepFile) fill(o *sweepOptions) {
	if o.Name == "" {
		o.Name = f.options.Name
	}
	if len(o.Mixes) == 0 {
		o.Mixes = f.options.Mixes
	}
	if len(o.Scheds) == 0 {
		o.Scheds = f.options.Scheds
	}
	if o.Reps == 0 {
		o.Reps = f.options.Reps
	}
	if o.Warmups < 0 {
		o.Warmups = f.options.Warmups
	}
}
