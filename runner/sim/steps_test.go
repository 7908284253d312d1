package sim

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
)

const gib = 1 << 30

// small is a node with round numbers: times as in the steps, a link of 1 GiB/s, and memory for
// 10 GiB of objects beside the contexts of two processes.
func small(t testing.TB, devices int) Node {
	t.Helper()
	n := uncrowded(t, fmt.Sprintf("sim:%dxH200", devices))
	n.Groups[0].LinkBytesPerS = gib
	n.Groups[0].MemoryBytes = 10*gib + 2*runner.DefaultContextBytes + runner.ServerBytes
	return n
}

// lopsided is a small node of two devices, of which the second is worse than the first in everything.
func lopsided(t testing.TB) Node {
	t.Helper()
	n := small(t, 1)
	worse := n.Groups[0]
	worse.Name, worse.SMs, worse.DeviceFactor, worse.LinkBytesPerS = "worse", 4, 3, gib/2
	worse.MemoryBytes -= 6 * gib
	n.Groups = append(n.Groups, worse)
	return n
}

// stepping is a trial of jobs that do these steps, one steps file each.
func stepping(t testing.TB, node Node, scheduler string, steps ...string) trial {
	t.Helper()
	r := trial{node: node, scheduler: scheduler}
	dir := t.TempDir()
	for i, text := range steps {
		path := filepath.Join(dir, fmt.Sprintf("%d.jsonl", i))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.jobs = append(r.jobs, mixes.Job{Name: "own", Steps: path})
	}
	var err error
	if r.profiles, err = r.profiles.WithSteps(t.Context(), r.jobs); err != nil {
		t.Fatal(err)
	}
	return r
}

// Shorthands for lines of steps files.

func host(seconds float64) string {
	return fmt.Sprintf(`{"step": "host", "seconds": %g}`+"\n", seconds)
}

func allocate(object, bytes string) string {
	return fmt.Sprintf(`{"step": "allocate", "object": %q, "bytes": %q}`+"\n", object, bytes)
}

func managed(object, bytes string) string {
	return fmt.Sprintf(`{"step": "allocate", "object": %q, "bytes": %q, "managed": true}`+"\n", object, bytes)
}

func transfer(direction, object, bytes string) string {
	return fmt.Sprintf(`{"step": "copy", "object": %q, "direction": %q, "bytes": %q}`+"\n", object, direction, bytes)
}

// kernel has blocks of one warp.
func kernel(blocks int, seconds float64, more string) string {
	return fmt.Sprintf(`{"step": "kernel", "blocks": %d, "threads": 32, "seconds": %g%s}`+"\n", blocks, seconds, more)
}

func free(objects ...string) (text string) {
	for _, o := range objects {
		text += fmt.Sprintf(`{"step": "free", "object": %q}`+"\n", o)
	}
	return text
}

// of are the latest records of a job's tasks.
func (r *tape) of(job int) []results.Task {
	var out []results.Task
	for _, t := range r.Tasks {
		if t.Job != job {
			continue
		}
		if t.Seq == len(out) {
			out = append(out, t)
		}
		out[t.Seq] = t
	}
	return out
}

func wantOutcome(t *testing.T, j results.Job, want results.Outcome, endS float64) {
	t.Helper()
	if *j.Outcome != want {
		t.Errorf("job %d: %s (%s), want %s", j.Index, *j.Outcome, j.Detail, want)
	}
	wantEnd(t, j, endS)
}

// A copy beyond 64 MiB binds before the grid is known. The first kernel tells the grid.
func TestStepsOfOneTask(t *testing.T) {
	jobs, rec := stepping(t, small(t, 1), "case-alg3", host(1)+allocate("a", "1GiB")+host(0.5)+transfer("in", "a", "1GiB")+
		kernel(264, 2, `, "blocks_per_sm": 16`)+transfer("out", "a", "512MiB")+free("a")+host(1)).must(t)
	wantOutcome(t, jobs[0], results.OK, 1+0.5+1+2+0.5+1)
	want := results.Task{Bytes: gib, Managed: new(false), Blocks: 264, ThreadsPerBlock: 32, BlocksPerSM: new(uint32(16)),
		Device: new(0), SubmitS: 1.5, GrantS: new(1.5), ReleaseS: new(5.0)}
	if diff := cmp.Diff([]results.Task{want}, rec.of(0)); diff != "" {
		t.Error(diff)
	}
	if k := rec.Kernels; len(k) != 1 || k[0].StartS != 2.5 || k[0].EndS != 4.5 || *k[0].Task != 0 {
		t.Errorf("kernels %+v, want one from 2.5 s to 4.5 s", k)
	}
	if granted := rec.Tasks[0]; granted.GrantS == nil || granted.Blocks != 0 {
		t.Errorf("the first record is %+v, want a grant without a grid", granted)
	}
	// 264 blocks at 16 on an SM fill 16.5 of 132 SMs.
	if at := slices.IndexFunc(rec.Segments, func(s results.Segment) bool { return s.FirstS == 2.5 && *s.Value == 0.125 }); at < 0 {
		t.Errorf("the device was not an eighth busy from 2.5 s: %+v", rec.Segments)
	}
}

