package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// A policy in sh: it gives everybody device 0, but does what last says in place of its answer to
// question number at.
func shellPolicy(at int, last string) string {
	return fmt.Sprintf(`#!/bin/sh
read hello
echo '{"id":0,"protocol":1,"promises":[]}'
while read question; do
  id=${question#*:} id=${id%%%%,*}
  [ "$id" -ge %d ] && %s
  echo "{\"id\":$id,\"device\":0}"
done
exit 0
`, at, last)
}

// A policy that lets all tasks wait has its jobs refused. The run says whose doing that is, and so does one of a policy that
// contradicts itself.
func TestAPolicyThatLetsJobsWait(t *testing.T) {
	inTempDir(t)
	const wait = `{ echo "{\"id\":$id,\"device\":null}"; continue; }`
	for i, c := range []struct {
		at, status int
		says       string
	}{
		{0, exitNothing, `policy ./p.sh: of 6 questions where a task may go it answered 6 with null, which is to wait; its last answer was "{\"id\":6,\"device\":null}"; a task that must wait on the empty node is refused`},
		{2, exitInfrastructure, `policy ./p.sh: of 2 questions where a task may go it answered 1 with null, which is to wait; its last answer was "{\"id\":2,\"device\":null}"; requests that wait although nothing is on the node`},
	} {
		writeFiles(t, map[string]string{"p.sh": shellPolicy(c.at, wait), "two.wl": "backprop 8388608\nbackprop 8388608\n"})
		status, _, errs := caserun(t, "mix", "two.wl", "--node", "sim:1xV100", "--sched", "exec:./p.sh")
		_, report, _ := caserun(t, "report", fmt.Sprint(i+1), "-v")
		if status != c.status || !strings.Contains(errs, c.says) || !strings.Contains(strings.Join(strings.Fields(report), " "), c.says) {
			t.Errorf("exit %d, want %d and %s:\n%s%s", status, c.status, c.says, errs, report)
		}
	}
}

// never is beyond the number of any question.
const never = 1 << 30

// A policy that fails ends a simulated run with what it said. The records of the run stay.
func TestAPolicyThatFailsInterruptsTheRun(t *testing.T) {
	inTempDir(t)
	for i, c := range []struct{ at, sched, says string }{
		{`{ echo '{"id":9,"devise":1}'; read more; }`, "exec:./p.sh", `its answer "{\"id\":9,\"devise\":1}" is not valid: json: unknown field "devise"; it had answered 8 questions, the last with "{\"id\":8,\"device\":0}"; it wrote nothing to stderr`},
		{`{ echo too hard >&2; exit 9; }`, "exec:./p.sh", `it gave no answer and ended (exit status 9); it had answered 8 questions, the last with "{\"id\":8,\"device\":0}"; its stderr: "too hard"`},
		{`sleep 100`, "exec:./p.sh,timeout=1s", `it gave no answer within 1s`},
	} {
		writeFiles(t, map[string]string{"p.sh": shellPolicy(9, c.at)})
		status, out, errs := caserun(t, "mix", "W1", "--node", "sim:4xV100", "--sched", c.sched)
		if want := fmt.Sprintf("run %d is interrupted: scheduler: policy ./p.sh: asked to place task ", i+1); status != exitInfrastructure ||
			!strings.Contains(errs, want) || !strings.Contains(errs, c.says) || !strings.Contains(out, "interrupted") {
			t.Errorf("exit %d, want %s%s:\n%s%s", status, want, c.says, out, errs)
		}
		run, jobs, events := stored(t, int64(i+1))
		if run.Status != results.Interrupted || !has(events, results.EventCancelled, c.says) {
			t.Errorf("the run is %s: %+v", run.Status, events)
		}
		tasks := 0
		for _, k := range storedTasks(t, run.ID) {
			if k.GrantS != nil {
				tasks++
			}
			if k.Refusal != nil {
				t.Errorf("task of job %d was refused: %s", k.Job, *k.Refusal)
			}
		}
		if tasks == 0 || len(jobs) != run.Jobs {
			t.Errorf("%d tasks have a device, %d jobs", tasks, len(jobs))
		}
		for _, j := range jobs {
			if o := *j.Outcome; o != results.Cancelled && (o != results.OK || *j.EndS >= *run.Metrics.MakespanS) {
				t.Errorf("job %d: %s at %g s", j.Index, o, *j.EndS)
			}
		}
	}
}

