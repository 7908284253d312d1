package main

import (
	"html"
	"os"
	"strings"
	"testing"
)

// A node of devices that differ: every output names it and has its devices one by one.
func TestDevicesThatDiffer(t *testing.T) {
	inTempDir(t)
	const typed, node = "sim:2xc2050+1xquadro2000", "sim:2xC2050+1xQuadro2000"
	const devices = "2 x C2050 (simulated) (2.6 GiB), 1 x Quadro2000 (simulated) (1 GiB)"
	if err := os.WriteFile("small.yaml", []byte("name: small\njobs:\n  - bfs-32M\n  - srad_v2-8192\n"+
		"  - {program: ./own, memory: 100MiB, count: 4, profile: {before: 1s, blocks: 4, threads: 64, kernel: 100ms}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{"table": "devices " + devices, "csv": `,"` + devices + `",`, "json": `"devices": "` + devices + `"`, "markdown": "| devices | " + devices + " |"} {
		out, _ := mustRun(t, "mix", "small.yaml", "--sched", "case-alg2", "--node", typed, "--format", format)
		if out := strings.Join(strings.Fields(out), " "); !strings.Contains(out, want) || !strings.Contains(out, node) {
			t.Errorf("%s: want %q on %s:\n%s", format, want, node, out)
		}
	}
	if status, _, errs := caserun(t, "mix", "W1", "--sched", "case-alg3", "--node", typed); status != exitJobsFailed || !strings.Contains(errs, "more than the 2.437 GiB that a device (C2050 (simulated)) has for a job") {
		t.Errorf("a job that is larger than the largest device: %s", errs)
	}
	mustRun(t, "report", "1", "--html", "page.html")
	mustRun(t, "export", "1", "--csv", "csv", "--jsonl", "jsonl", "--parquet", "parquet", "--perfetto", "p.gz", "--bundle", "b.tar.gz")
	for file, texts := range map[string][]string{
		"csv/device.csv":     {node + "/2,Quadro2000 (simulated),1073741824,0,939524096,67108864,4,48,8", node + "/0,C2050 (simulated),2817523712,0,2683305984,67108864,14,48,8"},
		"jsonl/device.jsonl": {`"name":"Quadro2000 (simulated)"`, `"sms":4`, `"sms":14`},
		"page.html":          {"GPU 1 C2050", "GPU 2 Quadro2000", node},
	} {
		text := html.UnescapeString(mustRead(t, file))
		for _, want := range texts {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q", file, want)
			}
		}
	}
	if out, _ := mustRun(t, "replay", "1", "--sched", "sa"); !strings.Contains(out, "REPLAYED run 1: small on "+node) {
		t.Error(out)
	}
	// A sweep is of the same node, however it is typed.
	mustRun(t, "sweep", "--mixes", "small.yaml", "--scheds", "sa,case-alg3,vgpu,plan,cg:workers=3", "--node", typed, "--reps", "2", "--mem-cap", "2500MiB")
	if out, _ := mustRun(t, "sweep", "--resume", "1", "--node", node, "--reps", "3"); !strings.Contains(out, "SIMULATED sweep 1 on "+node+", 3 repetitions") {
		t.Error(out)
	}
	if out, _ := mustRun(t, "compare", "latest"); !strings.Contains(out, "on "+node) {
		t.Error(out)
	}
	if out, _ := mustRun(t, "history", "small.yaml", "--node", typed); !strings.Contains(out, "on "+node) || !strings.Contains(out, "C2050 (simulated)") {
		t.Error(out)
	}
	if status, out, _ := caserun(t, "__complete", "mix", "W1", "--node", "sim:2xC2050+1xQ"); status != exitOK || !strings.Contains(out, node+"\t4 SMs, 1 GiB\n") {
		t.Errorf("exit %d, completion: %s", status, out)
	}
	if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:2xC2051"); status != exitUsage || !strings.Contains(errs, `no model "C2051": did you mean C2050?`) {
		t.Errorf("exit %d: %s", status, errs)
	}
	if err := os.WriteFile("caserun.yaml", []byte("node: sim:4xV100/2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "mix", "W1"); status != exitUsage || !strings.Contains(errs, `caserun.yaml:1:7: node "sim:4xV100/2": V100/2: only A30, A100, H100 and H200 are split (MIG)`) {
		t.Errorf("exit %d: %s", status, errs)
	}
}