// Smaller copies wait for the first kernel, which binds with its grid.
func TestSmallCopiesAreRecordedUntilTheGrant(t *testing.T) {
	steps := allocate("a", "1GiB") + transfer("in", "a", "32MiB") + host(1) + kernel(8, 2, "") + free("a")
	jobs, rec := stepping(t, small(t, 1), "case-alg3", steps).must(t)
	wantOutcome(t, jobs[0], results.OK, 1+0.03125+2)
	if first := rec.Tasks[0]; first.SubmitS != 1 || first.Blocks != 8 || rec.Kernels[0].StartS != 1.03125 {
		t.Errorf("submitted %+v, kernels from %g s, want a grid of 8 at 1 s and kernels from 1.03125 s", first, rec.Kernels[0].StartS)
	}
	// The copy to an object that is freed before is dropped. 64 MiB are not beyond the limit, which is
	// that of each task.
	steps = allocate("b", "1GiB") + transfer("in", "b", "32MiB") + free("b") +
		allocate("a", "1GiB") + transfer("in", "a", "64MiB") + host(1) + kernel(8, 2, "") + free("a")
	jobs, rec = stepping(t, small(t, 1), "case-alg3", steps+steps).must(t)
	wantOutcome(t, jobs[0], results.OK, 2*(1+0.0625+2))
	if tasks := rec.of(0); len(tasks) != 2 || tasks[0].SubmitS != 1 || tasks[1].SubmitS != 4.0625 {
		t.Errorf("tasks %+v, want them submitted at 1 s and 4.0625 s", tasks)
	}
}

// The first task asks for what the job declares, if that is more, and later ones do not.
func TestTheFirstTaskHasTheDeclaredFootprint(t *testing.T) {
	task := allocate("a", "1GiB") + transfer("in", "a", "1GiB") + free("a")
	r := stepping(t, small(t, 1), "case-alg3", task+task)
	r.jobs[0].Footprint = mixes.Footprint{Bytes: 3 * gib, Blocks: 7, ThreadsPerBlock: 64}
	_, rec := r.must(t)
	tasks := rec.of(0)
	if len(tasks) != 2 || tasks[0].Bytes != 3*gib || tasks[0].Blocks != 7 || tasks[1].Bytes != gib || tasks[1].Blocks != 0 {
		t.Errorf("tasks %+v, want one of 3 GiB and 7 blocks, and one of 1 GiB", tasks)
	}
}

// Job 0 has two tasks. The second finds job 1 on its first device, and goes to the other.
func TestTasksOfOneProcessFollowEachOther(t *testing.T) {
	task := allocate("a", "4GiB") + kernel(8, 1, "") + free("a")
	jobs, rec := stepping(t, small(t, 2), "case-alg3", task+host(1)+task, host(1.5)+allocate("b", "4GiB")+kernel(8, 2, "")).must(t)
	wantOutcome(t, jobs[0], results.OK, 3)
	wantOutcome(t, jobs[1], results.OK, 3.5)
	for i, want := range []struct {
		device          int
		submit, release float64
	}{{0, 0, 1}, {1, 2, 3}} {
		if got := rec.of(0)[i]; *got.Device != want.device || got.SubmitS != want.submit || *got.ReleaseS != want.release {
			t.Errorf("task %d of job 0: %+v, want %+v", i, got, want)
		}
	}
	if *rec.of(1)[0].Device != 0 {
		t.Errorf("job 1 is on device %d, want 0", *rec.of(1)[0].Device)
	}
	for i, k := range slices.DeleteFunc(rec.Kernels, func(k results.Kernel) bool { return k.Job != 0 }) {
		if *k.Task != i || k.Device != i {
			t.Errorf("kernels %+v, want those of task %d on device %[2]d", k, i)
		}
	}
}

