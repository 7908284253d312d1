package sim

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/profiles"
)

// phased is so many equal jobs with a profile of this text: from host_before_s to copy_out_s,
// the kernel phases and the rounds.
func phased(t *testing.T, jobs int, times, phases string, rounds int) trial {
	t.Helper()
	file := "job,command,host_before_s,host_held_s,host_after_s,copy_in_bytes,copy_in_s,kernel_s,copy_out_bytes,copy_out_s,kernels," +
		"memory_bytes,blocks,threads_per_block,gpu,driver,measured_at,kernel_phases,rounds\n" +
		fmt.Sprintf("own,./own,%s,traced,,,,,,,%s,%d\n", times, phases, rounds)
	set, err := profiles.Read("own.csv", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	own := trial{node: uncrowded(t, "sim:1xH200"), scheduler: "case-alg3", profiles: set}
	for range jobs {
		own.jobs = append(own.jobs, mixes.Job{Name: "own", Program: "./own", Footprint: mixes.Footprint{Bytes: 1 << 30, Blocks: 1, ThreadsPerBlock: 32}})
	}
	return own
}

func makespan(jobs []results.Job) float64 {
	end := 0.0
	for _, j := range jobs {
		end = max(end, *j.EndS)
	}
	return end
}

// Wherever in a round a job begins, its phases add up.
func TestAJobOfPhasesAloneLastsAsProfiled(t *testing.T) {
	for _, rounds := range []int{0, 1, 2, 7, 32, 100} {
		one := phased(t, 1, "0.5,1.5,0.25,1000,0.125,3,1000,0.0625", "0:0.5 1.5:0.5 66:0.25 132:1 1000:0.75", rounds)
		for index := range 5 {
			one.jobs = append(one.jobs, one.jobs[0])
			one.node = uncrowded(t, fmt.Sprintf("sim:%dxH200", len(one.jobs))) // each has a device of its own
			jobs, rec := one.must(t)
			wantEnd(t, jobs[index], 0.5+1.5+0.25+0.125+3+0.0625)
			busy := 0.0
			for _, k := range rec.Kernels {
				if k.Job == index {
					busy += k.BusyS
				}
			}
			if math.Abs(busy-3) > 1e-6 {
				t.Errorf("%d rounds, job %d: kernels for %g s, want 3 s", rounds, index, busy)
			}
			wantUtilizationWithoutGaps(t, rec, jobs)
		}
	}
}

// Kernels that need 30 % of the SMs run at full speed side by side, those that need all
// take turns, and the same grid needs more of a smaller device.
func TestKernelPhasesShareTheSMs(t *testing.T) {
	for _, c := range []struct {
		node, phases string
		jobs         int
		wantS        float64 // kernels of each last
	}{
		{"sim:1xH200", "39.6:4", 2, 4},
		{"sim:1xH200", "39.6:4", 4, 4 * 1.2},
		{"sim:1xH200", "132:4", 2, 8},
		{"sim:1xH200", "500:4", 2, 8},
		{"sim:1xH200", "66:4", 2, 4},
		{"sim:1xV100", "66:4", 2, 4 * 1.65},
		{"sim:1xV100", "40:4", 2, 4},
		{"sim:1xH200", "33:1 132:1 0:2", 1, 4},
	} {
		several := phased(t, c.jobs, "1,0,0,,0,4,,0", c.phases, 20)
		several.node = uncrowded(t, c.node)
		jobs, _ := several.must(t)
		m := several.node.Groups[0]
		for _, j := range jobs {
			wantEnd(t, j, m.Host.Factor+m.DeviceFactor*c.wantS)
		}
	}
}

// Each class of kernels contends for what it needs: the class that fills the device slows
// down beside the small one, where one demand for all would slow both or none.
func TestPhasesOfOneJobNeedDifferentShares(t *testing.T) {
	alone := makespan(first(phased(t, 1, "0,0,0,,0,4,,0", "13.2:2 132:2", 32).must(t)))
	two := makespan(first(phased(t, 2, "0,0,0,,0,4,,0", "13.2:2 132:2", 32).must(t)))
	if two <= alone || two >= 2*alone {
		t.Errorf("two jobs end after %g s, want more than the %g s of one and less than twice as long", two, alone)
	}
}

func first(jobs []results.Job, _ *tape) []results.Job { return jobs }

// Half of a job is host time between its kernels, which the kernels of another fill.
func TestHostGapsOverlapTheKernelsOfOthers(t *testing.T) {
	jobs, rec := phased(t, 2, "1,5,0,,0,5,,0", "132:5", 20).must(t)
	// docs/design/simulator.md; jobs in step would take 15 s, and jobs that never meet 10 s.
	if held := makespan(jobs) - 1; math.Abs(held-11.2) > 0.1 {
		t.Errorf("two jobs hold the device for %g s, want 11.2 s", held)
	}
	switches := 0
	for i := 1; i < len(rec.Kernels); i++ {
		if rec.Kernels[i].Job != rec.Kernels[i-1].Job {
			switches++
		}
	}
	if switches < 30 {
		t.Errorf("the jobs' %d stretches of kernels change over %d times, want about 40", len(rec.Kernels), switches)
	}
	var resident results.Residence
	for _, k := range rec.Kernels {
		resident.Add(k)
	}
	if d := results.Compute(results.Run{Mode: results.Simulated, Jobs: 2}, []results.Device{{}}, jobs, rec.Segments, resident); d.KernelUtilizationMean == nil {
		t.Error("the intervals of kernels do not say when the device was busy")
	}
}

func TestPhasesRepeatExactly(t *testing.T) {
	for _, noise := range []float64{0, 0.1} {
		many := phased(t, 8, "0.5,1.5,0.25,1000000000,0.125,3,1000,0.0625", "0:0.5 1.5:0.5 66:1 132:1", 32)
		many.noise = noise
		_, one := many.must(t)
		_, again := many.must(t)
		if diff := cmp.Diff(one, again); diff != "" {
			t.Errorf("noise %g: the same seed gave other records:\n%s", noise, diff)
		}
	}
}
