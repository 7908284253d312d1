package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

func wantEnd(t *testing.T, j results.Job, want float64) {
	t.Helper()
	if j.EndS == nil || math.Abs(*j.EndS-want) > 1e-6 {
		t.Errorf("job %d (%s) ended at %v s, want %.6f s", j.Index, j.Name, *j.EndS, want)
	}
}

func TestAJobAloneOnTheProfiledSystemLastsAsProfiled(t *testing.T) {
	for _, job := range mixes.Jobs() {
		p, err := profiles.Catalog().Lookup(job)
		if err != nil {
			t.Fatal(err)
		}
		jobs, rec := trial{node: uncrowded(t, "sim:1xH200"), scheduler: "case-alg3", jobs: []mixes.Job{job}}.must(t)
		wantEnd(t, jobs[0], p.WallS())
		if k := rec.Kernels[0]; len(rec.Kernels) != 1 || math.Abs(k.BusyS-p.KernelS) > 1e-6 {
			t.Errorf("%s: kernels %+v, want one interval of %g s", job.Name, rec.Kernels, p.KernelS)
		}
	}
}

func TestKernelsThatFillADeviceSlowEachOther(t *testing.T) {
	two := catalogJobs(t, "srad_v1-20000", "srad_v1-20000")
	p, err := profiles.Catalog().Lookup(two[0])
	if err != nil {
		t.Fatal(err)
	}
	jobs, _ := trial{node: uncrowded(t, "sim:1xH200"), scheduler: "case-alg3", jobs: two}.must(t)
	for _, j := range jobs {
		wantEnd(t, j, p.WallS()+p.KernelS) // both at half speed
	}
	jobs, _ = trial{node: uncrowded(t, "sim:2xH200"), scheduler: "case-alg3", jobs: two}.must(t)
	for _, j := range jobs {
		wantEnd(t, j, p.WallS())
	}
}

func TestSmallKernelsShareADeviceWithoutLoss(t *testing.T) {
	two := catalogJobs(t, "needle-16384", "needle-16384") // 1,024 blocks of a warp: 24 % of an H200's block slots
	p, err := profiles.Catalog().Lookup(two[0])
	if err != nil {
		t.Fatal(err)
	}
	jobs, _ := trial{node: uncrowded(t, "sim:1xH200"), scheduler: "case-alg3", jobs: two}.must(t)
	for _, j := range jobs {
		wantEnd(t, j, p.WallS())
	}
}

// A profile of the user's own: its memory is free for the next job before the
// process ends.
func TestMemoryIsGivenBackBeforeTheHostPhaseAfterIt(t *testing.T) {
	j := mixes.Job{Name: "own", Program: "./own", Footprint: mixes.Footprint{Bytes: 10 << 30, Blocks: 1, ThreadsPerBlock: 32}}
	file := "job,command,host_before_s,host_held_s,host_after_s,copy_in_bytes,copy_in_s,kernel_s,copy_out_bytes,copy_out_s,kernels," +
		"memory_bytes,blocks,threads_per_block,gpu,driver,measured_at\nown,./own,1,2,4,,0,8,,0,traced,,,,,,\n"
	own, err := profiles.Read("own.csv", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	jobs, _ := trial{node: uncrowded(t, "sim:1xV100"), scheduler: "sa", jobs: []mixes.Job{j}, profiles: own}.must(t)
	v100 := uncrowded(t, "sim:1xV100").Groups[0].Model
	wantEnd(t, jobs[0], 7*v100.Host.Factor+8*v100.DeviceFactor)
	// The same profile, measured on another model.
	for gpu, want := range map[string]float64{
		"NVIDIA H100 80GB HBM3": 7*v100.Host.Factor + 8*v100.DeviceFactor,
		"Tesla V100-SXM2-16GB":  7 + 8,
		"Tesla P100-PCIE-16GB":  7*v100.Host.Factor/1.18 + 8*v100.DeviceFactor/8.8,
		"Quadro P1000":          7*v100.Host.Factor + 8*v100.DeviceFactor,
		"NVIDIA RTX A1000":      7*v100.Host.Factor + 8*v100.DeviceFactor,
		"NVIDIA RTX A6000":      7*v100.Host.Factor + 8*v100.DeviceFactor,
		"NVIDIA A100-SXM4-40GB": 7*v100.Host.Factor + 8*v100.DeviceFactor/3.1,
	} {
		measured, err := profiles.Read("own.csv", strings.NewReader(strings.Replace(file, ",traced,,,,,,", ",traced,,,,"+gpu+",,", 1)))
		if err != nil {
			t.Fatal(err)
		}
		jobs, _ := trial{node: uncrowded(t, "sim:1xV100"), scheduler: "sa", jobs: []mixes.Job{j}, profiles: measured}.must(t)
		wantEnd(t, jobs[0], want)
	}
	// 13 of them fit an H200 at once.
	jobs, rec := trial{node: uncrowded(t, "sim:1xH200"), scheduler: "schedgpu", jobs: slices.Repeat([]mixes.Job{j}, 14), profiles: own}.must(t)
	for _, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("job %d: %s (%s)", j.Index, *j.Outcome, j.Detail)
		}
	}
	last := rec.Tasks[slices.IndexFunc(rec.Tasks, func(r results.Task) bool { return r.Job == 13 && r.GrantS != nil })]
	if first := *jobs[0].EndS; *last.GrantS <= last.SubmitS || *last.GrantS >= first {
		t.Errorf("the last job asked at %v s and was granted at %v s, want later and before the first ended at %v s", last.SubmitS, *last.GrantS, first)
	}
}