// A context stays on each device that a process has used, so that two of them fill what a second
// process would need for its own.
func TestTheContextStaysWhenATaskEnds(t *testing.T) {
	node := small(t, 1)
	node.Groups[0].MemoryBytes -= runner.DefaultContextBytes
	jobs, _ := stepping(t, node, "cg:workers=2", allocate("a", "1GiB")+kernel(8, 1, "")+free("a")+host(4),
		host(2)+allocate("b", "10GiB")+kernel(8, 1, "")).must(t)
	wantOutcome(t, jobs[0], results.OK, 5)
	wantOutcome(t, jobs[1], results.OOM, 2)
}

// Job 1 asks for 4 GiB more at 2 s, when job 0 holds 6 of 10 GiB until 4 s.
func growing(t *testing.T, scheduler string) trial {
	t.Helper()
	return stepping(t, small(t, 1), scheduler, allocate("a", "6GiB")+kernel(8, 4, "")+free("a"),
		host(1)+allocate("b", "3GiB")+kernel(8, 1, "")+allocate("c", "4GiB")+kernel(8, 1, "")+free("b", "c"))
}

func TestGrowthWaits(t *testing.T) {
	jobs, rec := growing(t, "case-alg3").must(t)
	wantOutcome(t, jobs[0], results.OK, 4)
	wantOutcome(t, jobs[1], results.OK, 5)
	if task := rec.of(1)[0]; task.Bytes != 3*gib || task.GrownBytes != 4*gib || *jobs[1].WaitS != 2 {
		t.Errorf("task %+v, waited %g s, want 4 GiB more after 2 s", task, *jobs[1].WaitS)
	}
	// What was freed within a task stays granted.
	jobs, rec = stepping(t, small(t, 1), "case-alg3", allocate("a", "3GiB")+allocate("b", "3GiB")+kernel(8, 1, "")+free("b")+
		allocate("c", "2GiB")+kernel(8, 1, "")+allocate("d", "4GiB")+kernel(8, 1, "")).must(t)
	wantOutcome(t, jobs[0], results.OK, 3)
	if task := rec.of(0)[0]; task.Bytes != 6*gib || task.GrownBytes != 3*gib {
		t.Errorf("task %+v, want 6 GiB and 3 more", task)
	}
}

func TestRefusedGrowthEndsTheJob(t *testing.T) {
	// No device has so much.
	jobs, rec := stepping(t, small(t, 1), "case-alg3", allocate("a", "3GiB")+kernel(8, 1, "")+allocate("b", "8GiB")+kernel(8, 1, "")).must(t)
	wantOutcome(t, jobs[0], results.OOM, 1)
	if task := rec.of(0)[0]; task.Refusal == nil || *jobs[0].ExitStatus != statusOOM || !strings.Contains(jobs[0].Detail, "8 GiB in cudaMalloc (simulated)") {
		t.Errorf("status %d (%s), task %+v; want 8 GiB to be refused", *jobs[0].ExitStatus, jobs[0].Detail, task)
	}
	// The end of a wait is not a lack of memory.
	r := growing(t, "case-alg3")
	r.jobs[1].Wait = new(time.Second)
	jobs, _ = r.must(t)
	wantOutcome(t, jobs[0], results.OK, 4)
	wantOutcome(t, jobs[1], results.Refused, 3)
	// Two that wait for each other: the request that came last is refused.
	both := allocate("a", "5GiB") + kernel(8, 1, "") + allocate("b", "2GiB") + kernel(8, 1, "")
	jobs, _ = stepping(t, small(t, 1), "case-alg3", both, both).must(t)
	wantOutcome(t, jobs[0], results.OK, 2)
	wantOutcome(t, jobs[1], results.OOM, 1)
}

// A scheduler without knowledge of memory grants everything. The device refuses.
func TestGrowthThatTheDeviceDoesNotHave(t *testing.T) {
	jobs, rec := growing(t, "cg:workers=2").must(t)
	wantOutcome(t, jobs[0], results.OK, 4)
	wantOutcome(t, jobs[1], results.OOM, 2)
	if task := rec.of(1)[0]; task.Refusal != nil || !strings.Contains(jobs[1].Detail, "4 GiB in cudaMalloc (simulated)") {
		t.Errorf("%s, task %+v; want 4 GiB granted and not there", jobs[1].Detail, task)
	}
}

