package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner/live"
)

// maxNoise is σ where a phase in 40 takes seven times its length: what is more
// is meant as something else, such as percent.
const maxNoise = 1

// check refuses values that are wrong on any node. A command has only some of the
// settings; those that it lacks are zero.
func (c config) check() error {
	switch {
	case c.Workers < 0:
		return usageError(fmt.Errorf("workers %d: want 0 or more", c.Workers))
	case c.Timeout < 0:
		return usageError(fmt.Errorf("timeout %s: want 0 (never) or more", c.Timeout))
	case c.SMCap < 0:
		return usageError(fmt.Errorf("sm-cap %d: want 0 (all) or more", c.SMCap))
	case !(c.Noise >= 0 && c.Noise <= maxNoise): // not a number is neither
		return usageError(fmt.Errorf("sim-noise %v: want 0 to %d; it is σ of a logarithm, 0.01 is about 1 %%", c.Noise, maxNoise))
	}
	for _, size := range []struct{ key, value string }{{"mem-cap", c.MemCap}, {"context-reserve", c.Context}} {
		if size.value == "" {
			continue
		}
		if _, err := mixes.ParseBytes(size.value); err != nil {
			return usageError(fmt.Errorf("%s: %w", size.key, err))
		}
	}
	return checkText("tag", c.Tag)
}

// checkText refuses what would not be one line of text in tables and CSV files.
func checkText(key, text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return usageError(fmt.Errorf("%s %q: want one line of UTF-8 text", key, text))
	}
	return nil
}

// checkedFlags are those whose values are checked wherever they are from; the
// settings of other commands are text.
func checkedFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	addRunFlags(flags)
	return flags
}

// checkEnvironment refuses values of CASERUN_* that are not what their flags take.
func checkEnvironment(keys []string) error {
	flags := checkedFlags()
	for _, key := range keys {
		name := "CASERUN_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
		text, flag := os.Getenv(name), flags.Lookup(key)
		if text == "" || flag == nil {
			continue
		}
		if err := setText(flag, text); err != nil {
			return fmt.Errorf("%s %q: %w", name, text, err)
		}
	}
	return nil
}

// setText gives a flag a value. The error says what the flag takes.
func setText(flag *pflag.Flag, text string) error {
	err := flag.Value.Set(text)
	if err == nil {
		return nil
	}
	switch flag.Value.Type() {
	case "bool":
		return errors.New("want true or false")
	case "duration":
		return errors.New("want a time with its unit, such as 90s or 10m")
	case "float64":
		return errors.New("want a number")
	case "int":
		return errors.New("want a whole number")
	case "uint64":
		return errors.New("want a whole number, 0 or more")
	}
	return err
}

// onSim is the configuration as a simulated node takes it: without what is for
// GPUs. What of that was asked for goes by its flags' names.
func (c config) onSim() (_ config, ignored []string) {
	reserve := mixes.FormatBytes(live.DefaultContextBytes)
	for _, s := range []struct {
		flag  string
		given bool
	}{{"--mem-cap", c.MemCap != ""}, {"--sm-cap", c.SMCap > 0}, {"--context-reserve", c.Context != "" && c.Context != reserve}} {
		if s.given {
			ignored = append(ignored, s.flag)
		}
	}
	c.MemCap, c.SMCap, c.Context = "", 0, reserve
	return c, ignored
}

// sayIgnored tells what a simulated node does not take.
func (c config) sayIgnored(node string, stderr io.Writer) {
	if _, ignored := c.onSim(); len(ignored) > 0 {
		fmt.Fprintf(stderr, "caserun: %s: without effect on %s, whose model is what it is\n", strings.Join(ignored, ", "), node)
	}
}
