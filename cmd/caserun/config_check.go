package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
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
	case !utf8.ValidString(c.Tag) || strings.ContainsFunc(c.Tag, unicode.IsControl): // it is text in tables and CSV files
		return usageError(fmt.Errorf("tag %q: want UTF-8 text without control characters", c.Tag))
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
	return nil
}

// checkTexts refuses values of the environment and of a configuration file that
// are not what their flags take. The decoder would cut a fraction off.
func checkTexts(value func(key string) any, keys []string, file string) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	addRunFlags(flags) // the settings of other commands are text
	for _, key := range keys {
		v := value(key)
		if v == nil {
			continue
		}
		text := fmt.Sprint(v)
		var err error
		switch flag := flags.Lookup(key); reflect.TypeOf(v).Kind() {
		case reflect.Slice, reflect.Map, reflect.Struct: // YAML has dates
			err = errors.New("want a single value; write text that looks like something else in quotes")
		default:
			if flag != nil {
				err = setText(flag, text)
			}
		}
		if err != nil {
			from := fmt.Sprintf("configuration file %s: %s", file, key)
			if env := "CASERUN_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_")); os.Getenv(env) != "" {
				from = env
			}
			return fmt.Errorf("%s %q: %w", from, text, err)
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