// Whoever is stopped gives back what it holds and what it waits for.
func TestAStoppedJobOfStepsLeavesNothing(t *testing.T) {
	r := growing(t, "case-alg3")
	r.jobs[1].Timeout = 2500 * time.Millisecond // it waits to grow
	jobs, _ := r.must(t)
	wantOutcome(t, jobs[1], results.Timeout, 2.5)
	r = stepping(t, small(t, 1), "case-alg3:managed=exceed", managed("m", "12GiB")+kernel(8, 1, ""))
	r.jobs[0].Timeout = 3 * time.Second // pages move
	jobs, _ = r.must(t)
	wantOutcome(t, jobs[0], results.Timeout, 3)
}

// Job 0 begins with a small kernel on device 0, and job 1 with a larger one on device 1. At 1 s
// job 0 launches a kernel that is larger still, so job 2 goes to device 1.
func TestALargerKernelIsTold(t *testing.T) {
	for _, c := range []struct {
		blocks, device int
		told           bool
	}{{100, 1, true}, {3, 0, true}, {2, 0, false}} {
		_, rec := stepping(t, small(t, 2), "case-alg3", allocate("a", "1GiB")+kernel(1, 1, "")+kernel(c.blocks, 9, ""),
			allocate("b", "1GiB")+kernel(10, 9, ""), host(2)+allocate("c", "1GiB")+kernel(1, 1, "")).must(t)
		task := rec.of(0)[0]
		if got := *rec.of(2)[0].Device; got != c.device || (task.Blocks == uint64(c.blocks)) != c.told {
			t.Errorf("beside a kernel of %d blocks job 2 went to device %d, want %d; job 0 is known with %d blocks", c.blocks, got, c.device, task.Blocks)
		}
	}
}

// The first kernel whose occupancy is known is told, whatever its size, and no equal one after it.
func TestTheFirstKnownOccupancyIsTold(t *testing.T) {
	_, rec := stepping(t, small(t, 1), "case-alg3", allocate("a", "1GiB")+kernel(8, 1, "")+
		kernel(8, 1, `, "blocks_per_sm": 4`)+kernel(8, 1, `, "blocks_per_sm": 2`)).must(t)
	if task := rec.of(0)[0]; task.BlocksPerSM == nil || *task.BlocksPerSM != 4 {
		t.Errorf("task %+v, want 4 blocks on an SM", task)
	}
	_, rec = stepping(t, small(t, 1), "case-alg3", allocate("a", "1GiB")+kernel(8, 1, `, "blocks_per_sm": 4`)+
		kernel(8, 1, `, "blocks_per_sm": 2`)).must(t)
	if task := rec.of(0)[0]; *task.BlocksPerSM != 4 {
		t.Errorf("task %+v, want 4 blocks on an SM", task)
	}
}

// faulting is a small node whose page faults bring 1 GiB/s, and where 1 GiB that has to be written goes out in pushS.
func faulting(t testing.TB) Node {
	t.Helper()
	n := small(t, 1)
	n.Groups[0].LinkBytesPerS = gib / faultShare
	return n
}

const pushS = faultShare / pushShare

func read(object string) string {
	return kernel(8, 1, fmt.Sprintf(`, "reads": [%q]`, object)) + host(1)
}

// wantAbout wants intervals of kernels from and to these times, up to a block or two that are not where they would be in theory.
func wantAbout(t *testing.T, rec *tape, want ...float64) {
	t.Helper()
	var got []float64
	for _, k := range rec.Kernels {
		got = append(got, k.StartS, k.EndS)
	}
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 0.05 }) {
		t.Errorf("kernels from and to %.3f s, want about %.3f", got, want)
	}
}

