package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

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
	devices, err := s.DevicesOf(ctx, store.Filter{Warmups: true, Duplicates: true})
	if err != nil {
		return err
	}
	sweeps, err := s.Sweeps(ctx)
	if err != nil {
		return err
	}
	settings := configurations{Runs: []runConfiguration{}, Sweeps: []sweepConfiguration{}}
	origins := []origin{}
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

// origin is what a reader needs to repeat a run or to doubt it.
type origin struct {
	Run         int64           `json:"run_id"`
	Mode        results.Mode    `json:"mode"`
	StartedAt   *time.Time      `json:"started_at"`
	Version     string          `json:"version"`
	Revision    string          `json:"revision"`
	Host        string          `json:"host"`
	Kernel      string          `json:"kernel"`
	CPU         string          `json:"cpu"`
	Cores       int             `json:"cores"`
	MemoryBytes int64           `json:"memory_bytes"`
	Driver      *string         `json:"driver"`
	CUDA        *string         `json:"cuda"`
	Binaries    json.RawMessage `json:"binaries"`
	Devices     []gpu           `json:"devices"`
}

type gpu struct {
	Name          string  `json:"name"`
	UUID          string  `json:"uuid"`
	MemoryBytes   int64   `json:"memory_bytes"`
	ClockStartHz  *int64  `json:"sm_clock_start_hz"`
	ClockEndHz    *int64  `json:"sm_clock_end_hz"`
	ThrottleStart *string `json:"throttle_start"`
	ThrottleEnd   *string `json:"throttle_end"`
}

func originOf(r results.Run, devices []results.Device) origin {
	p := r.Provenance
	o := origin{Run: r.ID, Mode: r.Mode, StartedAt: r.StartedAt, Version: p.Version, Revision: p.Revision, Host: p.Host,
		Kernel: p.Kernel, CPU: p.CPU, Cores: p.Cores, MemoryBytes: p.MemoryBytes, Driver: p.Driver, CUDA: p.CUDA,
		Binaries: asJSON(p.Binaries), Devices: []gpu{}}
	for _, d := range devices {
		o.Devices = append(o.Devices, gpu{d.Name, d.UUID, d.MemoryBytes, d.SMClockStartHz, d.SMClockEndHz, d.ThrottleStart, d.ThrottleEnd})
	}
	return o
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

func readme(m Manifest) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Runs of caserun\n\n%d runs", len(m.Runs))
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
