package report

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// readParquet reads a file: its columns as NAME TYPE in their order, and its rows as JSON would
// have them.
func readParquet(t *testing.T, path string) (columns []string, rows [][]any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := parquet.NewGenericReader[any](f)
	defer r.Close()
	for _, c := range r.Schema().Fields() {
		if !c.Optional() {
			t.Errorf("%s: column %s cannot be null", path, c.Name())
		}
		columns = append(columns, c.Name()+" "+c.Type().String())
	}
	buffer := make([]parquet.Row, 100)
	for {
		n, err := r.ReadRows(buffer)
		for _, row := range buffer[:n] {
			cells := make([]any, len(row))
			for i, v := range row {
				switch {
				case v.IsNull():
				case v.Kind() == parquet.Boolean:
					cells[i] = v.Boolean()
				case v.Kind() == parquet.Int64:
					cells[i] = v.Int64()
				case v.Kind() == parquet.Double:
					cells[i] = v.Double()
				default:
					cells[i] = string(v.ByteArray())
				}
			}
			rows = append(rows, cells)
		}
		if errors.Is(err, io.EOF) {
			return columns, rows
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// readJSONL reads what --jsonl wrote: the keys in their order, and the rows.
func readJSONL(t *testing.T, path string) (keys []string, rows [][]any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.UseNumber()
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		var row []any
		keys = nil
		for d.More() {
			key, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			value, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			keys, row = append(keys, key.(string)), append(row, value)
		}
		rows = append(rows, row)
	}
	return keys, rows
}

// Every table has the columns and the cells of --jsonl, whose numbers are exact.
func TestExportParquet(t *testing.T) {
	s := stored(t)
	ctx := context.Background()
	run := liveRun()
	run.Traced = true
	id, err := s.BeginRun(ctx, run, someDevices("Tesla V100", 2))
	if err != nil {
		t.Fatal(err)
	}
	w := s.Writer(id)
	for _, j := range someJobs() {
		w.Job(j)
	}
	w.Task(results.Task{Bytes: 1<<53 + 1, Blocks: 7, SubmitS: 0.1, GrantS: new(1.0 / 3), Device: new(1), Managed: new(true)})
	w.Kernel(results.Kernel{Name: "k(int)", Grid: "1,2,3", Block: "32,1,1", StartS: 0.1, EndS: 0.3, BusyS: 0.3 - 0.1, Stream: 7, PID: 4711})
	w.Kernel(results.Kernel{Name: "all", Task: new(0), StartS: 1, EndS: 2, BusyS: 0.25})
	w.Copy(results.Copy{Kind: "htod", Bytes: 1 << 40, StartS: 0.1, EndS: 0.2, PID: 4711, Stream: 7})
	w.Segment(results.Segment{Series: results.SeriesGPU, FirstS: -1, LastS: 2, Samples: 9, Value: new(0.37)})
	w.Segment(results.Segment{Series: results.SeriesGPU, FirstS: 3, LastS: 4, Samples: 9})
	if err := w.Finish(ctx, run); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	paths, err := ExportParquet(ctx, s, dir, ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ExportJSONL(ctx, s, dir, ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	filled, times, flags := 0, 0, 0
	for _, path := range paths {
		columns, rows := readParquet(t, path)
		keys, want := readJSONL(t, strings.TrimSuffix(path, ".parquet")+".jsonl")
		if len(want) == 0 {
			continue
		}
		filled++
		var names []string
		for _, c := range columns {
			name, kind, _ := strings.Cut(c, " ")
			names = append(names, name)
			switch unit := strings.TrimSuffix(name, "_jobs_per_s"); {
			case strings.HasSuffix(unit, "_bytes") && kind != "INT(64,true)", strings.HasSuffix(unit, "_s") && kind != "DOUBLE":
				t.Errorf("%s: column %s is %s", path, name, kind)
			}
		}
		if diff := cmp.Diff(keys, names); diff != "" {
			t.Errorf("%s: columns (-jsonl +parquet):\n%s", path, diff)
		}
		for _, row := range want {
			for i, v := range row {
				name, kind, _ := strings.Cut(columns[i], " ")
				if text, is := v.(string); is && strings.HasSuffix(name, "_at") {
					at, err := time.Parse(time.RFC3339, text)
					if err != nil || !strings.HasPrefix(kind, "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS") {
						t.Errorf("%s: column %s has %s: %v", path, columns[i], text, err)
					}
					row[i], times = at.UnixMicro(), times+1
					continue
				}
				number, isNumber := v.(json.Number)
				if !isNumber {
					continue
				}
				if kind == "BOOLEAN" {
					row[i], flags = number.String() == "1", flags+1
					continue
				}
				if row[i], err = number.Int64(); strings.HasSuffix(columns[i], "DOUBLE") {
					row[i], err = number.Float64()
				}
				if err != nil {
					t.Errorf("%s: %s of column %s: %v", path, number, columns[i], err)
				}
			}
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("%s: rows (-jsonl +parquet):\n%s", path, diff)
		}
	}
	if times == 0 || flags == 0 {
		t.Errorf("%d times of day and %d booleans were compared", times, flags)
	}
	if filled < 7 {
		t.Errorf("%d tables have rows, and the others were not compared", filled)
	}
}

// A long table is written in groups. One group is in memory at a time. The writer says how far it is.
func TestExportOfALongTable(t *testing.T) {
	s := stored(t)
	ctx := context.Background()
	w, err := s.Resume(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	const n = rowsInMemory + 10
	for i := range n {
		w.Kernel(results.Kernel{Name: "k", Grid: "1,1,1", Block: "1,1,1", StartS: float64(i), EndS: float64(i) + 0.5, BusyS: 0.5})
	}
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var told []int64
	paths, err := ExportParquet(ctx, s, t.TempDir(), ExportOptions{Progress: func(rows int64) { told = append(told, rows) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) < n/4096 || !slices.IsSorted(told) {
		t.Errorf("progress was told %v", told)
	}
	path := paths[slices.IndexFunc(paths, func(p string) bool { return filepath.Base(p) == "kernel.parquet" })]
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if groups := file.RowGroups(); file.NumRows() != n || len(groups) != 2 || groups[0].NumRows() != rowsInMemory {
		t.Errorf("%d rows in %d groups, want %d in 2", file.NumRows(), len(groups), n)
	}
}

// A cell of another type than its column's is an error, and not a damaged file.
func TestParquetRefusesOtherTypes(t *testing.T) {
	w, err := newParquetRows(io.Discard, []store.Column{{Name: "a_s", Type: "REAL"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.row([]any{"text"}); err == nil || err.Error() != "column a_s of type REAL has a string" {
		t.Errorf("text in a column of numbers: %v", err)
	}
	if _, err := newParquetRows(io.Discard, []store.Column{{Name: "b", Type: "BLOB"}}); err == nil || err.Error() != `column b has the type "BLOB"` {
		t.Errorf("a column of bytes: %v", err)
	}
}