// The run of a policy that fails at its greeting is stored too, and no job of it starts.
func TestAPolicyThatFailsAtItsGreeting(t *testing.T) {
	inTempDir(t)
	for i, says := range []string{"exit 9", `read hello; echo '{"id":0,"Protocol":1}'; read more`} {
		writeFiles(t, map[string]string{"p.sh": "#!/bin/sh\n" + says + "\n"})
		status, out, errs := caserun(t, "mix", "W1", "--node", "sim:4xV100", "--sched", "exec:./p.sh")
		if want := fmt.Sprintf("run %d is interrupted: scheduler: policy ./p.sh: asked to greet: ", i+1); status != exitInfrastructure || !strings.Contains(errs, want) {
			t.Errorf("exit %d, want %s:\n%s%s", status, want, out, errs)
		}
		run, jobs, events := stored(t, int64(i+1))
		if run.Status != results.Interrupted || !has(events, results.EventCancelled, "asked to greet") {
			t.Errorf("the run is %s: %+v", run.Status, events)
		}
		for _, j := range jobs {
			if *j.Outcome != results.Cancelled || j.StartS != nil {
				t.Errorf("job %d: %s", j.Index, *j.Outcome)
			}
		}
	}
}

// A policy that fails leaves the sweep's runs of other schedulers.
func TestAPolicyThatFailsLeavesTheOtherRuns(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"p.sh": shellPolicy(9, "exit 9")})
	status, out, errs := caserun(t, "sweep", "--mixes", "W1", "--scheds", "exec:p.sh,sa,case-alg3", "--node", "sim:4xV100", "--reps", "1")
	if status != exitInfrastructure || !strings.Contains(errs, "sweep 1 stopped with 2 of 3 runs done") ||
		!strings.Contains(errs, "runs whose scheduler failed are not done, and fail again as long as the program is the same: run ") {
		t.Errorf("exit %d:\n%s%s", status, out, errs)
	}
}

// A policy that fails after its last answer has not decided well either.
func TestAPolicyMustEndWell(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"p.sh": strings.Replace(shellPolicy(never, "true"), "exit 0", "exit 4", 1), "m.yaml": "jobs: [needle-16384]\n"})
	status, _, errs := caserun(t, "mix", "m.yaml", "--node", "sim:1xV100", "--sched", "exec:p.sh")
	if want := "run 1 is interrupted: policy p.sh: it ended with an error after its last answer (exit status 4)"; status != exitInfrastructure || !strings.Contains(errs, want) {
		t.Errorf("exit %d:\n%s", status, errs)
	}
}

// On real devices the jobs that run are stopped, those that wait too, and the policy's process ends.
func TestAPolicyThatFailsStopsLiveJobs(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	dir := fakeNode(t, "", "")
	writeFiles(t, map[string]string{
		"p.sh": shellPolicy(5, `{ echo $$ >pid; echo lost >&2; echo no; read more; }`),
		"m.yaml": fmt.Sprintf(`jobs:
- program: %[1]s
  args: begin:1000 sleep:100000 free
- program: %[1]s
  args: begin:2000 sleep:100000 free
- program: %[1]s
  args: begin:3000 sleep:100000 free
`, program)})
	status, text := finish(t, onFakes(dir, library, nil, "mix", "m.yaml", "--no-mps", "--devices", "0", "--workers", "3", "--sched", "exec:./p.sh"))
	if status != exitInfrastructure || !strings.Contains(text, `its answer "no" is not valid`) || !strings.Contains(text, `its stderr: "lost"`) {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	run, jobs, events := stored(t, 1)
	if run.Status != results.Interrupted || !has(events, results.EventCancelled, `its answer "no" is not valid`) {
		t.Errorf("the run is %s: %+v", run.Status, events)
	}
	for _, j := range jobs {
		if *j.Outcome != results.Cancelled || j.StartS == nil || j.EndS == nil {
			t.Errorf("job %d: %+v", j.Index, j)
		}
	}
	pid, err := os.ReadFile("pid")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join("/proc", strings.TrimSpace(string(pid)))); err == nil {
		t.Errorf("the policy's process %s still runs", pid)
	}
}

