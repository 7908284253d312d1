package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/schedulers"
)

// maxScan is the most schedulers that one text may stand for.
const maxScan = 256

// ScanSign stands between the values of a parameter that is scanned.
const ScanSign = "/"

// Spread returns the schedulers that a text stands for, in which a parameter may have several values, as in case-alg3:age-limit=1/8/64.
// If several parameters have some, each value of the first one has all of the second. A name before the text gets the values
// appended. A path has its slashes for itself.
func Spread(text string) ([]string, error) {
	arm, unnamed, named := schedulers.CutName(text)
	name, rest, more := strings.Cut(unnamed, ":")
	plain, _, _ := schedulers.CutLayer(name)
	en, known := registry[plain]
	if !more || !known || !strings.Contains(rest, ScanSign) {
		return []string{text}, nil
	}
	type combination struct{ parameters, values []string }
	all := []combination{{}}
	scanned := false
	for i, item := range strings.Split(rest, ",") {
		key, value, ok := en.parameter(i, item)
		values := []string{value}
		if ok && key != paramPath.Name {
			values = strings.Split(value, ScanSign)
		}
		scanned = scanned || len(values) > 1
		for n, v := range values {
			if len(values) > 1 && (v == "" || slices.Contains(values[:n], v)) {
				return nil, fmt.Errorf("%s: %s: want values that differ with one / between two, as in age-limit=1/8/64", text, item)
			}
		}
		if len(all)*len(values) > maxScan {
			return nil, fmt.Errorf("%s: it stands for more than %d arms: give fewer values, or make several sweeps", text, maxScan)
		}
		var longer []combination
		for _, c := range all {
			for _, v := range values {
				next := combination{append(slices.Clone(c.parameters), item), c.values}
				if len(values) > 1 {
					next = combination{append(slices.Clone(c.parameters), key+"="+v), append(slices.Clone(c.values), v)}
				}
				longer = append(longer, next)
			}
		}
		all = longer
	}
	var out []string
	for _, c := range all {
		one := name + ":" + strings.Join(c.parameters, ",")
		if named {
			one = strings.Join(append([]string{arm}, c.values...), "-") + ":=" + one
		}
		out = append(out, one)
	}
	if !scanned {
		return []string{text}, nil
	}
	return out, nil
}

// notScanned refuses several values where one scheduler is wanted.
func notScanned(key, value string) error {
	if key != paramPath.Name && strings.Contains(value, ScanSign) {
		return fmt.Errorf("%s=%s: several values make several arms, which only caserun sweep takes: give one", key, value)
	}
	return nil
}
