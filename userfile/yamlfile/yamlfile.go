// Package yamlfile reads a file of a user's that is one mapping of YAML. Values are taken as they are written: 1.10 stays 1.10. Errors
// name the file, line and column.
package yamlfile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxNesting bounds the YAML parser's recursion, which otherwise takes unbounded memory. A mix
// nests three levels.
const MaxNesting = 32

// placed is an error at a place in a file.
type placed struct {
	token *token.Token
	text  string
}

func (e *placed) Error() string { return e.text }

// Fail is an error at a node.
func Fail(at ast.Node, format string, args ...any) error {
	return &placed{at.GetToken(), fmt.Sprintf(format, args...)}
}

// IsPlaced reports whether an error has a place.
func IsPlaced(err error) bool { return errors.As(err, new(*placed)) }

// Line is where a node stands, from 1.
func Line(at ast.Node) int { return at.GetToken().Position.Line }

// Name gives an error of a file's content the file's name, and line and column if it has a place.
func Name(path string, err error) error {
	var at *placed
	switch {
	case errors.As(err, &at):
		return fmt.Errorf("%s:%d:%d: %w", path, at.token.Position.Line, at.token.Position.Column, err)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Parse passes on the keys and values of a file's text. The example, for errors, is of a key and its value.
func Parse(text []byte, example string, take func(key string, at, value ast.Node) error) error {
	body, err := parseMapping(text, example)
	if body == nil || err != nil {
		return err
	}
	return Each(body, take)
}

// Each passes on the keys and values of a mapping.
func Each(body *ast.MappingNode, take func(key string, at, value ast.Node) error) error {
	for _, v := range body.Values {
		var at ast.Node = v.Key
		if explicit, ok := at.(*ast.MappingKeyNode); ok {
			at = explicit.Value
		}
		key, err := Scalar(at, "a key")
		if err == nil {
			err = take(key, at, Plain(v.Value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseMapping reads the keys and values of a file; nil if it is empty.
func parseMapping(text []byte, example string) (*ast.MappingNode, error) {
	tokens := lexer.Tokenize(string(text))
	if deep := TooDeep(tokens); deep != nil {
		return nil, &placed{deep, fmt.Sprintf("nested more than %d deep", MaxNesting)}
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		var at interface {
			GetToken() *token.Token
			GetMessage() string
		}
		if errors.As(err, &at) && at.GetToken() != nil {
			err = &placed{at.GetToken(), "not valid YAML: " + at.GetMessage()}
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
		return nil, Fail(docs[1].Body, "more than one YAML document: put each into its own file")
	}
	body, ok := Plain(docs[0].Body).(*ast.MappingNode)
	if !ok {
		return nil, Fail(docs[0].Body, "want keys and values, such as %s", example)
	}
	return body, nil
}

// Plain is the value that an anchor or a tag marks.
func Plain(n ast.Node) ast.Node {
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

// Scalar is a single value as it is written: 1.10 stays 1.10.
func Scalar(n ast.Node, what string) (string, error) {
	switch s := Plain(n).(type) {
	case *ast.StringNode:
		return s.Value, nil
	case *ast.LiteralNode:
		return s.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return s.GetToken().Value, nil
	case *ast.NullNode:
		return "", Fail(n, "%s has no value: give it one, or remove it", what)
	case *ast.AliasNode:
		return "", Fail(n, "%s: aliases are not read: write the value out", what)
	}
	return "", Fail(n, "%s: want a single value", what)
}

// TooDeep returns the token that opens one level too many; nil if there is none. Levels are open
// brackets, and list dashes and explicit keys on one line.
func TooDeep(tokens token.Tokens) *token.Token {
	open, line, dashes := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			open++
		case token.SequenceEndType, token.MappingEndType:
			open = max(open-1, 0)
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			if t.Position.Line != line {
				line, dashes = t.Position.Line, 0
			}
			dashes++
		}
		if open > MaxNesting || dashes > MaxNesting || t.Position.IndentNum > 8*MaxNesting {
			return t
		}
	}
	return nil
}
