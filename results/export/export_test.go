package export

import (
	"strings"
	"testing"
)

// What cannot be written is refused before a store is read.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Request
		want string // of the error; empty: none
	}{
		{"nothing", Request{}, "name at least one of --csv, "},
		{"several files to standard output", Request{Paths: map[string]string{"parquet": Stdout}}, "--parquet writes several files: name a directory"},
		{"two to standard output", Request{Paths: map[string]string{"latex": Stdout, "benchfmt": Stdout}}, "--benchfmt and --latex cannot both be standard output"},
		{"a base of nothing", Request{Paths: map[string]string{"csv": "d"}, Base: "sa"}, "--base requires --latex or --figures"},
		{"metrics of nothing", Request{Paths: map[string]string{"csv": "d"}, Metrics: []string{"wait"}}, "--metrics requires --latex or --figures"},
		{"an unknown metric", Request{Paths: map[string]string{"latex": "t.tex"}, Metrics: []string{"fairnes"}}, `--metrics: metric "fairnes": did you mean fairness?`},
		{"a metric twice", Request{Paths: map[string]string{"figures": "d"}, Metrics: []string{"wait", "wait"}}, "wait is named twice"},
		{"metrics", Request{Paths: map[string]string{"latex": Stdout, "figures": "d"}, Metrics: []string{"job-slowdown", "fairness"}}, ""},
	} {
		err := c.r.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
