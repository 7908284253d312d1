package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/token"
)

// sweepFile is a sweep as a file describes it. What a file leaves out has the
// default of the flag with the same name.
type sweepFile struct {
	Name    string       `yaml:"name"`
	Mixes   []string     `yaml:"mixes"`
	Scheds  []string     `yaml:"scheds"`
	Reps    *int         `yaml:"reps"`
	Warmups *int         `yaml:"warmups"`
	Node    nodeSettings `yaml:",inline"`
}

// nodeSettings are the settings of addNodeFlags.
type nodeSettings struct {
	Tag      *string        `yaml:"tag,omitempty"`
	Node     *string        `yaml:"node,omitempty"`
	Seed     *uint64        `yaml:"seed,omitempty"`
	Devices  *string        `yaml:"devices,omitempty"`
	Workers  *int           `yaml:"workers,omitempty"`
	Timeout  *time.Duration `yaml:"timeout,omitempty"`
	MemCap   *string        `yaml:"mem-cap,omitempty"`
	SMCap    *int           `yaml:"sm-cap,omitempty"`
	NoMPS    *bool          `yaml:"no-mps,omitempty"`
	Context  *string        `yaml:"context-reserve,omitempty"`
	Trace    *bool          `yaml:"trace,omitempty"`
	Suite    *string        `yaml:"suite,omitempty"`
	Data     *string        `yaml:"data,omitempty"`
	Runs     *string        `yaml:"runs,omitempty"`
	Noise    *float64       `yaml:"sim-noise,omitempty"`
	Profiles *string        `yaml:"profiles,omitempty"`
}

// loadSweepFile reads a sweep's file. A key that it does not know is an error,
// and errors name file and line. Paths of mixes are relative to the file.
func loadSweepFile(path string) (sweepFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return sweepFile{}, usageError(fmt.Errorf("sweep file: %w", err))
	}
	var f sweepFile
	d := yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField())
	if err := d.Decode(&f); err != nil {
		return f, usageError(located(path, err))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return f, usageError(fmt.Errorf("%s: more than one YAML document: put each sweep into its own file", path))
	}
	for i, m := range f.Mixes {
		if isMixFile(m) && !filepath.IsAbs(m) {
			f.Mixes[i] = filepath.Join(filepath.Dir(path), m)
		}
	}
	return f, nil
}

// located names the file and line that a YAML error is about.
func located(path string, err error) error {
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: no sweep in the file: write mixes and scheds, each with a list", path)
	case errors.As(err, &at) && at.GetToken() != nil:
		return fmt.Errorf("%s:%d: %s", path, at.GetToken().Position.Line, at.GetMessage())
	}
	return fmt.Errorf("%s: %w", path, err)
}

// fill gives the options that no flag gave what the file says.
func (f sweepFile) fill(o *sweepOptions) {
	if o.Name == "" {
		o.Name = f.Name
	}
	if len(o.Mixes) == 0 {
		o.Mixes = f.Mixes
	}
	if len(o.Scheds) == 0 {
		o.Scheds = f.Scheds
	}
	if o.Reps == 0 && f.Reps != nil {
		o.Reps = *f.Reps
	}
	if o.Warmups < 0 && f.Warmups != nil {
		o.Warmups = *f.Warmups
	}
}

// settings are what the file says of the configuration, by key.
func (n nodeSettings) settings() (map[string]any, error) {
	text, err := yaml.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("sweep file: %w", err)
	}
	out := map[string]any{}
	if err := yaml.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("sweep file: %w", err)
	}
	return out, nil
}
