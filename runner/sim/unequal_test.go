package sim

import (
	"math"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// speed of an H200 over that of a device: SMs × cores × MHz of each.
const (
	onC2050   = 132 * 128 * 1980. / (14 * 32 * 1150)
	onQuadro  = 132 * 128 * 1980. / (4 * 48 * 1250)
	unequal   = "sim:2xC2050+1xQuadro2000"
	oneOfEach = "sim:1xC2050+1xQuadro2000"
)

// A kernel lasts as the device needs for it, and host phases as on the host of the first group.
func TestKernelsLastAsTheirDeviceNeeds(t *testing.T) {
	r := phased(t, 2, "1,2,3,,0,2,,0", "", 0)
	r.node, r.scheduler = mustNode(t, oneOfEach), "sa"
	for i := range r.jobs {
		r.jobs[i].Footprint.Bytes = 64 << 20
	}
	jobs, rec := r.must(t)
	wantEnd(t, jobs[0], 6+2*onC2050)
	wantEnd(t, jobs[1], 6+2*onQuadro)
	if ratio := rec.Kernels[1].BusyS / rec.Kernels[0].BusyS; math.Abs(ratio-515200./240000) > 1e-6 || rec.Kernels[1].Device != 1 {
		t.Errorf("kernels of %+v: %g times as long on a Quadro 2000 as on a C2050, want 515200 ÷ 240000", rec.Kernels, ratio)
	}
	wantUtilizationWithoutGaps(t, rec, jobs)

	r.node = mustNode(t, "sim:1xP100+1xV100") // the host of P100s
	jobs, _ = r.must(t)
	wantEnd(t, jobs[0], 6*1.18+2*8.8)
	wantEnd(t, jobs[1], 6*1.18+2*1.5)
}

// What a program of a fixed length does is as long on each device, and a host step that follows the kernels is longer as they are.
func TestWhatStepsScaleWith(t *testing.T) {
	steps := allocate("a", "1MiB") + kernel(9, 2, `, "scale": "none"`) + kernel(9, 0.1, "") +
		`{"step": "host", "seconds": 0.3, "scale": "device"}` + "\n" + `{"step": "host", "seconds": 5, "scale": "none"}`
	r := stepping(t, mustNode(t, "sim:1xP100+1xV100"), "sa", steps, steps)
	jobs, _ := r.must(t)
	wantEnd(t, jobs[0], 2+0.4*8.8+5)
	wantEnd(t, jobs[1], 2+0.4*1.5+5)
}

// A kernel that is bound by memory is scaled by bandwidths. An instance has as much of it as it has slices.
func TestAKernelBoundByMemory(t *testing.T) {
	for text, lasts := range map[string]float64{
		"sim:1xH200": 1, "sim:1xGTX480": 4800 / 177.4, "sim:1xC2050": 4800 / (0.8 * 144), "sim:1xA100/2x3g.20gb": 2 * 4800. / 1555, "sim:1xH200/1x1g.18gb": 8,
	} {
		jobs, _ := stepping(t, mustNode(t, text), "sa", allocate("a", "1MiB")+kernel(9999, 3, `, "scale": "memory"`)).must(t)
		wantEnd(t, jobs[0], 3*lasts)
	}
}

// What a job does on a device does not depend on the devices beside it: kernels, copies, managed memory and memory that moves,
// with and without noise. The place of a job in its rounds does, so only the sum of its rounds does not.
func TestAJobOnTheSecondDeviceLastsAsWithoutTheFirst(t *testing.T) {
	steps := host(1) + allocate("a", "100MiB") + managed("b", "300MiB") + transfer("in", "a", "64MiB") + kernel(9, 0.01, "") + host(0.5) +
		kernel(500, 0.02, `, "reads": ["b"]`) + transfer("out", "a", "64MiB") + free("a", "b")
	moves := host(1) + allocate("a", "850MiB") + allocate("b", "850MiB") + allocate("c", "850MiB") + kernel(9, 0.01, `, "writes": ["a"]`) +
		kernel(9, 0.01, `, "writes": ["b"]`) + kernel(9, 0.01, `, "writes": ["c"]`) + kernel(9, 0.01, `, "writes": ["a"]`) + free("a", "b", "c")
	for name, of := range map[string]func(Node) trial{
		"steps": func(n Node) trial { return stepping(t, n, "sa", steps, steps) },
		"moves": func(n Node) trial { return stepping(t, n, "demand", moves, moves) },
		"rounds": func(n Node) trial {
			r := phased(t, 2, "0.5,1.5,0.25,1000000,0.125,0.3,1000000,0.0625", "", 7)
			r.node, r.scheduler = n, "sa"
			for i := range r.jobs {
				r.jobs[i].Footprint.Bytes = 64 << 20
			}
			return r
		},
	} {
		for _, noise := range []float64{0, 0.1} {
			if noise > 0 && name != "steps" { // rounds begin elsewhere, with other noise; and who asks first gets the first device
				continue
			}
			alone, beside := of(mustNode(t, "sim:2xC2050")), of(mustNode(t, "sim:1xV100+1xC2050"))
			alone.noise, beside.noise = noise, noise
			beside.node.Host = alone.node.Host
			want, _ := alone.must(t)
			got, rec := beside.must(t)
			if math.Abs(*got[1].EndS-*want[1].EndS) > 1e-6 {
				t.Errorf("%s, noise %g: ends at %g s beside a V100, and at %g s beside its like", name, noise, *got[1].EndS, *want[1].EndS)
			}
			if *got[0].EndS >= *got[1].EndS || *rec.of(1)[0].Device != 1 {
				t.Errorf("%s, noise %g: job 1 on device %d ends at %g s, and job 0 on a V100 at %g s", name, noise, *rec.of(1)[0].Device, *got[1].EndS, *got[0].EndS)
			}
			if name == "moves" && len(rec.Swaps) == 0 {
				t.Error("no memory moved")
			}
		}
	}
}

// A policy chooses the device of each task, and only then it is known how long its steps last.
func TestAPolicyChoosesTheDevice(t *testing.T) {
	task := allocate("a", "64MiB") + kernel(1, 0.01, "") + free("a")
	short := task + host(10) + task + host(10)
	r := stepping(t, mustNode(t, unequal), "case-alg3", short, short, short, short)
	jobs, rec := r.must(t)
	lasts := []float64{0.01 * onC2050, 0.01 * onC2050, 0.01 * onQuadro}
	on := map[int]int{}
	for i, j := range jobs {
		end := 20.0
		for _, task := range rec.of(i) {
			on[*task.Device]++
			end += lasts[*task.Device]
		}
		wantOutcome(t, j, results.OK, end)
	}
	if len(on) != 3 {
		t.Errorf("tasks by device %v, want some on each", on)
	}
}

// Each device has its own memory, and --mem-cap takes from those that have more.
func TestDevicesHaveTheirOwnMemory(t *testing.T) {
	n := mustNode(t, unequal)
	var got []int64
	for _, d := range append(n.Devices(false), n.Capped(2<<30).Devices(true)...) {
		got = append(got, d.CapacityBytes>>20)
	}
	want := []int64{2687, 2687, 1024, 2048 - 128, 2048 - 128, 1024 - 128}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%d MiB, want %d", got, want)
		}
	}
	jobs := []mixes.Job{{Name: "own", Program: "./own", Footprint: mixes.Footprint{Bytes: 1 << 30, Blocks: 1, ThreadsPerBlock: 32}}}
	r := phased(t, 0, "1,0,0,,0,2,,0", "", 0)
	r.node, r.scheduler, r.jobs = n, "sa", append(append(jobs, jobs...), jobs...)
	ended, _ := r.must(t)
	for i, want := range []results.Outcome{results.OK, results.OK, results.OOM} {
		if *ended[i].Outcome != want {
			t.Errorf("job %d: %s (%s), want %s", i, *ended[i].Outcome, ended[i].Detail, want)
		}
	}
}