// A job's requests wait as long as its mix says.
func TestJobsWaitAsTheirMixSays(t *testing.T) {
	jobs := catalogJobs(t, "srad_v1-20000", "srad_v1-20000", "srad_v1-20000", "srad_v1-20000") // one fits a V100
	jobs[1].Wait, jobs[2].Wait, jobs[3].Wait = new(time.Duration(0)), new(3*time.Second), new(time.Hour)
	ended, rec := trial{node: uncrowded(t, "sim:1xV100"), scheduler: "schedgpu", jobs: jobs}.must(t)
	for i, want := range []results.Outcome{results.OK, results.Refused, results.Refused, results.OK} {
		if *ended[i].Outcome != want {
			t.Errorf("job %d: %s (%s), want %s", i, *ended[i].Outcome, ended[i].Detail, want)
		}
	}
	for job, wait := range map[int]float64{1: 0, 2: 3} {
		last := rec.Tasks[slices.IndexFunc(rec.Tasks, func(r results.Task) bool { return r.Job == job && r.Refusal != nil })]
		if *ended[job].WaitS-wait > 1e-9 || wait-*ended[job].WaitS > 1e-9 || last.GrantS != nil {
			t.Errorf("job %d waited %v s, want %v: %+v", job, *ended[job].WaitS, wait, last)
		}
	}
}

func TestOutOfMemoryUnderCoreToGPU(t *testing.T) {
	jobs, rec := trial{node: uncrowded(t, "sim:1xV100"), scheduler: "cg:workers=2",
		jobs: catalogJobs(t, "lavaMD-100", "srad_v1-20000", "needle-16384")}.must(t)
	// srad_v1 is the first to allocate and holds 12.8 of 16.4 GB to its end:
	// 7.9 GB more do not fit, the 2.1 GB of the job that takes the place do.
	for i, want := range []results.Outcome{results.OOM, results.OK, results.OK} {
		if *jobs[i].Outcome != want {
			t.Errorf("job %d (%s): %s (%s), want %s", i, jobs[i].Name, *jobs[i].Outcome, jobs[i].Detail, want)
		}
	}
	if j := jobs[0]; *j.ExitStatus != statusOOM || !strings.Contains(j.Detail, "7.316 GiB in cudaMalloc (simulated)") {
		t.Errorf("job 0: exit status %d, detail %q", *j.ExitStatus, j.Detail)
	}
	if len(rec.Events) != 1 || rec.Events[0].Kind != "oom" {
		t.Errorf("events %+v, want one oom", rec.Events)
	}

	// The same jobs under case-alg3 take turns.
	jobs, _ = trial{node: uncrowded(t, "sim:1xV100"), scheduler: "case-alg3", jobs: catalogJobs(t, "lavaMD-100", "srad_v1-20000")}.must(t)
	for _, j := range jobs {
		if *j.Outcome != results.OK {
			t.Errorf("case-alg3: %s: %s (%s)", j.Name, *j.Outcome, j.Detail)
		}
	}
}

func TestAProcessWithoutMPSPaysForItsContext(t *testing.T) {
	one := catalogJobs(t, "needle-16384")
	for _, c := range []struct {
		scheduler string
		spare     int64 // memory beside the job's footprint
		want      results.Outcome
	}{
		{"sa", runner.DefaultContextBytes, results.OK},
		{"sa", runner.DefaultContextBytes - 1, results.OOM},
		{"cg", runner.DefaultContextBytes + runner.ServerBytes, results.OK},
		{"cg", runner.DefaultContextBytes + runner.ServerBytes - 1, results.OOM},
	} {
		node := uncrowded(t, "sim:1xV100")
		node.Groups[0].MemoryBytes = one[0].Footprint.Bytes + c.spare
		jobs, _ := trial{node: node, scheduler: c.scheduler, jobs: one}.must(t)
		if *jobs[0].Outcome != c.want {
			t.Errorf("%s with %d bytes beside the footprint: %s, want %s", c.scheduler, c.spare, *jobs[0].Outcome, c.want)
		}
	}
}

