package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/dispatch"
	"github.com/caserun/caserun/runner/external"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
)

func (*tape) Copy(results.Copy) {}

// clustered runs jobs on a node as the harness does.
func clustered(ctx context.Context, node, scheduler string, seed uint64, jobs ...mixes.Job) ([]results.Job, *tape, error) {
	return clusteredBy(ctx, harness.Options{Node: node, Seed: seed}, scheduler, nil, jobs...)
}

// heard calls back with each job that is recorded.
type heard struct {
	*tape
	job func(results.Job)
}

func (w heard) Job(j results.Job) {
	w.tape.Job(j)
	if w.job != nil {
		w.job(j)
	}
}

// crowdShy is in place of a program: it gives a job two ranks of each open node, in turn, if no more than two ranks wait there.
type crowdShy struct{}

func (crowdShy) Assign(j cluster.Job, nodes []cluster.NodeView, latest int) (shares []cluster.Share) {
	left := j.Ranks
	for i := range nodes {
		if at := (latest + 1 + i) % len(nodes); left > 0 && nodes[at].Open && nodes[at].Waiting <= 2 {
			share := cluster.Share{Node: at, Ranks: min(2, left)}
			shares, left = append(shares, share), left-share.Ranks
		}
	}
	if shares != nil {
		shares[0].Ranks += left
	}
	return shares
}

func (crowdShy) Err() error { return nil }

// clusteredBy is clustered with options, and calls back with each job that is recorded.
func clusteredBy(ctx context.Context, o harness.Options, scheduler string, job func(results.Job), jobs ...mixes.Job) ([]results.Job, *tape, error) {
	return clusteredAs(ctx, o, scheduler, job, nil, jobs...)
}

// clusteredAs is clusteredBy with what is expected of the jobs.
func clusteredAs(ctx context.Context, o harness.Options, scheduler string, job func(results.Job), expected []*schedulers.Prediction, jobs ...mixes.Job) (_ []results.Job, _ *tape, err error) {
	b, err := Open(o)
	if err != nil {
		return nil, nil, err
	}
	r := harness.Request{Configuration: harness.Configuration{Options: o, Sched: scheduler, Probe: results.Lazy}, Mix: mixes.Mix{Name: "own", Jobs: jobs}, Profiles: profiles.Catalog(), Say: func(string, ...any) {}}
	devices, threads, _, _ := b.Size()
	if r.Profiles, err = r.Profiles.WithSteps(ctx, jobs); err != nil {
		return nil, nil, err
	}
	batch := harness.Batch{Request: r, Predictions: expected}
	if batch.Scheduler, batch.Workers, err = r.Scheduler(devices, threads); err != nil {
		return nil, nil, err
	}
	if err := b.CheckScheduler(batch.Scheduler); err != nil {
		return nil, nil, err
	}
	if program := batch.Scheduler.Program; program != nil && !b.isCluster { // the harness starts it
		p, err := external.Start(*program)
		if err != nil {
			return nil, nil, err
		}
		defer p.Close()
		batch.Scheduler = p.Scheduler(batch.Scheduler)
	}
	if head, _ := batch.Scheduler.Head.(cluster.Policy); head.Program() != nil {
		batch.Scheduler.Head = head.By(crowdShy{})
	}
	rec := &tape{}
	n, err := b.Open(ctx, batch, heard{rec, job})
	if err != nil {
		return nil, nil, err
	}
	done, err := n.Execute(ctx, 1, time.Time{})
	return done, rec, errors.Join(append(n.Close(&results.Run{}), err)...)
}

// ofW1 has the jobs of W1. Six arrive at a time. Later ones have to end earlier.
func ofW1(t *testing.T, apart time.Duration) []mixes.Job {
	t.Helper()
	jobs := slices.Clone(mixJobs(t, "W1"))
	for i := range jobs {
		jobs[i].At, jobs[i].Deadline = time.Duration(i/6)*6*apart, time.Duration(60-3*i)*time.Second
	}
	return jobs
}