// A program decides for live jobs as it does for simulated ones.
func TestAPolicyDecidesForLiveJobs(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	dir := fakeNode(t, "", "")
	writeFiles(t, map[string]string{
		"p.sh":   strings.Replace(shellPolicy(never, "true"), `device\":0`, `device\":1`, 1),
		"m.yaml": fmt.Sprintf("jobs:\n- program: %s\n  args: begin:1000 grow:500 free begin:70 free\n", program)})
	status, text := finish(t, onFakes(dir, library, nil, "mix", "m.yaml", "--no-mps", "--devices", "0,3", "--sched", "exec:./p.sh,queue=mmu"))
	if status != exitOK {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	run, _, _ := stored(t, 1)
	if run.Scheduler != "exec" || !strings.Contains(run.Parameters, "path=p.sh,queue=mmu,sha256=") {
		t.Errorf("the run's scheduler: %s:%s", run.Scheduler, run.Parameters)
	}
	tasks := storedTasks(t, 1)
	for _, k := range tasks {
		if k.Device == nil || *k.Device != 1 {
			t.Errorf("task %+v", k)
		}
	}
	if len(tasks) != 2 || tasks[0].GrownBytes != 500 {
		t.Errorf("tasks %+v", tasks)
	}
}

// Files that cannot decide are wrong usage, and leave no run.
func TestPoliciesThatCannotStart(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"ok.sh": shellPolicy(never, "true")})
	if err := os.WriteFile("plain.py", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for sched, want := range map[string]string{
		"exec":                             "--sched: scheduler exec: which program?",
		"exec:none.py":                     "policy none.py: no such file",
		"exec:./plain.py":                  "policy ./plain.py: it is not executable",
		"exec:./ok.sh,sha256=000000000000": "sha256=000000000000 was asked for",
		"exec:./a,b.py":                    "a path cannot have a comma",
		"exec:bin/plan":                    "head of the cluster: policy bin: no such file or directory; if all of bin/plan is a program for one node, write path= before it",
		"exec:./ok.sh/sa":                  "gives jobs to the nodes of a cluster, and sim:1xV100 is one node",
		"cluster-rr/exec:./ok.sh":          "gives jobs to the nodes of a cluster, and sim:1xV100 is one node",
	} {
		if status, _, errs := caserun(t, "mix", "W1", "--node", "sim:1xV100", "--sched", sched); status != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, want %s:\n%s", sched, status, want, errs)
		}
	}
	s, err := store.OpenReadOnly("caserun.db")
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if runs, err := s.Runs(t.Context(), store.Filter{}); err != nil || len(runs) > 0 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// A sweep keeps to the program that it was planned with. Another content is another arm.
func TestASweepKeepsItsPolicy(t *testing.T) {
	inTempDir(t)
	first, second := shellPolicy(never, "true"), shellPolicy(never, "false")
	writeFiles(t, map[string]string{"conf/p.sh": first, "conf/m.yaml": "jobs: [needle-16384]\n",
		"conf/s.yaml": "mixes: [m.yaml]\nscheds: [sa, 'exec:./p.sh,queue=fifo']\nnode: sim:1xV100\nreps: 1\n"})
	if status, _, errs := caserun(t, "sweep", "conf/s.yaml", "--sim-noise", "0.01"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	writeFiles(t, map[string]string{"conf/p.sh": second})
	if status, _, errs := caserun(t, "sweep", "--resume", "1", "--reps", "2"); status != exitUsage || !strings.Contains(errs, "resume sweep 1: policy conf/p.sh: the sha256 of its content begins with") {
		t.Errorf("exit %d: %s", status, errs)
	}
	writeFiles(t, map[string]string{"conf/p.sh": first})
	if status, _, errs := caserun(t, "sweep", "--resume", "1", "--scheds", "sa,exec:conf/other.sh", "--reps", "2"); status != exitUsage || !strings.Contains(errs, "was planned with --scheds") {
		t.Errorf("exit %d: %s", status, errs)
	}
	if status, out, errs := caserun(t, "sweep", "--resume", "1", "--scheds", "sa,exec:path=conf/p.sh,queue=fifo", "--reps", "2"); status != exitOK || !strings.Contains(out, "  2   2  ") {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
	writeFiles(t, map[string]string{"conf/p.sh": second})
	if status, _, errs := caserun(t, "sweep", "conf/s.yaml", "--tag", "second"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	runs, err := s.Runs(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	arms := map[string]int{}
	for _, r := range runs {
		if r.Status != results.Complete {
			t.Errorf("run %d is %s", r.ID, r.Status)
		}
		if r.Scheduler == "exec" {
			arms[results.ArmOf(r).Parameters]++
		}
	}
	if len(arms) != 2 || len(runs) != 6 {
		t.Errorf("%d runs of the arms %v, want two versions of the policy", len(runs), arms)
	}
	for line, want := range map[string]string{
		"compare sweep:1 sweep:2": "m under exec:sha256=",
		"compare 2 6":             "parameters of exec differ",
	} {
		if status, out, errs := caserun(t, strings.Fields(line)...); status != exitOK || !strings.Contains(out, want) {
			t.Errorf("caserun %s: exit %d: %s%s", line, status, out, errs)
		}
	}
}

// A program that changes while its sweep runs stops the sweep at its next run.
func TestAPolicyThatChangesStopsItsSweep(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"p.sh": strings.Replace(shellPolicy(never, "true"), "exit 0", "echo '# more' >>p.sh; exit 0", 1), "m.yaml": "jobs: [needle-16384]\n"})
	status, _, errs := caserun(t, "sweep", "--mixes", "m.yaml", "--scheds", "exec:./p.sh", "--node", "sim:1xV100", "--reps", "3", "--sim-noise", "0.01")
	if status != exitUsage || !strings.Contains(errs, "sweep 1 stopped with 1 of 3 runs done") || !strings.Contains(errs, "the sha256 of its content begins with") {
		t.Errorf("exit %d: %s", status, errs)
	}
}

// A head in sh: it gives each job whole to node 1, but does what last says in place of its answer to question number at.
func shellHead(at int, last string) string {
	head := strings.Replace(shellPolicy(at, last), `\"device\":0`, `\"shares\":[{\"node\":1,\"ranks\":${ranks%%,*}}]`, 1)
	head = strings.Replace(head, "do\n", "do\n  ranks=${question#*'\"ranks\":'}\n", 1)
	return strings.Replace(head, `,"promises":[]`, "", 1)
}

// A program decides for a cluster, and its record says which.
func TestAProgramDecidesForACluster(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"conf/h.sh": shellHead(never, "true"), "conf/m.yaml": "jobs:\n- needle-16384\n- needle-16384\n",
		"conf/s.yaml": "mixes: [m.yaml]\nscheds: ['exec:./h.sh,timeout=9s/case-alg3', cluster-rr/case-alg3]\nnode: sim:2x1xV100\nreps: 1\n"})
	if status, _, errs := caserun(t, "sweep", "conf/s.yaml"); status != exitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	for i, want := range [][]int{{1, 1}, {0, 1}} {
		run, jobs, _ := stored(t, int64(i+1))
		if *jobs[0].Device != want[0] || *jobs[1].Device != want[1] || (i == 0) != strings.HasPrefix(run.Scheduler, "exec:h.sh,sha256=") {
			t.Errorf("%s: jobs on %d and %d", run.Scheduler, *jobs[0].Device, *jobs[1].Device)
		}
	}
	writeFiles(t, map[string]string{"conf/h.sh": shellHead(never, "false")})
	if status, _, errs := caserun(t, "sweep", "--resume", "1", "--reps", "2"); status != exitUsage || !strings.Contains(errs, "policy conf/h.sh: the sha256 of its content begins with") {
		t.Errorf("exit %d: %s", status, errs)
	}
}

