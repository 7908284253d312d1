package placing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers/placement"
)

const (
	taskHeader = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
	nodeHeader = "sn,cpu_milli,memory_mib,gpu,model\n"
)

// run simulates a trace on a cluster.
func run(t *testing.T, tasks, nodes string, r Request) (table, series string, notes []string, err error) {
	t.Helper()
	dir := t.TempDir()
	r.Tasks, r.Nodes = filepath.Join(dir, "t.csv"), filepath.Join(dir, "n.csv")
	for path, text := range map[string]string{r.Tasks: taskHeader + tasks, r.Nodes: nodeHeader + nodes} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.Reps = max(r.Reps, 1)
	if r.ArrivalSpeed == 0 {
		r.ArrivalSpeed = 1
	}
	if r.Progress == nil {
		r.Progress = func(int64, int64) {}
	}
	if err := r.Validate(); err != nil {
		return "", "", nil, err
	}
	var texts [2]strings.Builder
	r.Say = func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	first, second, err := r.Run(t.Context())
	if err != nil {
		return "", "", nil, errors.New(strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	for i, made := range []*report.Table{first, second} {
		if err := made.Render(&texts[i], report.CSV, report.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return texts[0].String(), texts[1].String(), notes, nil
}

// One node with 2 GPUs: a takes both for 10 s. b and c wait; c is smaller and does not fit either. d, which never ran, is left
// out, and e asks for a model that is not there.
func TestReplayInTime(t *testing.T) {
	const tasks = `a,1000,1,2,1000,,,,0,10,0
b,1000,1,1,1000,,,,2,7,2
d,1000,1,1,1000,,,,3,7,
c,1000,1,1,500,,,,4,9,4
e,1000,1,1,500,V100,,,5,9,5
f,1000,1,0,0,,,,20,30,21
`
	table, series, notes, err := run(t, tasks, "n,2000,10,2,T4\n", Request{Policies: []string{"best-fit"}})
	if err != nil {
		t.Fatal(err)
	}
	// a: 0 to 10, b and c: 10 to 15; until 20, 2*10 + 1.5*5 of 2*20 GPU seconds. Waits: a 0, b 8, c 6, f 0.
	if want := "policy,mode,gpu_allocated,peak,gpu_unallocated,fragmented,never_placed,gpus_never_placed,waited,wait_mean_s,wait_p95_s,wait_p99_s\n" +
		"best-fit,sim,0.6875,1,0.3125,"; !strings.HasPrefix(table, want) || !strings.HasSuffix(table, ",1,0.5,2,3.5,8,8\n") {
		t.Errorf("%s", table)
	}
	if !strings.HasPrefix(series, "policy,mode,seed,time_s,gpu_allocated,fragmented,waiting,never_placed\nbest-fit,sim,0,0,1,0,0,0\nbest-fit,sim,0,2,1,0,1,0\n") {
		t.Errorf("%s", series)
	}
	if len(notes) != 1 || !strings.HasSuffix(notes[0], "t.csv: 1 task without scheduled_time, which never ran, left out") {
		t.Errorf("%q", notes)
	}
	// Ten times as fast a still ends at 10. f runs from 2 to 11, and its CPU is what c waits for.
	table, _, _, err = run(t, tasks, "n,2000,10,2,T4\n", Request{Policies: []string{"best-fit"}, ArrivalSpeed: 10})
	if err != nil || !strings.Contains(table, "\nbest-fit,sim,1,1,0,0,1,0.5,2,5.1,10.6,10.6\n") {
		t.Errorf("%v: %s", err, table)
	}
}

func TestOneMomentAndNothingThatFits(t *testing.T) {
	table, _, _, err := run(t, "a,1,1,1,500,,,,5,6,5\nb,1,1,1,1000,G3,,,5,9,5\n", "n,2000,10,1,T4\n", Request{Policies: []string{"fgd"}})
	if err != nil || !strings.Contains(table, "\nfgd,sim,0.5,0.5,0.5,") || !strings.HasSuffix(table, ",1,1,0,0,0,0\n") {
		t.Errorf("%v: %s", err, table)
	}
}

const (
	mixed = "a,1000,1,1,500,,,,0,1,0\nb,1000,1,1,1000,,,,0,1,0\nc,1000,1,0,0,,,,0,1,0\nd,1000,1,2,1000,,,,0,1,0\ne,1000,1,1,300,,,,0,1,0\n"
	three = "n,9000,10,4,T4\nm,9000,10,2,T4\no,9000,10,1,G2\n"
)

func TestInflation(t *testing.T) {
	r := Request{Inflate: "130%", Seed: 7, Reps: 3}
	table, series, _, err := run(t, mixed, three, r)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 1+len(placement.Policies()) || !strings.HasPrefix(lines[0], "policy,mode,repetitions,seed,gpu_allocated,least,most,gpu_unallocated,gpus_unallocated,fragmented,full_at,never_placed,gpus_never_placed") {
		t.Fatalf("%s", table)
	}
	again, more, _, err := run(t, mixed, three, r)
	if diff := cmp.Diff(table+series, again+more); err != nil || diff != "" {
		t.Errorf("the same seed, %v:\n%s", err, diff)
	}
	r.Seed = 8
	if other, _, _, _ := run(t, mixed, three, r); other == table {
		t.Error("another seed draws the same")
	}
	last := map[string]float64{}
	for _, line := range strings.Split(strings.TrimSpace(series), "\n")[1:] {
		var load, allocated float64
		f := strings.Split(line, ",")
		if _, err := fmt.Sscan(f[3]+" "+f[4], &load, &allocated); err != nil {
			t.Fatal(err)
		}
		key := f[0] + f[2]
		if allocated > min(load, 1)+1e-9 || allocated < last[key] {
			t.Errorf("%s: load %g, allocated %g, before %g: tasks stay", key, load, allocated, last[key])
		}
		last[key] = allocated
	}
	if len(last) != 3*len(placement.Policies()) {
		t.Errorf("%d series", len(last))
	}
}

// Each of these has one answer.
func TestRequestsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		Request
		tasks, nodes, want string
	}{
		{Request{Policies: []string{"fdg"}}, mixed, three, `--policies: unknown placement policy "fdg": did you mean fgd?`},
		{Request{Policies: []string{"fgd", "fgd"}}, mixed, three, "--policies: fgd is named twice"},
		{Request{Inflate: "130"}, mixed, three, `--inflate "130": want what tasks ask for at the end, as a percentage of all GPUs up to 1000%, such as 130%`},
		{Request{Inflate: "0%"}, mixed, three, `--inflate "0%"`},
		{Request{Inflate: "1001%"}, mixed, three, `--inflate "1001%"`},
		{Request{Reps: 2}, mixed, three, "--reps requires --inflate"},
		{Request{ArrivalSpeed: -1}, mixed, three, "--arrival-speed -1: want a number above 0"},
		{Request{ArrivalSpeed: math.Inf(1)}, mixed, three, "--arrival-speed +Inf"},
		{Request{}, mixed, "n,1,1,0,\n", "n.csv: no node has a GPU: column gpu is their number"},
		{Request{Inflate: "1%"}, "a,1,1,0,0,,,,0,1,0\n", three, "t.csv: no task asks for a GPU, and --inflate needs one"},
		{Request{}, "a,1,1,1,1,,,,0,1,\n", three, "t.csv: no task has a scheduled_time: simulate its tasks with --inflate 130%"},
		{Request{}, "a,1e12,1,1,1,,,,0,1,0\n", "n,1e12,1,17,\n", `n.csv:2: bad gpu "17"`},
	} {
		if _, _, _, err := run(t, c.tasks, c.nodes, c.Request); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %s", c.Request, err, c.want)
		}
	}
}

func TestAStoppedSimulation(t *testing.T) {
	dir := t.TempDir()
	r := Request{Tasks: filepath.Join(dir, "t"), Nodes: filepath.Join(dir, "n"), ArrivalSpeed: 1, Reps: 1}
	for path, text := range map[string]string{r.Tasks: taskHeader + mixed, r.Nodes: nodeHeader + three} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	r.Progress = func(done, all int64) {
		if done == 3 {
			cancel(stopped)
		}
	}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	var refused *harness.RequestError
	if _, _, err := r.Run(ctx); !errors.Is(err, stopped) || errors.As(err, &refused) {
		t.Errorf("stopped: %v", err)
	}
	r.Nodes = filepath.Join(dir, "nowhere")
	if _, _, err := r.Run(t.Context()); !errors.As(err, &refused) {
		t.Errorf("no such file: %v", err)
	}
}