// byTurns is a program for one node that gives task 0 device 0, task 1 device 1, and so on, and counts in a file how often it is started.
const byTurns = `#!/bin/sh
echo started >>"$0.log"
read hello
echo '{"id":0,"protocol":1,"promises":[]}'
while read question; do
  id=${question#*:} task=${question#*'"task":{"id":'}
  echo "{\"id\":${id%%,*},\"device\":$((${task%%,*} % 2))}"
done
`

// What a cluster records is what its nodes would record alone, each with the jobs that the head has given it.
func TestAClusterIsItsNodes(t *testing.T) {
	const nodes, devices, seed = 3, 2, 7
	program := filepath.Join(t.TempDir(), "p.sh")
	if err := os.WriteFile(program, []byte(byTurns), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, scheduler := range []string{"exec:" + program, "case-alg3", "sa", "cg:workers=4", "vgpu:n=2,bursts=on", "mfit", "schedgpu", "demand", "case-alg3:queue=deadline"} {
		t.Run(scheduler, func(t *testing.T) {
			jobs := ofW1(t, 700*time.Millisecond)
			_, all, err := clustered(t.Context(), "sim:3x2xP100", "cluster-rr/"+scheduler, seed, jobs...)
			if err != nil {
				t.Fatal(err)
			}
			together := &tape{}
			policy, err := cluster.Parse("cluster-rr")
			if err != nil {
				t.Fatal(err)
			}
			head, err := cluster.New(policy, slices.Repeat([]cluster.Node{{Devices: devices}}, nodes))
			if err != nil {
				t.Fatal(err)
			}
			c := dispatch.New(dispatch.Config{Jobs: jobs, Head: head, Recorder: together})
			gets := make([]gets, nodes)
			for i := range gets {
				c.Add(devices, &gets[i])
			}
			if err := c.ArriveAll(schedulers.Never); err != nil {
				t.Fatal(err)
			}
			for i, own := range gets {
				_, alone, err := clustered(t.Context(), "sim:2xP100", scheduler, seed+uint64(i), own...)
				if err != nil {
					t.Fatal(err)
				}
				alone.play(fromNode{c.Members[i]})
			}
			if was, want := all.last(t), together.last(t); was != want {
				t.Errorf("%s\nwant\n%s", was, want)
			}
			if log, err := os.ReadFile(program + ".log"); scheduler == "exec:"+program && (err != nil || strings.Count(string(log), "started") != nodes+nodes) {
				t.Errorf("the programs of the nodes, together and alone, are started so often: %s%v", log, err)
			}
		})
	}
}

// gets are the jobs that a node gets, and does nothing with.
type gets []mixes.Job

func (g *gets) Give(jobs []dispatch.Job) error {
	for _, j := range jobs {
		*g = append(*g, j.Job)
	}
	return nil
}
func (*gets) Post(runner.Event) error { return nil }
func (*gets) Now() time.Duration      { return 0 }

// play records what is on the tape again, but how busy devices were, because a node alone ends earlier.
func (r *tape) play(to fromNode) {
	for _, j := range r.Jobs {
		if j.ArrivalS != nil {
			to.Job(j)
		}
	}
	for _, k := range r.Tasks {
		to.Task(k)
	}
	for _, s := range r.Swaps {
		to.Swap(s)
	}
	for _, k := range r.Kernels {
		to.Kernel(k)
	}
}

// last has a line for each job, task, swap and kernel, as it was recorded last.
func (r *tape) last(t *testing.T) string {
	t.Helper()
	lines := map[string]string{}
	put := func(key string, record any) {
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		lines[key] = key + string(text)
	}
	for _, j := range r.Jobs {
		put(fmt.Sprintf("job %03d ", j.Index), j)
	}
	for _, k := range r.Tasks {
		put(fmt.Sprintf("task %03d %d ", k.Job, k.Seq), k)
	}
	for _, s := range r.Swaps {
		put(fmt.Sprintf("swap %03d %d %g ", s.Job, s.Task, s.StartS), s)
	}
	for _, k := range r.Kernels {
		put(fmt.Sprintf("kernel %03d %d %g ", k.Job, *k.Task, k.StartS), k)
	}
	return strings.Join(slices.Sorted(maps.Values(lines)), "\n")
}

// The nodes of a cluster, and the head's policy, must be what can be simulated.
func TestClustersThatCannotBe(t *testing.T) {
	job := catalogJobs(t, "bfs-32M")[0]
	for _, c := range []struct {
		node, scheduler string
		want            string
	}{
		{"sim:2x2xV100", "case-alg3", "as in cluster-rr/case-alg3"},
		{"sim:2xV100", "coloc:nodes=1/sa", "coloc:nodes=1 gives jobs to the nodes of a cluster, and sim:2xV100 is one node"},
		{"sim:2x2xV100", "coloc:nodes=0/sa", "nodes=0"},
		{"sim:2x2xV100", "coloc/", "want the scheduler of each node"},
		{"sim:2x2xV100", "coloc:weights=1:2:3/sa", "one for each of the cluster's 2 nodes"},
		{"sim:2x2xV100", "coloc", "as in coloc/case-alg3"},
		{"sim:0x2xV100", "coloc/sa", "want 1 to 10000"},
		{"sim:10000x999xV100", "coloc/sa", "a cluster has at most 100000"},
		{"sim:2x3x4xV100", "coloc/sa", "no model"},
	} {
		if _, _, err := clustered(t.Context(), c.node, c.scheduler, 1, job); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s under %s: %v, want %q", c.node, c.scheduler, err, c.want)
		}
	}
}

