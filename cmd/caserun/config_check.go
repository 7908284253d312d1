package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers/policies"
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

// errNoStore is of a --db without a name, such as that of a variable that is not set.
var errNoStore = errors.New("db is empty: name the store's file")

// anyDevices is more devices than a node has, for what is checked before the node
// is known.
const anyDevices = 1 << 20

// checkSetting refuses a value that no node takes. It is for where a value is read:
// there the error can say where that is.
func checkSetting(key, text string) error {
	switch key {
	case "db":
		if text == "" {
			return errNoStore
		}
	case "format":
		_, err := report.ParseFormat(text)
		return err
	case "sched":
		_, err := policies.Parse(text, anyDevices)
		return err
	case "node":
		for _, node := range nodeNames(text) { // caserun paper takes several
			if node == localNode {
				continue
			}
			if _, err := settleNode(config{Node: node}, io.Discard); err != nil {
				return err
			}
			if _, err := sim.ParseNode(node); err != nil {
				return err
			}
		}
	}
	alone, err := recordedConfig(map[string]any{key: text})
	if err != nil {
		return err
	}
	return alone.check()
}

// settingFlags are flags of all settings, to check what does not come as a flag.
func settingFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	addRunFlags(flags)
	addStoreFlags(flags)
	flags.String("format", "", "")
	return flags
}

// setText gives a flag a value. The error says what the flag takes.
func setText(flag *pflag.Flag, text string) error {
	err := flag.Value.Set(text)
	if kind := flag.Value.Type(); err == nil && (kind != "int" && kind != "uint64" || !isOctal(text)) {
		return nil
	}
	return wanted(flag, text, err)
}

// isOctal reports whether pflag and viper would read a number to another base: 010
// would be 8.
func isOctal(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return len(digits) > 1 && digits[0] == '0'
}

// wanted says what a flag takes that refused a text with an error.
func wanted(flag *pflag.Flag, text string, err error) error {
	number, whole := "", true
	switch flag.Value.Type() {
	case "bool":
		return errors.New("want true or false")
	case "duration":
		return errors.New("want a time with its unit, such as 90s or 10m")
	case "float64":
		number, whole = "want a number", false
	case "int":
		number = "want a whole number"
	case "uint64":
		number = "want a whole number, 0 or more"
	default:
		return err
	}
	switch {
	case strings.HasSuffix(text, "%"):
		number += ", without %"
	case whole && isOctal(text):
		number += ", in decimal and without zeros before it"
	}
	return errors.New(number)
}

// decimal is a flag's whole number as people write it.
type decimal struct{ pflag.Value }

func (d decimal) Set(text string) error {
	if isOctal(text) {
		return strconv.ErrSyntax
	}
	return d.Value.Set(text)
}

// onSim is the configuration as a simulated node takes it: without what is for
// GPUs. What of that was asked for goes by its flags' names.
func (c config) onSim() (_ config, ignored []string) {
	reserve := mixes.FormatBytes(runner.DefaultContextBytes)
	for _, s := range []struct {
		flag  string
		given bool
	}{{"--mem-cap", c.MemCap != ""}, {"--sm-cap", c.SMCap > 0}, {"--guard", c.Guard}, {"--context-reserve", c.Context != "" && c.Context != reserve}} {
		if s.given {
			ignored = append(ignored, s.flag)
		}
	}
	c.MemCap, c.SMCap, c.Guard, c.Context = "", 0, false, reserve
	return c, ignored
}

// sayIgnored tells what a simulated node does not take.
func (c config) sayIgnored(node string, stderr io.Writer) {
	if _, ignored := c.onSim(); len(ignored) > 0 {
		fmt.Fprintf(stderr, "caserun: %s: without effect on %s, whose model is what it is\n", strings.Join(ignored, ", "), node)
	}
}
