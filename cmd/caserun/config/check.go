package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/harness/nodes"
	"github.com/caserun/caserun/schedulers/policies"
)

// maxNoise is σ where a phase in 40 takes seven times its length. A user who gives more means
// something else, such as percent.
const maxNoise = 1

// check refuses values that are wrong on any node. Settings that a command lacks are zero.
func (c Settings) check() error {
	switch {
	case c.Workers < 0:
		return fmt.Errorf("workers %d: want 0 or more", c.Workers)
	case c.Timeout < 0:
		return fmt.Errorf("timeout %s: want 0 (never) or more", c.Timeout)
	case c.SMCap < 0:
		return fmt.Errorf("sm-cap %d: want 0 (all) or more", c.SMCap)
	case !slices.Contains([]string{"", harness.ByCheck, harness.AlwaysOOM}, c.AfterOOM):
		return fmt.Errorf("after-oom %q: want %s or %s", c.AfterOOM, harness.ByCheck, harness.AlwaysOOM)
	case !(c.Noise >= 0 && c.Noise <= maxNoise): // not a number is neither
		return fmt.Errorf("sim-noise %v: want 0 to %d; it is σ of a logarithm, 0.01 is about 1 %%", c.Noise, maxNoise)
	}
	for _, size := range []struct{ key, value string }{{"mem-cap", c.MemCap}, {"swap", c.Swap}, {"context-reserve", c.Context}} {
		if size.value == "" {
			continue
		}
		if _, err := mixes.ParseBytes(size.value); err != nil {
			return fmt.Errorf("%s: %w", size.key, err)
		}
	}
	return checkText("tag", c.Tag)
}

// checkText refuses what would not be one line of text in tables and CSV files.
func checkText(key, text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s %q: want one line of UTF-8 text", key, text)
	}
	return nil
}

// errNoStore is of a --db without a name, such as the value of an unset variable.
var errNoStore = errors.New("db is empty: name the store's file")

// anyDevices is more devices than a node has, for checks before the node is known.
const anyDevices = 1 << 20

// Check refuses a value that no node takes. It is for where a value is read, because an error
// can say there where the value is.
func Check(key, text string) error {
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
		for _, node := range nodes.Split(text) { // caserun paper takes several
			if err := nodes.Check(node); err != nil {
				return err
			}
		}
	}
	v := viper.New()
	v.Set(key, text)
	alone, err := decode(v)
	if err != nil {
		return err
	}
	return alone.check()
}

// setText gives a flag a value. The error says what the flag takes.
func setText(flag *pflag.Flag, text string) error {
	err := flag.Value.Set(text)
	if kind := flag.Value.Type(); err == nil && (kind != "int" && kind != "uint64" || !isOctal(text)) {
		return nil
	}
	return Wanted(flag, text, err)
}

// isTime matches a time with its units, also one that is too long.
var isTime = regexp.MustCompile(`^[+-]?([0-9.]+(ns|us|µs|ms|s|m|h))+$`)

// isOctal reports whether pflag and viper would read a number in another base: 010 as 8.
func isOctal(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return len(digits) > 1 && digits[0] == '0'
}

// Wanted says what a flag takes that refused a text with an error.
func Wanted(flag *pflag.Flag, text string, err error) error {
	number, whole := "", true
	switch flag.Value.Type() {
	case "bool":
		return errors.New("want true or false")
	case "duration":
		if isTime.MatchString(text) {
			return errors.New("want a time of 2562047h at the most")
		}
		return errors.New("want a time with its unit, such as 90s or 10m")
	case "float64":
		number, whole = "want a number", false
	case "int", "int64":
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

// Decimal makes the whole numbers of flags decimal.
func Decimal(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if kind := f.Value.Type(); kind == "int" || kind == "int64" || kind == "uint64" {
			f.Value = decimal{f.Value}
		}
	})
}

// decimal is a flag's whole number as people write it.
type decimal struct{ pflag.Value }

func (d decimal) Set(text string) error {
	if isOctal(text) {
		return strconv.ErrSyntax
	}
	return d.Value.Set(text)
}
