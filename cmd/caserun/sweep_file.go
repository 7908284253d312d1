package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
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
func loadSweepFile(path string) (sweepFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return sweepFile{}, usageError(fmt.Errorf("sweep file: %w", err))
	}
	f := sweepFile{settings: map[string]any{}}
	body, err := sweepBody(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err == nil {
		err = f.fields(body, filepath.Dir(path))
	}
	var at *sweepFileError
	switch {
	case errors.As(err, &at):
		err = fmt.Errorf("%s:%d:%d: %w", path, at.token.Position.Line, at.token.Position.Column, err)
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	}
	return f, usageError(err)
}

// sweepFileError is an error at a place in a sweep's file.
type sweepFileError struct {
	token *token.Token
	text  string
}

func (e *sweepFileError) Error() string { return e.text }

func failAt(at ast.Node, format string, args ...any) error {
	return &sweepFileError{at.GetToken(), fmt.Sprintf(format, args...)}
}

// sweepBody is the mapping that a sweep's file is.
func sweepBody(text []byte) (*ast.MappingNode, error) {
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		var at interface {
			GetToken() *token.Token
			GetMessage() string
		}
		if errors.As(err, &at) && at.GetToken() != nil {
			err = &sweepFileError{at.GetToken(), at.GetMessage()}
		}
		return nil, err
	}
	docs := slices.DeleteFunc(parsed.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	if len(docs) == 0 {
		return nil, errors.New("no sweep in the file: write mixes and scheds, each with a list")
	}
	if len(docs) > 1 {
		return nil, failAt(docs[1].Body, "more than one YAML document: put each sweep into its own file")
	}
	body, ok := docs[0].Body.(*ast.MappingNode)
	if !ok {
		return nil, failAt(docs[0].Body, "want keys and values, such as mixes: [W1..W8]")
	}
	return body, nil
}

// fields takes what the file says; paths are relative to dir.
func (f *sweepFile) fields(body *ast.MappingNode, dir string) error {
	planned, node := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	f.options.addPlanned(planned)
	addNodeFlags(node)
	for _, v := range body.Values {
		key := v.Key.GetToken().Value
		var err error
		switch flag := node.Lookup(key); {
		case key == "mixes":
			err = eachItem(v, "[W1..W8, my.yaml]", func(item string) error {
				if isMixFile(item) && !filepath.IsAbs(item) {
					item = filepath.Join(dir, item)
				}
				return appendTo(&f.options.Mixes, spreadMixes, item)
			})
		case key == "scheds":
			err = eachItem(v, "[sa, case-alg3]", func(item string) error {
				f.options.Scheds = append(f.options.Scheds, item)
				return nil
			})
		case flag != nil:
			f.settings[key], err = setFlag(flag, key, v.Value)
		case planned.Lookup(key) != nil:
			_, err = setFlag(planned.Lookup(key), key, v.Value)
		default:
			var known []string
			for _, flags := range []*pflag.FlagSet{planned, node} {
				flags.VisitAll(func(flag *pflag.Flag) { known = append(known, flag.Name) })
			}
			err = failAt(v.Key, "unknown key %q: known are %s", key, strings.Join(known, ", "))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachItem takes every item of a key's list.
func eachItem(v *ast.MappingValueNode, example string, take func(string) error) error {
	key := v.Key.GetToken().Value
	list, ok := v.Value.(*ast.SequenceNode)
	if !ok {
		return failAt(v.Value, "%s is no list: write %s: %s", key, key, example)
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

// setFlag gives a flag the value of its key, and returns it as it is written.
func setFlag(flag *pflag.Flag, key string, value ast.Node) (string, error) {
	text, err := scalar(value, key)
	if err != nil {
		return "", err
	}
	if err := setText(flag, text); err != nil {
		return "", failAt(value, "%s %q: %v", key, text, err)
	}
	return text, nil
}

// scalar is a single value as it is written.
func scalar(n ast.Node, what string) (string, error) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, nil
	case *ast.LiteralNode:
		return s.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", failAt(n, "%s has no value: give it one, or remove it", what)
	}
	return "", failAt(n, "%s: want a single value", what)
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
