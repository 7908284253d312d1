package main

import (
	"encoding/csv"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// Two jobs of 90 GiB take turns on an H200, each while the other works on the host. The model says what a move takes, and the rows, the run,
// the report, the exports and the page say the same.
func TestSwapsOfASimulatedRun(t *testing.T) {
	inTempDir(t)
	for name, text := range map[string]string{
		"pair.jsonl": `{"step": "allocate", "object": "grid", "bytes": "90GiB"}
{"step": "kernel", "blocks": 2640, "threads": 256, "seconds": 10}
{"step": "host", "seconds": 40}
{"step": "kernel", "blocks": 2640, "threads": 256, "seconds": 10}
`,
		"pair.yaml": "name: pair\njobs:\n  - {steps: pair.jsonl, name: pair, count: 2}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, summary, errs := caserun(t, "mix", "pair.yaml", "--sched", "vgpu:n=2", "--node", "sim:1xH200")
	if status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	const bytes = 90 << 30
	copyS, bookkeepingS := 90*(1<<30)/55e9, 90*32*15e-6
	db, err := store.Open("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	swaps, err := db.Swaps(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, s := range swaps {
		kinds[strings.TrimSpace(string(s.Direction)+" "+s.Action+" "+string(s.Outcome))]++
		if s.Bytes != bytes || s.DrainS != 0 || math.Abs(s.CopyS-copyS) > 1e-6 || math.Abs(s.BookkeepingS-bookkeepingS) > 1e-6 || math.Abs(s.EndS-s.StartS-copyS-bookkeepingS) > 1e-6 {
			t.Errorf("swap %+v, want %d bytes in %g and %g s", s, int64(bytes), copyS, bookkeepingS)
		}
	}
	if diff := cmp.Diff(map[string]int{"out yield done": 2, "in  done": 2}, kinds); diff != "" {
		t.Errorf("swaps (-want +got):\n%s", diff)
	}
	run, err := db.Run(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	// Job 1 gives way before job 0 is back, so that both are on the host at one time.
	want := results.Swapping{Swaps: new(int64(4)), InVain: new(int64(0)), OutBytes: new(int64(2 * bytes)), InBytes: new(int64(2 * bytes)), DrainS: new(0.0), LostS: new(0.0),
		CopyS: new(4 * copyS), BookkeepingS: new(4 * bookkeepingS), HostPeakBytes: new(int64(2 * bytes)), HostMappedS: new(0.0)}
	if diff := cmp.Diff(want, run.Metrics.Swapping, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("the run (-want +got):\n%s", diff)
	}
	for _, line := range []string{"SIMULATED run 1", "to the host              180 GiB", "copies                   7.03 s", "most on the host         180 GiB", "slowdown by host access  0 s"} {
		if !strings.Contains(summary, line) {
			t.Errorf("the summary lacks %q:\n%s", line, summary)
		}
	}
	if _, text, _ := caserun(t, "report", "1", "-v"); !strings.Contains(text, "SIMULATED swaps of run 1: pair under vgpu on sim:1xH200") {
		t.Errorf("report -v lacks the swaps:\n%s", text)
	}
	for _, args := range [][]string{{"export", "--csv", "tables", "--parquet", "columns"}, {"report", "1", "--html", "page.html"}, {"export", "--bundle", "b.tar.gz"}} {
		if status, _, errs := caserun(t, args...); status != exitOK {
			t.Fatalf("%v: exit %d: %s", args, status, errs)
		}
	}
	table, err := os.ReadFile("tables/swap.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(table))).ReadAll()
	if err != nil || len(rows) != 5 || strings.Join(rows[1][:9], " ") != "1 sim 0 0 0 0 out yield done" || strings.Join(rows[2][:9], " ") != "1 sim 0 1 0 0 in  done" {
		t.Errorf("swap.csv has %q (%v)", rows, err)
	}
	page, err := os.ReadFile("page.html")
	if err != nil || !strings.Contains(string(page), "2 swaps (90 GiB to the host, 90 GiB back), 0 unsuccessful") {
		t.Errorf("the page lacks the swaps (%v)", err)
	}
	status, text, errs := caserun(t, "report", "--db", "b.tar.gz", "1", "--format", "json")
	if status != exitOK || !strings.Contains(text, `"swapped_out_bytes": 193273528320`) || !strings.Contains(text, `"host_mapped_slowdown_s": 0`) {
		t.Errorf("the bundle: exit %d %s\n%s", status, errs, text)
	}
}
