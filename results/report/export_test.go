package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// stored holds a live run and a simulated one.
func stored(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := context.Background()
	for _, run := range []results.Run{liveRun(), simRun()} {
		id, err := s.BeginRun(ctx, run, someDevices("Tesla V100", 2))
		if err != nil {
			t.Fatal(err)
		}
		w := s.Writer(id)
		for _, j := range someJobs() {
			w.Job(j)
		}
		w.Event(results.Event{AtS: 1.0 / 3, Kind: results.EventOOM, Job: ptr(1)})
		if err := w.Finish(ctx, run); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func readCSV(t *testing.T, path string) []map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, header := range records[0] {
			row[header] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func TestExportCSV(t *testing.T) {
	s := stored(t)
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "a", "b")
	paths, err := ExportCSV(ctx, s, dir, ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	want := []string{"cell.csv", "copy.csv", "device.csv", "event.csv", "job.csv", "kernel.csv", "prediction.csv", "rank.csv", "run.csv", "swap.csv", "sweep.csv", "task.csv", "utilization.csv"}
	if !slices.Equal(names, want) {
		t.Errorf("wrote %v, want %v", names, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != len(want) {
		t.Errorf("%v in the directory (%v), want the tables alone", left, err)
	}
	runs, jobs, events := readCSV(t, paths[8]), readCSV(t, paths[4]), readCSV(t, paths[3])
	if len(runs) != 2 || len(jobs) != 8 || len(events) != 2 {
		t.Fatalf("%d runs, %d jobs, %d events; want 2, 8, 2", len(runs), len(jobs), len(events))
	}
	for _, c := range []struct{ got, want string }{
		{runs[0]["makespan_s"], "123.456789"}, {runs[0]["seed"], "18446744073709551615"},
		{runs[0]["kernel_utilization_mean"], ""}, {runs[0]["mode"], "live"}, {runs[1]["mode"], "sim"},
		{jobs[0]["mode"], "live"}, {jobs[7]["mode"], "sim"}, {jobs[1]["footprint_bytes"], "10200547328"},
		{jobs[1]["stderr_tail"], strings.ReplaceAll(someJobs()[1].StderrTail, "\x1b", `\x1b`)}, {jobs[3]["outcome"], ""},
		{events[1]["at_s"], "0.3333333333333333"}, {events[1]["device_index"], ""},
	} {
		if c.got != c.want {
			t.Errorf("got cell %q, want %q", c.got, c.want)
		}
	}
}

func TestExportCSVFiltersAndKeepsFiles(t *testing.T) {
	s := stored(t)
	ctx := context.Background()
	dir := t.TempDir()
	mine := filepath.Join(dir, "job.csv")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	sim := ExportOptions{Filter: store.Filter{Mode: results.Simulated}}
	if _, err := ExportCSV(ctx, s, dir, sim); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got error %v, want ErrExist", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("a refused export left %v (%v)", left, err)
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "mine" {
		t.Errorf("the existing file is now %q (%v)", text, err)
	}
	sim.Overwrite = true
	link := filepath.Join(dir, "run.csv")
	if err := os.Symlink(mine, link); err != nil {
		t.Fatal(err)
	}
	if _, err := ExportCSV(ctx, s, dir, sim); err == nil || !strings.Contains(err.Error(), link+": it exists and is not a regular file") {
		t.Errorf("through a link: %v", err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if _, err := ExportCSV(ctx, s, dir, sim); err != nil {
		t.Fatal(err)
	}
	if jobs := readCSV(t, mine); len(jobs) != 4 || jobs[0]["run_id"] != "2" {
		t.Errorf("%d jobs, the first %v, want the 4 of run 2", len(jobs), jobs[0])
	}
	none := ExportOptions{Filter: store.Filter{Mix: "none"}, Overwrite: true}
	if _, err := ExportCSV(ctx, s, dir, none); err != nil {
		t.Fatal(err)
	}
	if jobs := readCSV(t, mine); len(jobs) != 0 {
		t.Errorf("a filter that selects no run exported %d jobs", len(jobs))
	}
}

// A benchmark has no doubtful runs, and says so.
func TestExportBenchWithoutDoubtfulRuns(t *testing.T) {
	s := repeated(t)
	lines := func() string {
		var out bytes.Buffer
		if _, _, err := ExportBench(t.Context(), s, &out, store.Filter{}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	before := lines()
	run := simRun()
	run.Status, run.Seed, run.Doubts = results.Complete, 99, "the harness stood still for 3.0 s"
	id, err := s.BeginRun(t.Context(), run, someDevices("V100 (simulated)", 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Writer(id).Finish(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	note := "# " + results.SaysDoubtful(1) + "\n"
	if got := lines(); !strings.Contains(got, note) || strings.Replace(got, note, "", 1) != before {
		t.Errorf("with a doubtful run:\n%s", got)
	}
}