// A head that fails ends the run as a policy of one node does: before nodes have jobs, and when they have.
func TestAHeadThatFailsInterruptsTheRun(t *testing.T) {
	inTempDir(t)
	for i, c := range []struct {
		at         int
		last, says string
	}{
		{9, `{ echo too hard >&2; exit 9; }`, `assign job 8 (backprop-33554432): it gave no answer and ended (exit status 9); it had answered 8 questions`},
		{9, `{ echo '{"id":9,"shares":[{"node":2,"ranks":1}]}'; read more; }`, "is not valid: node 2: the cluster has nodes 0 to 1"},
		{9, `{ echo '{"id":9,"shares":[{"node":1,"ranks":2}]}'; read more; }`, "is not valid: 2 ranks for node 1: want 1 to 1"},
		{9, `sleep 100`, "it gave no answer within 1s"},
		{never, "exit 9", "greet: it gave no answer and ended"},
	} {
		text := shellHead(c.at, c.last)
		if c.at == never {
			text = "#!/bin/sh\nexit 9\n"
		}
		writeFiles(t, map[string]string{"h.sh": text})
		status, out, errs := caserun(t, "mix", "W1", "--node", "sim:2x2xV100", "--sched", "exec:./h.sh/case-alg3")
		if want := fmt.Sprintf("run %d is interrupted: scheduler: policy ./h.sh: asked to ", i+1); status != exitInfrastructure || !strings.Contains(errs, want) || !strings.Contains(errs, c.says) {
			t.Errorf("exit %d, want %s%s:\n%s%s", status, want, c.says, out, errs)
		}
		run, jobs, events := stored(t, int64(i+1))
		if run.Status != results.Interrupted || len(events) != 2 || !has(events, results.EventCancelled, c.says) {
			t.Errorf("the run is %s: %+v", run.Status, events)
		}
		for _, j := range jobs {
			if *j.Outcome != results.Cancelled {
				t.Errorf("job %d: %s", j.Index, *j.Outcome)
			}
		}
	}
}

