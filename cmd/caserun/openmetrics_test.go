package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The file appears as a whole, is replaced with --force only, and stays if nothing is measured.
func TestExportOpenMetrics(t *testing.T) {
	inTempDir(t)
	export := func(want int, args ...string) (out, errs string) {
		t.Helper()
		var stdout, stderr strings.Builder
		if status := run(t.Context(), append([]string{"export"}, args...), nil, &stdout, &stderr); status != want {
			t.Fatalf("%v: exit %d, want %d:\n%s", args, status, want, stderr.String())
		}
		return stdout.String(), stderr.String()
	}
	mix := func(tag string) {
		t.Helper()
		var stdout, stderr strings.Builder
		if status := run(t.Context(), []string{"mix", "W1", "--node", "sim:2xV100", "--sched", "sa", "--tag", tag}, nil, &stdout, &stderr); status != exitOK {
			t.Fatal(stderr.String())
		}
	}
	content := func() string {
		t.Helper()
		text, err := os.ReadFile("caserun.prom")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	mix("first")
	if out, _ := export(exitOK, "--openmetrics", "caserun.prom"); out != "caserun.prom\n" {
		t.Errorf("stdout has %q, want the path", out)
	}
	first := content()
	if !strings.Contains(first, `tag="first"`) || !strings.Contains(first, `mode="sim"`) || !strings.HasSuffix(first, "\n# EOF\n") {
		t.Errorf("the file is\n%s", first)
	}
	mix("second")
	if _, errs := export(exitUsage, "--openmetrics", "caserun.prom"); !strings.Contains(errs, "--force") || content() != first {
		t.Errorf("without --force: %q, and the file changed: %t", errs, content() != first)
	}
	export(exitOK, "--openmetrics", "caserun.prom", "--force")
	second := content()
	if !strings.Contains(second, `tag="second"`) || strings.Contains(second, `tag="first"`) {
		t.Errorf("the file does not have the latest tag alone:\n%s", second)
	}
	if out, _ := export(exitOK, "--openmetrics", "-"); out != second {
		t.Errorf("stdout and the file differ:\n%s", out)
	}
	export(exitNothing, "--openmetrics", "caserun.prom", "--force", "--mix", "W2")
	if content() != second {
		t.Error("an export of nothing changed the file")
	}
	if _, errs := export(exitUsage, "--openmetrics", "-", "--markdown", "-"); !strings.Contains(errs, "--markdown and --openmetrics cannot both be standard output") {
		t.Errorf("two exports to stdout: %q", errs)
	}
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if !slices.Contains([]string{"caserun.db", "caserun.prom"}, n.Name()) && !strings.HasPrefix(n.Name(), "caserun.db-") {
			t.Errorf("%s is left over", n.Name())
		}
	}
}
