package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/userfile"
)

// yamlError is an error at a place in a YAML file.
type yamlError struct {
	token *token.Token
	text  string
}

func (e *yamlError) Error() string { return e.text }

func failAt(at ast.Node, format string, args ...any) error {
	return &yamlError{at.GetToken(), fmt.Sprintf(format, args...)}
}

// maxYAMLBytes bounds a configuration or sweep file.
const maxYAMLBytes = 1 << 20

// readYAML passes on the keys and values of a file that is one mapping. Errors, also those of
// take, get the file's name, and line and column if they have a place.
func readYAML(ctx context.Context, path string, take func(key string, at, value ast.Node) error) error {
	text, err := userfile.Read(ctx, path, maxYAMLBytes)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", failed.Path, failed.Err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	err = eachValue(text, take)
	var at *yamlError
	switch {
	case errors.As(err, &at):
		return fmt.Errorf("%s:%d:%d: %w", path, at.token.Position.Line, at.token.Position.Column, err)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func eachValue(text []byte, take func(key string, at, value ast.Node) error) error {
	body, err := parseMapping(text)
	if body == nil || err != nil {
		return err
	}
	return eachKey(body, take)
}

// eachKey passes on the keys and values of a mapping.
func eachKey(body *ast.MappingNode, take func(key string, at, value ast.Node) error) error {
	for _, v := range body.Values {
		var at ast.Node = v.Key
		if explicit, ok := at.(*ast.MappingKeyNode); ok {
			at = explicit.Value
		}
		key, err := scalar(at, "a key")
		if err == nil {
			err = take(key, at, plain(v.Value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseMapping reads the keys and values of a file; nil if it is empty.
func parseMapping(text []byte) (*ast.MappingNode, error) {
	tokens := lexer.Tokenize(string(text))
	if deep := mixes.TooDeep(tokens); deep != nil {
		return nil, &yamlError{deep, fmt.Sprintf("nested more than %d deep", mixes.MaxNesting)}
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		var at interface {
			GetToken() *token.Token
			GetMessage() string
		}
		if errors.As(err, &at) && at.GetToken() != nil {
			err = &yamlError{at.GetToken(), "not valid YAML: " + at.GetMessage()}
		}
		return nil, err
	}
	docs := slices.DeleteFunc(parsed.Docs, func(d *ast.DocumentNode) bool {
		_, directive := d.Body.(*ast.DirectiveNode)
		return d.Body == nil || directive
	})
	if len(docs) == 0 {
		return nil, nil
	}
	if len(docs) > 1 {
		return nil, failAt(docs[1].Body, "more than one YAML document: put each into its own file")
	}
	body, ok := plain(docs[0].Body).(*ast.MappingNode)
	if !ok {
		return nil, failAt(docs[0].Body, "want keys and values, such as mem-cap: 16GiB")
	}
	return body, nil
}

// plain is the value that an anchor or a tag marks.
func plain(n ast.Node) ast.Node {
	for {
		switch outer := n.(type) {
		case *ast.AnchorNode:
			n = outer.Value
		case *ast.TagNode:
			n = outer.Value
		default:
			return n
		}
	}
}

// scalar is a single value as it is written: 1.10 stays 1.10.
func scalar(n ast.Node, what string) (string, error) {
	switch s := plain(n).(type) {
	case *ast.StringNode:
		return s.Value, nil
	case *ast.LiteralNode:
		return s.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return s.GetToken().Value, nil
	case *ast.NullNode:
		return "", failAt(n, "%s has no value: give it one, or remove it", what)
	case *ast.AliasNode:
		return "", failAt(n, "%s: aliases are not read: write the value out", what)
	}
	return "", failAt(n, "%s: want a single value", what)
}

// setFlag gives a flag the value of its key, and returns it as it is written.
func setFlag(flag *pflag.Flag, key string, value ast.Node) (string, error) {
	text, err := scalar(value, key)
	if err != nil {
		return "", err
	}
	err = setText(flag, text)
	if errors.Is(err, errEmpty) {
		return "", failAt(value, "%s is empty: give it a value, or remove it", key)
	}
	if err != nil {
		return "", failAt(value, "%s %q: %v", key, text, err)
	}
	err = checkText(key, text)
	if err == nil && isKey(key) {
		err = Check(key, text)
	}
	if err != nil {
		return "", failAt(value, "%v", err)
	}
	return text, nil
}