// Managed memory of 16 GiB on a device with room for 10 and another process's context. By age, each sweep misses all.
func TestManagedMemoryThatExceedsItsDevice(t *testing.T) {
	node := faulting(t)
	node.Groups[0].MemoryBytes -= runner.DefaultContextBytes
	steps := managed("m", "16GiB") + kernel(8, 1, "") + host(1) + read("m") + read("m") + managed("n", "4GiB") + read("n")
	other := host(1) + allocate("b", "1GiB") + kernel(8, 1, "")
	_, rec := stepping(t, node, "case-alg3:managed=exceed", steps, other).must(t)
	wrote := 17 + 6*pushS                                                                                         // the last 10 GiB stay
	pushed := wrote + 1 + 17 + 10*pushS                                                                           // those go out, and then what came clean
	wantAbout(t, rec, 0, wrote, wrote+1, pushed, pushed+1, pushed+18, pushed+19, pushed+24, pushed+25, pushed+26) // the first has the device alone
	if task := rec.of(0)[0]; task.Bytes != 16*gib || !*task.Managed || task.Blocks != 8 || task.GrownBytes != 4*gib {
		t.Errorf("task %+v, want 16 GiB of managed memory and 4 more", task)
	}
	// By default managed memory has to fit.
	jobs, _ := stepping(t, node, "case-alg3", steps).must(t)
	wantOutcome(t, jobs[0], results.Refused, 0)
}

// Managed memory that fits comes once, at the first kernel that uses it, and makes room for other memory, which waits for that.
func TestManagedMemoryMakesRoom(t *testing.T) {
	steps := managed("m", "6GiB") + kernel(8, 1, `, "reads": ["m"], "access": {"m": "cyclic 9"}`) + kernel(8, 1, "") + free("m")
	_, rec := stepping(t, faulting(t), "case-alg3", steps).must(t)
	wantAbout(t, rec, 0, 6+1+1)
	if e := rec.Events; len(e) != 1 || e[0].Kind != results.EventPageFaults || e[0].Detail != "98304 page faults brought 6 GiB of managed memory (simulated)" {
		t.Errorf("events %+v, want the page faults of 6 GiB", e)
	}
	_, rec = stepping(t, faulting(t), "cg:workers=2", managed("m", "4GiB")+kernel(8, 1, "")+host(6)+kernel(8, 1, `, "reads": ["m"]`),
		host(8)+allocate("b", "8GiB")+kernel(8, 0.5, "")+free("b")).must(t)
	wantAbout(t, rec, 0, 4+1, 8+2*pushS, 8+2*pushS+0.5, 11, 11+2+1)
}

// Of 10 GiB, c takes the last 2 and 2 of a's, which came before b although it was used later.
func TestManagedMemoryMovesByItsAge(t *testing.T) {
	node := faulting(t)
	node.Groups[0].MemoryBytes -= runner.DefaultContextBytes
	_, rec := stepping(t, node, "case-alg3:managed=exceed", managed("all", "11GiB")+managed("a", "4GiB")+managed("b", "4GiB")+managed("c", "4GiB")+
		read("a")+read("b")+read("a")+read("c")+read("b")+read("a")).must(t)
	wantAbout(t, rec, 0, 5, 6, 11, 12, 13, 14, 19, 20, 21, 22, 27)
}

// Two kernels share the fault engine, and the SMs only while both compute. The device is in use all the time.
func TestPageFaultsAreServedOneAfterTheOther(t *testing.T) {
	steps := managed("m", "4GiB") + kernel(132*32, 1, "")
	_, rec := stepping(t, faulting(t), "case-alg3", steps, steps).must(t)
	last := 0.0
	for _, k := range rec.Kernels {
		last = max(last, k.EndS)
	}
	if last < 8 || last > 9 { // of 8 s of faults and 2 s of SMs all but a little is at the same time
		t.Errorf("both have ended after %g s, want 8 to 9", last)
	}
	for _, s := range rec.Segments {
		if s.LastS <= 8 && *s.Value != 1 {
			t.Errorf("utilization %+v, want 1: a kernel is on the device, whether or not it waits", s)
		}
	}
}

