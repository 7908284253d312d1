package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
)

// BenchmarkThousandJobs is the harness's own cost: a mix of 1,000 jobs that do
// nothing, as many at once as there are cores, everything stored, beside xargs
// -P on the same programs in the same run. The devices exist on paper only.
func BenchmarkThousandJobs(b *testing.B) {
	const jobs = 1000
	program, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	workers := runtime.NumCPU()
	nothing := slices.Repeat([]mixes.Job{{Name: "true", Program: program}}, jobs)
	var ours, xargs time.Duration
	for b.Loop() {
		began := time.Now()
		runOnPaper(b, b.TempDir(), nothing, fmt.Sprintf("cg:workers=%d", workers))
		ours += time.Since(began)

		began = time.Now()
		cmd := exec.Command("xargs", "-P", fmt.Sprint(workers), "-n", "1", program)
		cmd.Stdin = strings.NewReader(strings.Repeat("x\n", jobs))
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		xargs += time.Since(began)
	}
	perJob := func(d time.Duration) float64 { return d.Seconds() * 1e3 / float64(b.N) / jobs }
	b.ReportMetric(perJob(ours), "ms/job")
	b.ReportMetric(perJob(xargs), "xargs-ms/job")
	b.ReportMetric(perJob(ours)-perJob(xargs), "added-ms/job")
}

// BenchmarkGrant is how long case_task_begin takes in a C process through the
// whole live path: socket, batch, engine with each policy, records to the
// store. One client asks for b.N tasks one after another, 1 ms apart.
func BenchmarkGrant(b *testing.B) {
	client := filepath.Join(nativetest.Build(b, "probe", "build/roundtrip"), "build/roundtrip")
	for _, info := range enginetest.Policies() {
		if info.Revokes { // its processes give nothing back
			continue
		}
		b.Run(info.Name, func(b *testing.B) {
			dir := b.TempDir()
			job := mixes.Job{Name: "roundtrip", Program: client, Args: []string{"-n", fmt.Sprint(b.N), "-c", "1", "-i", "1000"}}
			runOnPaper(b, dir, []mixes.Job{job}, info.Name)
			text, err := os.ReadFile(filepath.Join(dir, "out", "job-0000.out"))
			if err != nil {
				b.Fatal(err)
			}
			var p50, p90, p99, longest float64
			if _, err := fmt.Sscanf(string(text), "p50 p90 p99 max %f %f %f %f us", &p50, &p90, &p99, &longest); err != nil {
				b.Fatalf("%v: %s", err, text)
			}
			b.ReportMetric(p50, "p50-us")
			b.ReportMetric(p99, "p99-us")
		})
	}
}

// paper is a node with a device that exists on paper only. Its jobs are real.
type paper struct {
	b      *testing.B
	batch  Batch
	dir    string
	device schedulers.Device
	to     Recorder
}

func (p *paper) Describe(run *results.Run) {
	run.Node, run.Mode, run.StartedAt = "local", results.Live, new(time.Now())
}

func (p *paper) Devices() []results.Device {
	return []results.Device{{Name: p.device.Name, MemoryBytes: p.device.CapacityBytes,
		CapacityBytes: p.device.CapacityBytes, SMs: p.device.SMs, WarpsPerSM: p.device.WarpsPerSM, BlocksPerSM: p.device.BlocksPerSM}}
}

func (*paper) Helpers() map[string]<-chan struct{} { return nil }

func (p *paper) Execute(ctx context.Context, _ int64, arrival time.Time) ([]results.Job, error) {
	var programs []string
	for _, j := range p.batch.Mix.Jobs {
		programs = append(programs, j.Program)
	}
	x, err := live.NewExecutor(live.Config{Jobs: p.batch.Mix.Jobs, Programs: programs, Dirs: slices.Repeat([]string{p.dir}, len(programs)),
		Checks: make([]mixes.Check, len(programs)), UUIDs: []string{"GPU-paper"}, IDs: [][16]byte{{1}}, Dir: filepath.Join(p.dir, "out"), Warn: p.b.Logf, Start: arrival})
	if err != nil {
		return nil, err
	}
	return runner.Run(ctx, runner.Config{Jobs: p.batch.Mix.Jobs, Devices: []schedulers.Device{p.device}, Scheduler: p.batch.Scheduler}, x, p.to)
}

func (*paper) Close(*results.Run) []error { return nil }

// runOnPaper runs jobs live, with everything stored, on a device that exists on paper only.
func runOnPaper(b *testing.B, dir string, jobs []mixes.Job, scheduler string) {
	b.Helper()
	db, err := store.Open(filepath.Join(dir, "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	s, err := policies.Parse(scheduler, 1)
	if err != nil {
		b.Fatal(err)
	}
	t := new(tracker)
	node := &paper{b: b, dir: dir, to: t, device: schedulers.Device{Name: "paper", CapacityBytes: 1 << 34, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32},
		batch: Batch{Scheduler: s, Request: Request{Mix: mixes.Mix{Name: "benchmark", Source: "benchmark", Jobs: jobs}, Store: db}}}
	run, err := node.batch.record()
	if err != nil {
		b.Fatal(err)
	}
	node.Describe(&run)
	if err := t.begin(b.Context(), node.batch.Request, run, node.Devices()); err != nil {
		b.Fatal(err)
	}
	o, err := t.drive(b.Context(), node, false)
	if err != nil || o.Run.Metrics.OK != len(jobs) {
		b.Fatalf("%d of %d jobs ok: %v", o.Run.Metrics.OK, len(jobs), err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
