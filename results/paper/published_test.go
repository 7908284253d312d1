package paper

import (
	"strings"
	"testing"
)

func TestEveryTableIsComplete(t *testing.T) {
	for _, c := range []struct {
		source, system string
		count          int
		unit           string
		sum            float64 // of the values as the paper prints them
	}{
		{"Table 3", "2xP100", 16, "fraction", 1.79},
		{"Table 3", "4xV100", 16, "fraction", 3.39},
		{"Table 4", "2xP100", 8, "ratio", 29.8},
		{"Table 4", "4xV100", 8, "ratio", 22.7},
		{"Table 6", "4xV100", 18, "fraction", 0.389},
		{"Table 7", "2xP100", 8, "jobs/s", 0.696},
		{"Table 7", "4xV100", 16, "jobs/s", 3.324},
		{"Table 8", "4xV100", 4, "jobs/s", 0.185},
		{"section 5.2.4", "2xP100", 1, "s", 236},
		{"section 5.2.4", "4xV100", 1, "s", 122},
	} {
		values, err := Published(c.source, c.system)
		if err != nil {
			t.Error(err)
			continue
		}
		sum := 0.0
		for _, v := range values {
			sum += v.Value
			if v.Unit != c.unit {
				t.Errorf("%s %s %s: unit %q, want %q", c.source, c.system, v.Workload, v.Unit, c.unit)
			}
		}
		if len(values) != c.count || sum < c.sum-1e-9 || sum > c.sum+1e-9 {
			t.Errorf("%s on %s: %d values with sum %.4f, want %d with %.4f", c.source, c.system, len(values), sum, c.count, c.sum)
		}
	}
}

func TestPublishedOfNothingIsAnError(t *testing.T) {
	if _, err := Published("Table 9", "4xV100"); err == nil || !strings.Contains(err.Error(), `"Table 9"`) {
		t.Errorf("error %v, want one that names Table 9", err)
	}
}

func TestParseNamesFileAndLine(t *testing.T) {
	const head = "source,system,workload,scheduler,metric,value,unit\n"
	for _, c := range []struct{ text, want string }{
		{"", "f.csv: want the header"},
		{"a,b,c,d,e,f,g\n", "f.csv: want the header"},
		{head + "a,b,c,d,e,1,g\na,b,c,d,e,x,g\n", `f.csv: line 3: value "x"`},
		{head + "a,b\n", "f.csv: record on line 2"},
	} {
		if _, err := parseValues("f.csv", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