// A row and the same steps in a file are one job.
func TestARowIsItsSteps(t *testing.T) {
	row := catalogJobs(t, "lavaMD-100")[0]
	p, err := profiles.Catalog().Lookup(row)
	if err != nil {
		t.Fatal(err)
	}
	f := row.Footprint
	listed := stepping(t, uncrowded(t, "sim:1xV100"), "case-alg3", host(p.HostBeforeS)+
		fmt.Sprintf(`{"step": "allocate", "object": "m", "bytes": %d, "binds": true}`+"\n", f.Bytes)+
		fmt.Sprintf(`{"step": "copy", "object": "m", "direction": "in", "bytes": %d, "seconds": %g}`+"\n", p.CopyInBytes, p.CopyInS)+
		fmt.Sprintf(`{"step": "kernel", "blocks": %d, "threads": %d, "seconds": %g}`+"\n", f.Blocks, f.ThreadsPerBlock, p.KernelS)+
		fmt.Sprintf(`{"step": "copy", "object": "m", "direction": "out", "bytes": %d, "seconds": %g}`+"\n", p.CopyOutBytes, p.CopyOutS)+
		host(p.HostHeldS)+free("m")+host(p.HostAfterS))
	listed.jobs[0].Name, listed.jobs[0].Program, listed.jobs[0].Args = row.Name, row.Program, row.Args
	listed.jobs[0] = listed.jobs[0].WithFootprint(f)
	listed.jobs = slices.Repeat(listed.jobs, 6)
	_, got := listed.must(t)
	_, want := trial{node: listed.node, scheduler: "case-alg3", jobs: slices.Repeat([]mixes.Job{row}, 6)}.must(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the row and its steps differ:\n%s", diff)
	}
}

// anySteps is a steps file of any length, and how long its steps take alone on a small node if it
// has no managed memory.
func anySteps(rt *rapid.T) (text string, aloneS float64) {
	var objects []string
	sizes := map[string]int{} // MiB
	eighths := func() float64 { return float64(rapid.IntRange(1, 16).Draw(rt, "eighths")) / 8 }
	for i := range rapid.IntRange(1, 20).Draw(rt, "steps") {
		kind := rapid.SampledFrom([]string{"host", "allocate", "managed", "in", "out", "kernel", "free"}).Draw(rt, "step")
		if len(objects) == 0 && kind != "host" && kind != "kernel" {
			kind = "allocate"
		}
		switch kind {
		case "host":
			s := eighths()
			text, aloneS = text+host(s), aloneS+s
		case "allocate", "managed":
			name := fmt.Sprintf("%s%d", kind[:1], i)
			sizes[name] = 128 * rapid.IntRange(1, 16).Draw(rt, "size")
			objects = append(objects, name)
			line := allocate
			if kind == "managed" {
				line = managed
			}
			text += line(name, fmt.Sprintf("%dMiB", sizes[name]))
		case "in", "out":
			name := rapid.SampledFrom(objects).Draw(rt, "object")
			if name[0] == 'm' {
				continue
			}
			mib := min(sizes[name], 32*rapid.IntRange(1, 8).Draw(rt, "copied"))
			text, aloneS = text+transfer(kind, name, fmt.Sprintf("%dMiB", mib)), aloneS+float64(mib)/1024
		case "kernel":
			s := eighths()
			text, aloneS = text+kernel(rapid.IntRange(1, 5000).Draw(rt, "blocks"), s, ""), aloneS+s
		case "free":
			at := rapid.IntRange(0, len(objects)-1).Draw(rt, "freed")
			text += free(objects[at])
			objects = slices.Delete(objects, at, at+1)
		}
	}
	return text, aloneS
}

// Whatever jobs do, under every policy all of them end, the node is as before, and memory is
// lacking only where the policy does not know of it or has refused growth.
func TestAnyStepsUnderAnyPolicy(t *testing.T) {
	chance.Check(t, func(rt *rapid.T) {
		var steps []string
		for range rapid.IntRange(1, 6).Draw(rt, "jobs") {
			text, _ := anySteps(rt)
			steps = append(steps, text)
		}
		info := rapid.SampledFrom(enginetest.Policies()).Draw(rt, "policy")
		r := stepping(t, rapid.SampledFrom([]Node{small(t, 1), small(t, 2), lopsided(t)}).Draw(rt, "node"), info.Name, steps...)
		r.timeout = time.Duration(rapid.SampledFrom([]int{0, 0, 5}).Draw(rt, "timeout")) * time.Second
		r.noise = rapid.SampledFrom([]float64{0, 0.1}).Draw(rt, "noise")
		jobs, rec, err := r.clean(t.Context())
		if err != nil {
			rt.Fatalf("%s: %v: %q", info.Name, err, steps)
		}
		for _, j := range jobs {
			refused := slices.ContainsFunc(rec.of(j.Index), func(t results.Task) bool { return t.Refusal != nil })
			switch *j.Outcome {
			case results.OK, results.Timeout:
			case results.OOM:
				if info.Name != "cg" && info.Name != "zero" && info.Name != "sa" && !refused {
					rt.Fatalf("%s: job %d: %s: %q", info.Name, j.Index, j.Detail, steps)
				}
			default:
				if !refused {
					rt.Fatalf("%s: job %d: %s (%s): %q", info.Name, j.Index, *j.Outcome, j.Detail, steps)
				}
			}
		}
	})
}