func TestRunsRepeatExactlyAndSeedsDiffer(t *testing.T) {
	base := trial{node: uncrowded(t, "sim:4xV100"), scheduler: "cg:workers=10", jobs: mixJobs(t, "W5"), seed: 1}
	for _, noise := range []float64{0, 0.1} {
		base.noise = noise
		_, first := base.must(t)
		_, again := base.must(t)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("noise %g: the same seed gave other records:\n%s", noise, diff)
		}
		other := base
		other.seed = 2
		_, second := other.must(t)
		if same := cmp.Equal(first, second); same != (noise == 0) {
			t.Errorf("noise %g: seeds 1 and 2 give equal records: %v", noise, same)
		}
	}
}

func TestAllMixesCompleteUnderAllSchedulers(t *testing.T) {
	for _, node := range []string{"sim:4xV100", "sim:2xP100"} {
		for _, info := range enginetest.Policies() {
			for _, mix := range mixNames {
				t.Run(fmt.Sprintf("%s/%s/%s", node, info.Name, mix), func(t *testing.T) {
					jobs, rec := trial{node: uncrowded(t, node), scheduler: info.Name, jobs: mixJobs(t, mix)}.must(t)
					blind := info.Name == "cg" || info.Name == "zero"
					for _, j := range jobs {
						if o := *j.Outcome; o != results.OK && (!blind || o != results.OOM) {
							t.Errorf("job %d (%s): %s (%s)", j.Index, j.Name, o, j.Detail)
						}
					}
					wantUtilizationWithoutGaps(t, rec, jobs)
				})
			}
		}
	}
}

// wantUtilizationWithoutGaps wants each device's segments to follow on each
// other from 0 to the last job's end.
func wantUtilizationWithoutGaps(t *testing.T, rec *tape, jobs []results.Job) {
	t.Helper()
	makespan := 0.0
	for _, j := range jobs {
		makespan = max(makespan, *j.EndS)
	}
	last := map[int]float64{}
	for _, s := range rec.Segments {
		if s.FirstS != last[s.Device] || s.LastS <= s.FirstS || *s.Value < 0 || *s.Value > 1 {
			t.Fatalf("segment %+v (value %g) after %g s", s, *s.Value, last[s.Device])
		}
		last[s.Device] = s.LastS
	}
	for d, end := range last {
		if end != makespan {
			t.Errorf("device %d: segments end at %g s, the run at %g s", d, end, makespan)
		}
	}
}

func TestTimeoutEndsASimulatedJob(t *testing.T) {
	jobs, _ := trial{node: uncrowded(t, "sim:1xV100"), scheduler: "sa", timeout: 5 * time.Second,
		jobs: catalogJobs(t, "lavaMD-120", "dwt2d-8192")}.must(t)
	if *jobs[0].Outcome != results.Timeout || *jobs[0].EndS != 5 {
		t.Errorf("lavaMD-120: %s at %g s, want timeout at 5 s", *jobs[0].Outcome, *jobs[0].EndS)
	}
	if *jobs[1].Outcome != results.OK || *jobs[1].StartS != 5 {
		t.Errorf("dwt2d-8192: %s, started at %g s, want ok, started at 5 s", *jobs[1].Outcome, *jobs[1].StartS)
	}
}

func TestCancelStopsTheSimulation(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("interrupted")
	cancel(why)
	jobs, _, _, err := trial{node: uncrowded(t, "sim:4xV100"), scheduler: "case-alg3", jobs: mixJobs(t, "W1")}.run(ctx)
	if !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
	for _, j := range jobs {
		if *j.Outcome != results.Cancelled {
			t.Errorf("job %d: %s, want cancelled", j.Index, *j.Outcome)
		}
	}
}

func TestJobsWithoutAProfileAreAnError(t *testing.T) {
	unknown := mixJobs(t, "W1")[:1]
	unknown[0].Args = []string{"7"}
	_, err := NewExecutor(Config{Node: uncrowded(t, "sim:1xV100"), Jobs: unknown, Profiles: profiles.Catalog()}, &tape{})
	if err == nil || !strings.Contains(err.Error(), "simulate job 0 ("+unknown[0].Command()+")") {
		t.Errorf("error %v, want one that names job 0 and its command", err)
	}
}
