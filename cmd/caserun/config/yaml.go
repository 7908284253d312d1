package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"

	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/yamlfile"
)

// maxYAMLBytes bounds a configuration or sweep file.
const maxYAMLBytes = 1 << 20

// readYAML passes on the keys and values of a file that is one mapping. Errors, also those of take, get the file's name.
func readYAML(ctx context.Context, path string, take func(key string, at, value ast.Node) error) error {
	text, err := userfile.Read(ctx, path, maxYAMLBytes)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", failed.Path, failed.Err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return yamlfile.Name(path, yamlfile.Parse(text, "mem-cap: 16GiB", take))
}

// setFlag gives a flag the value of its key, and returns it as it is written.
func setFlag(flag *pflag.Flag, key string, value ast.Node) (string, error) {
	text, err := yamlfile.Scalar(value, key)
	if err != nil {
		return "", err
	}
	err = setText(flag, text)
	if errors.Is(err, errEmpty) {
		return "", yamlfile.Fail(value, "%s is empty: give it a value, or remove it", key)
	}
	if err != nil {
		return "", yamlfile.Fail(value, "%s %q: %v", key, text, err)
	}
	err = checkText(key, text)
	if err == nil && isKey(key) {
		err = Check(key, text)
	}
	if err != nil {
		return "", yamlfile.Fail(value, "%v", err)
	}
	return text, nil
}