// A head that lets all jobs wait has them refused, and so has a program on a node. The run says whose doing that is.
func TestAHeadThatLetsJobsWait(t *testing.T) {
	inTempDir(t)
	writeFiles(t, map[string]string{"h.sh": shellHead(0, `{ echo "{\"id\":$id,\"shares\":[]}"; continue; }`), "two.wl": "backprop 8388608\nbackprop 8388608\n"})
	status, out, errs := caserun(t, "mix", "two.wl", "--node", "sim:2x1xV100", "--sched", "exec:./h.sh/case-alg3")
	says := `policy ./h.sh: of 2 questions which nodes a job gets it answered 2 with no shares, which is to wait; its last answer was "{\"id\":2,\"shares\":[]}"; a job that must wait although nothing runs on the cluster is refused`
	if status != exitNothing || !strings.Contains(errs, says) || !strings.Contains(out, "gives job backprop-8388608 no nodes") {
		t.Errorf("exit %d:\n%s%s", status, out, errs)
	}
	writeFiles(t, map[string]string{"p.sh": shellPolicy(0, `{ echo "{\"id\":$id,\"device\":null}"; continue; }`)})
	status, out, errs = caserun(t, "mix", "two.wl", "--node", "sim:2x1xV100", "--sched", "cluster-rr/exec:./p.sh")
	says = `policy ./p.sh: of 3 questions where a task may go it answered 3 with null, which is to wait; its last answer was "{\"id\":3,\"device\":null}"; a task that must wait on the empty node is refused`
	if _, _, events := stored(t, 2); status != exitNothing || strings.Count(errs, says) != 1 || !has(events, results.EventHint, says) {
		t.Errorf("exit %d:\n%s%s", status, out, errs)
	}
}

// Each node of a cluster has a program of its own. If one fails, the jobs of all nodes are stopped, and it is said once.
func TestAPolicyOfANodeThatFails(t *testing.T) {
	inTempDir(t)
	for i, c := range []struct{ text, says string }{
		{shellPolicy(5, `{ echo oh >&2; exit 9; }`), `asked to place task 2 of job 1: it gave no answer and ended (exit status 9); it had answered 4 questions`},
		{"#!/bin/sh\nexit 9\n", "asked to greet: it gave no answer and ended (exit status 9); it wrote nothing to stderr"},
		{strings.Replace(shellPolicy(never, "true"), "exit 0", "exit 4", 1), "it ended with an error after its last answer (exit status 4)"},
	} {
		writeFiles(t, map[string]string{"p.sh": strings.Replace(c.text, "\n", "\necho started >>log\n", 1)})
		status, out, errs := caserun(t, "mix", "W1", "--node", "sim:3x1xV100", "--sched", "cluster-rr/exec:./p.sh")
		if status != exitInfrastructure || strings.Count(errs, c.says) != 1 || !strings.Contains(errs, fmt.Sprintf("run %d is interrupted: ", i+1)) {
			t.Errorf("exit %d, want %s:\n%s%s", status, c.says, out, errs)
		}
		run, jobs, events := stored(t, int64(i+1))
		cancelled := 0
		for _, e := range events {
			if e.Kind == results.EventCancelled {
				cancelled++
			}
		}
		if run.Status != results.Interrupted || cancelled != 1 && i < 2 {
			t.Errorf("the run is %s: %+v", run.Status, events)
		}
		for _, j := range jobs {
			if *j.Outcome != results.Cancelled && i < 2 {
				t.Errorf("job %d: %s", j.Index, *j.Outcome)
			}
		}
		if log, err := os.ReadFile("log"); err != nil || strings.Count(string(log), "started") != 3*(i+1) {
			t.Errorf("the programs of three nodes are started so often: %s%v", log, err)
		}
	}
}