// anyRanked is steps of ranks that at barriers and send messages. Some do more than others.
func anyRanked(rt *rapid.T, ranks int) (text string) {
	for range rapid.IntRange(1, 4).Draw(rt, "parts") {
		name := fmt.Sprintf("o%d", rapid.IntRange(0, 1<<30).Draw(rt, "object"))
		one := fmt.Sprint(rapid.IntRange(0, ranks-1).Draw(rt, "rank"))
		part := allocate(name, fmt.Sprintf("%dMiB", 512*rapid.IntRange(1, 12).Draw(rt, "size"))) + kernel(64, 0.5, "") + only(one, host(0.25))
		switch rapid.SampledFrom([]string{"barrier", "message", "neither"}).Draw(rt, "meets") {
		case "barrier":
			part += barrier
		case "message":
			part += message(rapid.SampledFrom([]string{one, `"all"`}).Draw(rt, "from"), `"all"`, "1000000000")
		}
		if rapid.Bool().Draw(rt, "freed") {
			part += free(name)
		}
		if !strings.Contains(text, name) {
			text += part
		}
	}
	return text
}

// Whatever ranks do, under every policy their jobs end, or the run says why they cannot, and the node is as before.
func TestAnyRanksUnderAnyPolicy(t *testing.T) {
	chance.Check(t, func(rt *rapid.T) {
		info := rapid.SampledFrom(enginetest.Policies()).Draw(rt, "policy")
		r := trial{node: rapid.SampledFrom([]Node{small(t, 1), small(t, 2)}).Draw(rt, "node"), scheduler: info.Name}
		for range rapid.IntRange(1, 3).Draw(rt, "jobs") {
			ranks := rapid.IntRange(2, 4).Draw(rt, "ranks")
			text := anyRanked(rt, ranks)
			one := ranked(t, r.node, info.Name, ranks, text)
			r.jobs, r.profiles = append(r.jobs, one.jobs...), r.profiles.With(one.profiles)
		}
		r.timeout = time.Duration(rapid.SampledFrom([]int{0, 0, 5}).Draw(rt, "timeout")) * time.Second
		jobs, rec, err := r.clean(t.Context())
		if err != nil {
			rt.Fatalf("%s: %v", info.Name, err)
		}
		stuck := slices.ContainsFunc(rec.Events, func(e results.Event) bool { return e.Kind == results.EventStuck })
		for _, j := range jobs {
			ranks := rec.ranksOf(j.Index)
			switch {
			case j.StartS == nil && (stuck || *j.Outcome == results.Refused):
			case len(ranks) != r.jobs[j.Index].Ranks || slices.ContainsFunc(ranks, func(k results.Rank) bool { return k.Outcome == nil || *k.EndS > *j.EndS }):
				rt.Fatalf("%s: job %+v, ranks %+v", info.Name, j, ranks)
			case *j.Outcome == results.OK && slices.ContainsFunc(ranks, func(k results.Rank) bool { return *k.Outcome != results.OK }):
				rt.Fatalf("%s: job %+v, ranks %+v", info.Name, j, ranks)
			case *j.Outcome == results.Timeout && !stuck && r.timeout == 0:
				rt.Fatalf("%s: job %+v", info.Name, j)
			}
		}
	})
}

// Alone, a job's steps add up, as long as it fits the device and has its task from the beginning, so
// that every copy is made.
func TestAnyStepsAloneAddUp(t *testing.T) {
	chance.Check(t, func(rt *rapid.T) {
		text, want := anySteps(rt)
		if strings.Contains(text, "managed") {
			rt.Skip("pages move")
		}
		node := small(t, 1)
		node.Groups[0].MemoryBytes *= 10
		r := stepping(t, node, "case-alg3", `{"step": "allocate", "object": "all", "bytes": 1, "binds": true}`+"\n"+text)
		jobs, _, err := r.clean(t.Context())
		if err != nil || *jobs[0].Outcome != results.OK || math.Abs(*jobs[0].EndS-want) > 1e-6 {
			rt.Fatalf("%v: job %+v, want it to end at %g s: %q", err, jobs, want, text)
		}
	})
}
