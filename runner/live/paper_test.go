package live

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
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
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
	harness.Backend
	b   *testing.B
	dir string
}

func (*paper) Mode() results.Mode                           { return results.Live }
func (*paper) Options() harness.Options                     { return harness.Options{} }
func (*paper) Ignored() []string                            { return nil }
func (*paper) Size() (devices, threads, all int, err error) { return 1, runtime.NumCPU(), 1, nil }
func (*paper) CheckScheduler(policies.Scheduler) error      { return nil }
func (*paper) History(profiles.Set) (history.Node, error) {
	return history.Node{Mode: results.Live}, nil
}

func (p *paper) Open(_ context.Context, b harness.Batch, to harness.Recorder) (harness.Node, error) {
	return &paperNode{p, b, to}, nil
}

type paperNode struct {
	*paper
	batch harness.Batch
	to    harness.Recorder
}

var paperDevice = schedulers.Device{Name: "paper", CapacityBytes: 1 << 34, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}

func (*paperNode) Describe(run *results.Run) {
	run.Node, run.Mode, run.StartedAt = "local", results.Live, new(time.Now())
}

func (*paperNode) Devices() []results.Device {
	d := paperDevice
	return []results.Device{{Name: d.Name, MemoryBytes: d.CapacityBytes, CapacityBytes: d.CapacityBytes, SMs: d.SMs, WarpsPerSM: d.WarpsPerSM, BlocksPerSM: d.BlocksPerSM}}
}

func (*paperNode) Helpers() map[string]<-chan struct{} { return nil }

func (n *paperNode) Execute(ctx context.Context, _ int64, arrival time.Time) ([]results.Job, error) {
	jobs := n.batch.Mix.Jobs
	var programs []string
	for _, j := range jobs {
		programs = append(programs, j.Program)
	}
	x, err := NewExecutor(Config{Jobs: jobs, Programs: programs, Dirs: slices.Repeat([]string{n.dir}, len(programs)),
		Checks: make([]mixes.Check, len(programs)), UUIDs: []string{"GPU-paper"}, IDs: [][16]byte{{1}}, Dir: filepath.Join(n.dir, "out"), Warn: n.b.Logf, Start: arrival})
	if err != nil {
		return nil, err
	}
	return runner.Run(ctx, runner.Config{Jobs: jobs, Devices: []schedulers.Device{paperDevice}, Scheduler: n.batch.Scheduler}, x, n.to)
}

func (*paperNode) Close(*results.Run) []error { return nil }

// runOnPaper runs jobs live, with everything stored, on a device that exists on paper only.
func runOnPaper(b *testing.B, dir string, jobs []mixes.Job, scheduler string) {
	b.Helper()
	db, err := store.Open(filepath.Join(dir, "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	o, err := harness.Execute(b.Context(), &paper{b: b, dir: dir}, harness.Request{Configuration: harness.Configuration{Sched: scheduler}, Mix: mixes.Mix{Name: "benchmark", Source: "benchmark", Jobs: jobs}, Store: db, Say: b.Logf})
	if err != nil || o.Run.Metrics.OK != len(jobs) {
		b.Fatalf("%d of %d jobs ok: %v", o.Run.Metrics.OK, len(jobs), err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
