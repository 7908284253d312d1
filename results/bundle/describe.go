package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
)

// describe writes the run table, the configurations and the provenance.
func describe(ctx context.Context, s *store.Store, runs []results.Run, dir string) error {
	var table bytes.Buffer
	if err := report.RunList(runs).Render(&table, report.Markdown, report.Options{}); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "runs.md"), table.Bytes(), 0o644); err != nil {
		return err
	}
	devices, err := s.DevicesOf(ctx, store.Filter{Warmups: true, Duplicates: true, Excluded: true})
	if err != nil {
		return err
	}
	sweeps, err := s.Sweeps(ctx)
	if err != nil {
		return err
	}
	settings := configurations{Runs: []runConfiguration{}, Sweeps: []sweepConfiguration{}}
	origins := []results.Fields{}
	for _, r := range runs {
		settings.Runs = append(settings.Runs, runConfiguration{r.ID, asJSON(r.Provenance.Configuration)})
		origins = append(origins, originOf(r, devices[r.ID]))
	}
	for _, w := range sweeps {
		settings.Sweeps = append(settings.Sweeps, sweepConfiguration{w.ID, asJSON(w.Spec)})
	}
	if err := writeJSON(filepath.Join(dir, "configuration.json"), settings); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "provenance.json"), origins)
}

type configurations struct {
	Runs   []runConfiguration   `json:"runs"`
	Sweeps []sweepConfiguration `json:"sweeps"`
}

type runConfiguration struct {
	Run           int64           `json:"run_id"`
	Configuration json.RawMessage `json:"configuration"`
}

type sweepConfiguration struct {
	Sweep int64           `json:"sweep_id"`
	Spec  json.RawMessage `json:"spec"`
}

// originOf is what a reader needs to repeat a run or to doubt it.
func originOf(r results.Run, devices []results.Device) results.Fields {
	gpus := []results.Fields{}
	for _, d := range devices {
		gpus = append(gpus, d.Fields().Pick("name", "uuid", "memory_bytes", "sm_clock_start_hz", "sm_clock_end_hz", "throttle_start", "throttle_end"))
	}
	return append(results.Fields{}.With("run_id", r.ID), r.Fields().Pick("mode", "started_at", "version", "revision", "host", "kernel", "cpu", "cores",
		"memory_bytes", "driver", "cuda")...).With("binaries", asJSON(r.Provenance.Binaries)).With("devices", gpus)
}

// asJSON returns JSON text unchanged, and other text as a JSON string.
func asJSON(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings always encode
	}
	return quoted
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func readme(m manifest) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Runs of caserun\n\n%s", size.Count(len(m.Runs), "run"))
	switch simulated := len(m.Simulated); {
	case simulated == len(m.Runs):
		fmt.Fprint(&out, ", all SIMULATED: their figures come from a model, not from devices")
	case simulated > 0:
		fmt.Fprintf(&out, ", of which %d are SIMULATED (mode sim): their figures come from a model, not from devices", simulated)
	}
	fmt.Fprintf(&out, `. Open them with

    caserun report --db THIS-FILE.tar.gz
    caserun report --db THIS-FILE.tar.gz latest -v
    caserun export --db THIS-FILE.tar.gz --csv DIR

or unpack the archive and query %[1]s with any program that reads SQLite.

| member | content |
|---|---|
| %[2]s | length and SHA-256 of every other member |
| %[1]s | the store: SQLite, schema in caserun's docs/reference/store.md |
| runs.md | the runs as a table |
| configuration.json | each run's settings, each sweep's specification |
| provenance.json | each run's program version, host, driver, GPUs and binaries |
| figures/ | figures and their data, where there are any |
`, storeName, manifestName)
	return out.Bytes()
}