// Each node plans for the jobs that it gets. One that gets too many unknown ones says so, and the others go on.
func TestEachNodePlans(t *testing.T) {
	node := mustNode(t, "sim:2xV100")
	jobs, expected := slices.Concat(mixJobs(t, "W7"), mixJobs(t, "W7")), []*schedulers.Prediction{}
	for i, j := range jobs {
		e, _, err := alone(node, node.Groups[0].Model, j, profiles.Catalog())
		if err != nil {
			t.Fatal(err)
		}
		expected = append(expected, nil)
		if i%2 == 0 && i > 0 || i%8 == 1 { // of node 1 three in four are unknown, and of node 0 only the first
			expected[i] = history.ForScheduler([]*results.Known{{Expected: e}})[0]
		}
	}
	var turnaround [2][2]float64 // by scheduler and node
	for s, scheduler := range []string{"case-alg3", "plan:search=100"} {
		done, rec, err := clusteredAs(t.Context(), harness.Options{Node: "sim:2x2xV100", Seed: 1}, "cluster-rr/"+scheduler, nil, expected, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		for i, j := range done {
			if *j.Outcome != results.OK {
				t.Errorf("%s: %+v", scheduler, j)
			}
			turnaround[s][i%2] += *j.EndS / float64(len(done)/2)
		}
		var unplanned []string
		for _, e := range rec.Events {
			if e.Kind == results.EventUnplanned {
				unplanned = append(unplanned, e.Detail)
			}
		}
		if want := "nothing is known of 24 of 32 jobs so far"; len(unplanned) != s || s == 1 && !strings.HasPrefix(unplanned[0], want) {
			t.Errorf("%s: events %q", scheduler, unplanned)
		}
	}
	alg3, plan := turnaround[0], turnaround[1]
	if plan[0] > 0.9*alg3[0] || plan[1] < 0.9*alg3[1] {
		t.Errorf("mean turnaround on both nodes: %.1f s planned, %.1f s under Algorithm 3; only the first node has a plan", plan, alg3)
	}
}

// timed is a job that has a device for so long.
func timed(name string, kernel float64) mixes.Job {
	return mixes.Job{Name: name, Program: "./" + name, Footprint: mixes.Footprint{Bytes: 1 << 30, Blocks: 64, ThreadsPerBlock: 256}, Profile: &mixes.Profile{Phases: []mixes.Phase{{Kernel: time.Duration(kernel * 1e9), Kernels: mixes.Footprint{Bytes: 1 << 30, Blocks: 64, ThreadsPerBlock: 256}}}}}
}

// Groups arrive one after the other, on whatever nodes, and waiting at the head counts.
func TestAClusterHasGroups(t *testing.T) {
	jobs := []mixes.Job{timed("a", 2), timed("b", 3), timed("c", 1), timed("d", 1), timed("e", 1)}
	jobs[3].Group, jobs[4].Group = 1, 1
	done, _, err := clustered(t.Context(), "sim:2x1xV100", "cluster-batch/sa", 1, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	if wait := *done[2].WaitS; wait != *done[0].EndS || *done[2].ArrivalS != 0 {
		t.Errorf("c has waited for %g s from %g s, want until %g s", wait, *done[2].ArrivalS, *done[0].EndS)
	}
	last := max(*done[0].EndS, *done[1].EndS, *done[2].EndS)
	for _, j := range done[3:] {
		if *j.ArrivalS != last || *j.StartS != last {
			t.Errorf("%s arrives at %g s and starts at %g s, want %g s", j.Name, *j.ArrivalS, *j.StartS, last)
		}
	}
}

// A short job suspends a long one where it finds no room. The long one goes on when it has ended.
func TestLatencyOnACluster(t *testing.T) {
	long, short := timed("long", 20), timed("short", 1)
	long.Long, short.At = true, 5*time.Second
	long.Profile.Rounds = 40
	for scheduler, first := range map[string]string{"coloc/vgpu": "long", "latency/vgpu": "short"} {
		done, all, err := clustered(t.Context(), "sim:1x1xV100", scheduler, 1, long, short)
		if err != nil {
			t.Fatal(err)
		}
		if done[0].EndS == nil || done[1].EndS == nil || (*done[1].EndS < *done[0].EndS) != (first == "short") {
			t.Errorf("%s: %+v", scheduler, done)
		}
		limited := slices.DeleteFunc(slices.Clone(all.Events), func(e results.Event) bool { return e.Kind != results.EventLimited })
		if want := map[string]int{"long": 0, "short": 2}[first]; len(limited) != want {
			t.Errorf("%s: limits %+v, want %d", scheduler, limited, want)
		}
	}
}

// A suspended job gives its worker back. Else the short job would wait for it for ever.
func TestLatencyOnAClusterWithOneWorker(t *testing.T) {
	long, short := timed("long", 20), timed("short", 1)
	long.Long, short.At, long.Profile.Rounds = true, time.Second, 40
	done, _, err := clusteredBy(t.Context(), harness.Options{Node: "sim:1x1xV100", Seed: 1, Workers: 1}, "latency/mfit", nil, long, short)
	if err != nil || *done[0].Outcome != results.OK || *done[1].Outcome != results.OK || *done[1].EndS > *done[0].EndS {
		t.Errorf("%+v, %v", done, err)
	}
}

// A run that is interrupted, at its start or when its first job ends, has an outcome for each job: it runs, waits at its node or at the
// head, or has not arrived.
func TestAClusterIsInterrupted(t *testing.T) {
	jobs := []mixes.Job{timed("runs", 5), timed("longer", 9), timed("waits", 5), timed("comes", 5)}
	jobs[3].At = time.Hour
	for _, scheduler := range []string{"cluster-batch/sa", "cluster-rr/sa", "cluster-rr/case-alg3"} {
		for _, atStart := range []bool{true, false} {
			ctx, cancel := context.WithCancelCause(t.Context())
			if atStart {
				cancel(errors.New("enough"))
			}
			done, all, err := clusteredBy(ctx, harness.Options{Node: "sim:2x1xV100", Seed: 1}, scheduler, func(j results.Job) {
				if j.Outcome != nil {
					cancel(errors.New("enough"))
				}
			}, jobs...)
			outcomes := map[results.Outcome]int{}
			for _, j := range done {
				outcomes[*j.Outcome]++
			}
			if err == nil || len(done) != len(jobs) || outcomes[results.Cancelled] < 2 || outcomes[results.OK]+outcomes[results.Cancelled] != len(jobs) || atStart != (outcomes[results.OK] == 0) {
				t.Errorf("%s, at its start %t: %v, %v", scheduler, atStart, outcomes, err)
			}
			if n := len(all.Events); n != 1 || all.Events[0].Kind != results.EventCancelled {
				t.Errorf("%s: events %+v", scheduler, all.Events)
			}
		}
	}
}

// A job that starts suspended gives its worker back too, to the short job for which it was suspended.
func TestASuspendedJobStartsOnAClusterWithOneWorker(t *testing.T) {
	first, long, short := timed("first", 2), timed("long", 9), timed("short", 1)
	long.Long = true
	done, _, err := clusteredBy(t.Context(), harness.Options{Node: "sim:1x2xV100", Seed: 1, Workers: 1}, "latency/case-alg3", nil, first, long, short)
	if err != nil || !done[2].EndedOK() || *done[1].EndS < *done[2].EndS {
		t.Errorf("%+v, %v", done, err)
	}
}

// Jobs that wait leave a crowded node for another. They start there, and their time at the first node counts as waiting. Jobs that have
// started stay, and so do those that wait where fewer wait.
func TestOffloadOnACluster(t *testing.T) {
	var jobs []mixes.Job
	for i := range 8 {
		seconds := [2]float64{1, 0.1}[i%2] // they go to the two nodes by turns
		jobs = append(jobs, timed(fmt.Sprint("job", i), seconds))
	}
	var ends [2]float64
	for i, head := range []string{"cluster-rr", "cluster-rr+offload:threshold=1"} {
		done, rec, err := clusteredBy(t.Context(), harness.Options{Node: "sim:2x1xV100", Seed: 1, Workers: 1}, head+"/case-alg3", nil, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		moved := map[int]bool{}
		for _, e := range rec.Events {
			if e.Kind != results.EventOffloaded || moved[*e.Job] {
				t.Errorf("%+v", e)
			}
			moved[*e.Job] = true
		}
		if (len(moved) > 0) != (i == 1) {
			t.Errorf("%s: %d jobs have moved", head, len(moved))
		}
		for k, j := range done {
			if !j.EndedOK() || *j.ArrivalS != 0 || math.Abs(*j.WaitS-*j.StartS) > 1e-9 || (*j.Device != k%2) != moved[k] {
				t.Errorf("%s: %+v", head, j)
			}
			ends[i] = max(ends[i], *j.EndS)
		}
	}
	if ends[1] >= ends[0] {
		t.Errorf("with offloading it ends at %g s, without at %g s", ends[1], ends[0])
	}
}

// With --retry-lost what may be started again starts again elsewhere, or on the node once it is back, and counts its tries. Its tasks are
// those of all tries.
func TestLostJobsStartAgain(t *testing.T) {
	work := allocate("a", "1GiB") + kernel(1, 3, "") + free("a")
	again, once := ranks(t, "again", 1, work+work+work), ranks(t, "once", 1, work+work+work)
	again.Restartable, once.Restartable = new(true), new(false)
	both := ranks(t, "both", 2, host(4)+barrier)
	for at, want := range map[string]float64{"1@4s,repair=100s": 17.5, "1@4s,0@5s,repair=3s": 20.5} {
		done, rec, err := clusteredBy(t.Context(), harness.Options{Node: "sim:2x1xV100", Seed: 1, Failures: at, RetryLost: true}, "cluster-rr/case-alg3", nil, timed("first", 1), again, timed("third", 1), once, both)
		if err != nil {
			t.Fatal(err)
		}
		if j := done[1]; !j.EndedOK() || math.Abs(*j.EndS-want) > 0.1 || *j.Restarts < 1 || *j.ArrivalS != 0 {
			t.Errorf("%s: %+v ends at %g s after %d tries that were lost", at, j, *j.EndS, *j.Restarts)
		}
		if *done[3].Outcome != results.Lost || *done[4].Outcome != results.Lost || !done[0].EndedOK() || !done[2].EndedOK() {
			t.Errorf("%s: %+v", at, done)
		}
		seqs := map[int]bool{}
		for _, k := range rec.Tasks {
			if k.Job == 1 {
				seqs[k.Seq] = true
			}
		}
		if len(seqs) != *done[1].Restarts+3 {
			t.Errorf("%s: tasks %v after %d tries that were lost", at, seqs, *done[1].Restarts)
		}
		said := 0
		for _, e := range rec.Events {
			if e.Kind == results.EventRepeated && strings.HasPrefix(e.Detail, "job again is lost: node ") && strings.HasSuffix(e.Detail, " s of it are lost") {
				said++
			}
		}
		if said != *done[1].Restarts {
			t.Errorf("%s: events %+v", at, rec.Events)
		}
	}
}

// A node that is lost takes its own jobs along, wherever their other ranks are, and says which. Others go on, and it gets jobs again when it
// is back.
func TestNodesAreLost(t *testing.T) {
	both := ranks(t, "both", 2, only("0", host(9))+only("1", host(0.1))+barrier)
	ended := ranks(t, "ended", 2, only("0", host(9))+only("1", host(0.1)))
	waits, later := timed("waits", 1), timed("later", 1)
	later.At = 20 * time.Second
	jobs := []mixes.Job{timed("first", 5), timed("second", 5), both, ended, waits, waits, later, later}
	for _, at := range []string{"1@0s,repair=5s", "1@1s,repair=5s", "1@1s,repair=100s"} {
		done, rec, err := clusteredBy(t.Context(), harness.Options{Node: "sim:2x1xV100", Seed: 1, Workers: 3, Failures: at}, "cluster-rr/case-alg3", nil, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		var lost []string
		for i, j := range done {
			switch *j.Outcome {
			case results.OK:
			case results.Lost:
				lost = append(lost, runner.Title(i, j.Name))
				if j.Detail != "job "+j.Name+" is lost: node 1 is down" {
					t.Errorf("%s: %+v", at, j)
				}
			default:
				t.Errorf("%s: %s: %s: %s", at, j.Name, *j.Outcome, j.Detail)
			}
		}
		var said []string
		for _, e := range rec.Events {
			if e.Kind != results.EventUnscheduled {
				said = append(said, string(e.Kind)+": "+e.Detail)
			}
		}
		want := []string{"node-lost: node 1 is lost (simulated), and with it " + strings.Join(lost, ", "), "node-back: node 1 is back (simulated)"}
		if strings.Contains(at, "100s") {
			want = want[:1]
		}
		if at == "1@0s,repair=5s" { // nothing has arrived
			want[0] = "node-lost: node 1 is lost (simulated)"
		} else if got := strings.Join(lost, ", "); got != "job 1 (second), job 2 (both), job 3 (ended), job 5 (waits)" {
			t.Errorf("%s: lost %s", at, got)
		}
		if !slices.Equal(said, want) {
			t.Errorf("%s: events %q, want %q", at, said, want)
		}
		if of := rec.ranksOf(2); len(lost) > 0 && (*of[1].Outcome != results.Lost || of[0].Detail != "ended because its ranks on node 1 had not ended well" || of[1].Detail != "") {
			t.Errorf("%s: ranks %+v", at, of)
		}
		if onSecond := *done[6].Device == 1 || *done[7].Device == 1; onSecond == strings.Contains(at, "100s") {
			t.Errorf("%s: later jobs on the node that is back: %t", at, onSecond)
		}
	}
}

// A job of several devices goes to a node that has them, under each policy. One that no node can have is refused.
func TestJobsOfSeveralDevicesOnACluster(t *testing.T) {
	for _, head := range []string{"cluster-batch", "cluster-rr", "coloc", "latency+offload"} {
		for _, scheduler := range []string{"sa", "case-alg3", "vgpu:n=2"} {
			one, two, four := timed("one", 1), timed("two", 1), timed("four", 1)
			for n, j := range map[int]*mixes.Job{2: &two, 4: &four} {
				j.GPUs, j.Binding = n, mixes.BindDeclared
			}
			done, _, err := clustered(t.Context(), "sim:2x1xV100:1x2xV100", head+"/"+scheduler, 1, one, two, four, two)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []results.Outcome{results.OK, results.OK, results.Refused, results.OK} {
				if j := done[i]; *j.Outcome != want || want == results.OK && i > 0 && (j.Devices == nil || *j.Devices != "2,3") {
					t.Errorf("%s/%s: %+v", head, scheduler, j)
				}
			}
			if want := "job four needs 4 devices of one node, and no node has more than 2"; done[2].Detail != want {
				t.Errorf("%s/%s: %q", head, scheduler, done[2].Detail)
			}
		}
	}
}

// A companion runs until the last other job of its group has ended, on whatever node. One that starts later is ended then.
func TestCompanionsOnACluster(t *testing.T) {
	for _, scheduler := range []string{"cluster-rr/sa", "cluster-batch/case-alg3", "coloc/vgpu:n=2", "latency/demand"} {
		companion, last := timed("companion", 1000), timed("last", 3)
		companion.UntilOthersEnd = true
		next := timed("next", 1)
		next.Group = 1
		jobs := []mixes.Job{companion, timed("first", 1), last, companion, next}
		done, _, err := clustered(t.Context(), "sim:3x1xV100", scheduler, 1, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		for i, j := range done {
			if !j.EndedOK() || j.EndedWithOthers() != jobs[i].UntilOthersEnd {
				t.Errorf("%s: %+v", scheduler, j)
			}
		}
		if end := *done[2].EndS; *done[0].EndS != end || *done[3].EndS < end || *done[4].StartS < *done[3].EndS {
			t.Errorf("%s: companions end at %g s and %g s, the others at %g s, and the next group starts at %g s", scheduler, *done[0].EndS, *done[3].EndS, end, *done[4].StartS)
		}
	}
}

// A job that its node refuses makes room for the next at once.
func TestARefusedJobMakesRoomOnACluster(t *testing.T) {
	refused := timed("refused", 2)
	refused.Binding, refused.Footprint.Bytes = mixes.BindDeclared, 20<<30
	for _, scheduler := range []string{"cluster-batch/case-alg3", "coloc/case-alg3", "latency/vgpu:n=1", "coloc+offload/case-alg3"} {
		done, _, err := clustered(t.Context(), "sim:1x1xV100", scheduler, 1, timed("a", 2), refused, timed("c", 2))
		if err != nil || *done[1].Outcome != results.Refused || !done[2].EndedOK() || *done[2].StartS > *done[0].EndS {
			t.Errorf("%s: %+v, %v", scheduler, done, err)
		}
	}
}

// How long a job takes by chance does not depend on where it is, and is the same for all of its ranks.
func TestLengthsOnAClusterAreTheJobs(t *testing.T) {
	job := timed("drawn", 3)
	job.Profile.Exponential, job.Ranks = true, 4
	var want []string
	for _, node := range []string{"sim:1x4xV100", "sim:2x2xV100", "sim:4x1xV100"} {
		done, rec, err := clusteredBy(t.Context(), harness.Options{Node: node, Seed: 5}, "cluster-rr/case-alg3", nil, job, job, job)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range done {
			lengths := map[string]bool{}
			for _, k := range rec.Kernels {
				if k.Job == i {
					lengths[fmt.Sprintf("%.6f", k.BusyS)] = true
				}
			}
			got = append(got, strings.Join(slices.Sorted(maps.Keys(lengths)), " "))
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) || strings.Contains(got[0], " ") {
			t.Errorf("%s: kernels of %q s, want %q", node, got, want)
		}
	}
}
