package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/schedulers/cluster"
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
	for _, place := range []struct{ key, path string }{{"db", c.DB}, {"data", c.Data}, {"runs", c.Runs}, {"html", c.HTML}} {
		if place.path == "-" {
			return fmt.Errorf("%s -: it cannot be standard input or output: name another, or ./-", place.key)
		}
	}
	return errors.Join(CheckName("tag", c.Tag), checkList("node", c.Node), checkList("devices", c.Devices))
}

// checkList refuses an empty item of a list. An empty list is not given.
func checkList(key, list string) error {
	if list == "" {
		return nil
	}
	if _, err := input.List(list); err != nil {
		return fmt.Errorf("%s %q: %w", key, list, err)
	}
	return nil
}

// CheckName refuses a name that a user would not recognize or could not type again. An empty text means none.
func CheckName(key, text string) error {
	if text != "" && !input.IsName(text) {
		return fmt.Errorf("%s %q: want one line of text that can be seen, without spaces around it", key, text)
	}
	return nil
}

// checkText refuses what is not one line of text.
func checkText(key, text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s %q: want one line of UTF-8 text", key, text)
	}
	return nil
}

// Check refuses a value that no node takes. It is for where a value is read, because an error
// can say there where the value is.
func Check(key, text string) error {
	switch key {
	case "format":
		_, err := report.ParseFormat(text)
		return err
	case "sched":
		_, err := cluster.ParseScheduler(text, policies.AnyDevices, policies.Parse)
		return err
	case "node":
		if err := checkList(key, text); err != nil {
			return err
		}
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
	if err := (&strict{Value: flag.Value}).Set(text); err != nil {
		return wanted(flag, text, err)
	}
	return nil
}

// isTime matches a time with its units, also one that is too long.
var isTime = regexp.MustCompile(`^[+-]?([0-9.]+(ns|us|µs|ms|s|m|h))+$`)

// wanted says what a flag takes that refused a text with an error.
func wanted(flag *pflag.Flag, text string, err error) error {
	number, most := "", ""
	if errors.Is(err, errEmpty) || errors.As(err, new(twiceError)) {
		return err
	}
	switch flag.Value.Type() {
	case "bool":
		return errors.New("want true or false")
	case "duration":
		if isTime.MatchString(text) && !errors.Is(err, input.ErrNotDecimal) {
			return errors.New("want a time of 2562047h at the most")
		}
		return errors.New("want a time with its unit, such as 90s or 10m")
	case "float64":
		number = "want a plain decimal number such as 0.05"
	case "int", "int64":
		number, most = "want a whole number", fmt.Sprintf("of %d at most", math.MaxInt)
	case "uint64":
		number, most = "want a whole number, 0 or more", fmt.Sprintf("and %d at most", uint64(math.MaxUint64))
	default:
		return err
	}
	return wantedNumber(flag.Value.Type(), text, number, most, err)
}

// wantedNumber says what is wrong with a number.
func wantedNumber(kind, text, number, most string, err error) error {
	switch {
	case strings.HasSuffix(text, "%"):
		return errors.New(number + ", without %")
	case errors.Is(err, strconv.ErrRange):
		return errors.New(strings.TrimSpace(number + " " + most))
	case kind == "float64":
		return errors.New(number)
	}
	return errors.New(number + spelling(text))
}

// spelling says what is wrong with a whole number that is not plain decimal.
func spelling(text string) string {
	switch digits := strings.TrimLeft(text, "+-"); {
	case len(digits) > 1 && digits[0] == '0' && digits[1] != '.': // other programs read 010 as 8
		return ", in decimal and without zeros before it"
	case digits != "" && '0' <= digits[0] && digits[0] <= '9' && !input.IsWhole(text):
		return ", of digits alone"
	}
	return ""
}

// Strict makes flags refuse an empty value, such as that of an unset variable, numbers that are not plain decimal, and a
// second value where they take one.
func Strict(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		f.Value = &strict{Value: f.Value}
		if f.DefValue == "0s" || f.DefValue == "[]" { // which help shows of a type that it does not know
			f.DefValue = ""
		}
	})
}

// strict is a flag's value as people write it.
type strict struct {
	pflag.Value
	given string // "": not yet
}

// twiceError is another value of a flag that takes one.
type twiceError struct{ first string }

func (e twiceError) Error() string {
	return fmt.Sprintf("it takes one value, and %q is given too: omit one", e.first)
}

// errEmpty is of a value without a character that can be seen.
var errEmpty = errors.New("the value is empty: give it one, or leave it out")

func (v *strict) Set(text string) (err error) {
	kind := v.Type()
	takesMore := kind == "func" || kind == "stringArray"
	switch {
	case strings.TrimSpace(text) == "":
		return errEmpty
	case v.given != "" && v.given != text && !takesMore:
		return twiceError{v.given}
	case kind == "int", kind == "int64", kind == "uint64":
		if !input.IsWhole(text) {
			return input.ErrNotDecimal
		}
	case kind == "float64":
		_, err = input.Float(text)
	case kind == "duration":
		_, err = input.Duration(text)
	}
	if err != nil {
		return err
	}
	if err = v.Value.Set(text); err == nil {
		v.given = text
	}
	return err
}

// sayWanted says of a flag's value, which the flag refused with an error, what the flag takes.
func sayWanted(flag *pflag.Flag, text string, err error) error {
	err = wanted(flag, text, err)
	if !errors.Is(err, errEmpty) {
		return fmt.Errorf("--%s %q: %w", flag.Name, text, err)
	}
	verb := "give it a value"
	switch kind, _ := pflag.UnquoteUsage(flag); kind {
	case "FILE":
		verb = "name a file"
	case "DIR":
		verb = "name a directory"
	}
	return fmt.Errorf("--%s is empty: %s, or leave it out", flag.Name, verb)
}

// SayWanted replaces a library's error about a flag's value by what the flag wants.
func SayWanted(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if hint := near.DidYouMean("--", unknown.GetSpecifiedName(), names); hint != "" {
			return fmt.Errorf("%w: %s", err, hint)
		}
	}
	var missing *pflag.ValueRequiredError
	if errors.As(err, &missing) {
		f := missing.GetFlag()
		kind, usage := pflag.UnquoteUsage(f)
		return fmt.Errorf("--%s needs a value, %s: %s", f.Name, kind, usage)
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		return sayWanted(bad.GetFlag(), bad.GetValue(), bad.Unwrap())
	}
	return err
}
