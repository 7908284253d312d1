package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/member"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/remote"
)

func openStore(t *testing.T) *store.Store {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// request is a run of jobs.
func request(t *testing.T, db *store.Store, node, sched string, jobs ...mixes.Job) harness.Request {
	t.Helper()
	m := mixes.Mix{Name: "own", Source: "own.yaml", Jobs: jobs}
	o := harness.Options{Node: node, Runs: t.TempDir()}
	known, err := nodes.Know(t.Context(), o, &m, profiles.Catalog(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return harness.Request{Configuration: harness.Configuration{Options: o, Sched: sched, Probe: results.Lazy}, Mix: m, Profiles: known, Store: db, Say: func(string, ...any) {}}
}

// rows are the jobs, tasks and swaps of a run as lines, with other numbers of jobs and devices.
func rows(t *testing.T, db *store.Store, run int64, job, device func(int) int) (lines []string) {
	t.Helper()
	line := func(kind string, row any) {
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, kind+string(text))
	}
	jobs, err := db.Jobs(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		j.Index, j.Device = job(j.Index), new(device(*j.Device))
		line("job", j)
	}
	tasks, err := db.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range tasks {
		k.Job, k.Device = job(k.Job), new(device(*k.Device))
		line("task", k)
	}
	swaps, err := db.Swaps(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range swaps {
		s.Job, s.Device = job(s.Job), device(s.Device)
		if s.ForJob != nil {
			s.ForJob = new(job(*s.ForJob))
		}
		line("swap", s)
	}
	return lines
}

func same(i int) int { return i }

// The store of a batch over nodes has what these nodes would record alone.
func TestABatchOverNodesIsItsNodes(t *testing.T) {
	const count, devices = 3, 2
	w1, err := mixes.Lookup("W1")
	if err != nil {
		t.Fatal(err)
	}
	for _, sched := range []string{"sa", "case-alg3", "vgpu:n=2", "schedgpu"} {
		t.Run(sched, func(t *testing.T) {
			t.Parallel()
			db := openStore(t)
			r := request(t, db, "n", "cluster-rr/"+sched, w1.Jobs...)
			serve := func(in io.Reader, out io.WriteCloser) {
				if err := member.Serve(t.Context(), in, out); err != nil {
					t.Error(err)
				}
			}
			backend, err := remote.OpenOver(t.Context(), r.Options, r.Say, "sim:2xP100", slices.Repeat([]func(io.Reader, io.WriteCloser){serve}, count)...)
			if err != nil {
				t.Fatal(err)
			}
			o, err := harness.Execute(t.Context(), backend, r)
			if err != nil || o.Run.Status != results.Complete {
				t.Fatalf("%s: %v", o.Run.Status, err)
			}
			if err := backend.Close(); err != nil {
				t.Error(err)
			}
			was := rows(t, db, o.Run.ID, same, same)
			var want []string
			for i := range count {
				var own []mixes.Job
				for j := i; j < len(w1.Jobs); j += count {
					own = append(own, w1.Jobs[j])
				}
				var s nodes.Session
				alone, err := s.Run(t.Context(), request(t, db, "sim:2xP100", sched, own...))
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, rows(t, db, alone.Run.ID, func(j int) int { return i + j*count }, func(d int) int { return i*devices + d })...)
			}
			slices.Sort(was)
			slices.Sort(want)
			if !slices.Equal(was, want) {
				t.Errorf("%s\nwant\n%s", strings.Join(was, "\n"), strings.Join(want, "\n"))
			}
			found, err := db.Devices(t.Context(), o.Run.ID)
			if err != nil || len(found) != count*devices || found[5].Node != 2 {
				t.Errorf("devices %+v (%v)", found, err)
			}
		})
	}
}

// The tests that play nodes have the clock of package synctest, so that their sleeps take no time and have no chance in them.

// scripted is a node that a test plays.
type scripted struct {
	from *remote.Reader[remote.ToNode]
	to   *remote.Writer

	mu   sync.Mutex
	deaf bool // it says nothing
}

// play is a node with one GPU, whose jobs start and never end unless jobs says otherwise.
func play(t *testing.T, jobs func(s *scripted, number int)) func(io.Reader, io.WriteCloser) {
	return func(in io.Reader, out io.WriteCloser) {
		s := &scripted{from: remote.NewReader[remote.ToNode](in), to: remote.NewWriter(out)}
		_, revision := harness.Version()
		given := 0
		for {
			said, err := s.from.Next()
			if err != nil {
				s.to.Close()
				return
			}
			switch {
			case said.Open != nil:
				if said.Open.Version != revision || said.Open.Protocol != remote.Protocol {
					t.Errorf("%+v", said.Open)
				}
				s.say(remote.FromNode{Opened: &remote.Opened{Mode: results.Live, Machine: fmt.Sprintf("%p", s), Devices: 1, Threads: 4, GPUs: []string{"G"}}})
			case said.Prepare != nil:
				run := results.Run{StartedAt: new(time.Now())}
				s.say(remote.FromNode{Prepared: &remote.Prepared{Devices: []results.Device{{UUID: fmt.Sprintf("GPU-%p", s), Name: "G", MemoryBytes: 1 << 30, CapacityBytes: 1 << 30, SMs: 10}}, Run: run}})
			case said.Ping != nil:
				s.say(remote.FromNode{Pong: &remote.Pong{Ping: *said.Ping, Ns: *said.Ping + int64(time.Hour)}})
			case said.Begin != nil:
				if zero := time.Duration(said.Begin.Zero); zero < time.Hour || zero > time.Hour+time.Second {
					t.Errorf("the batch arrives at %v of the node's clock", zero)
				}
			case said.Given != nil:
				s.say(remote.FromNode{Job: &results.Job{Index: given, Name: said.Given.Job.Name, ArrivalS: new(0.0), StartS: new(0.0), WaitS: new(0.0), Device: new(0)}})
				jobs(s, given)
				given++
			case said.Cancel != "":
				for job := range given {
					s.say(remote.FromNode{Job: &results.Job{Index: job, ArrivalS: new(0.0), Outcome: new(results.Cancelled), Detail: said.Cancel}})
				}
			case said.NoMore:
				s.say(remote.FromNode{Ended: &remote.Failure{}})
			case said.Close:
				s.say(remote.FromNode{Closed: &remote.Closed{}})
			}
		}
	}
}

func (s *scripted) say(what remote.FromNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.deaf {
		s.to.Say(what)
	}
}

// ok ends a job well.
func (s *scripted) ok(job int) {
	s.say(remote.FromNode{Job: &results.Job{Index: job, ArrivalS: new(0.0), StartS: new(0.0), EndS: new(1.0), WaitS: new(0.0), Device: new(0), ExitStatus: new(0), Outcome: new(results.OK)}})
}

// goes has nothing said for some time.
func (s *scripted) goes(silent time.Duration) {
	s.mu.Lock()
	s.deaf = true
	s.mu.Unlock()
	time.Sleep(silent)
	s.mu.Lock()
	s.deaf = false
	s.mu.Unlock()
}

// keeper keeps what a run records.
type keeper struct {
	runner.Forgetful
	mu     sync.Mutex
	jobs   map[int]results.Job
	events []results.Event
}

func (k *keeper) Job(j results.Job) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.jobs[j.Index] = j
}

func (k *keeper) Event(e results.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

func (*keeper) Copy(results.Copy) {}

func (k *keeper) String() (text string) {
	for i := range len(k.jobs) {
		j := k.jobs[i]
		text += fmt.Sprintf("%d %s %s\n", i, *j.Outcome, j.Detail)
	}
	for _, e := range k.events {
		text += fmt.Sprintf("%s %s\n", e.Kind, e.Detail)
	}
	return text
}

// retrying is over with --retry-lost, of jobs that may be started again.
func retrying(t *testing.T, nodes ...func(io.Reader, io.WriteCloser)) (*keeper, error) {
	t.Helper()
	return overAs(t, t.Context(), true, nodes...)
}

// over runs four jobs on nodes that are played, under cluster-rr.
func over(t *testing.T, ctx context.Context, nodes ...func(io.Reader, io.WriteCloser)) (*keeper, error) {
	t.Helper()
	return overAs(t, ctx, false, nodes...)
}

func overAs(t *testing.T, ctx context.Context, retry bool, nodes ...func(io.Reader, io.WriteCloser)) (*keeper, error) {
	t.Helper()
	r := request(t, nil, "n", "cluster-rr/case-alg3", slices.Repeat([]mixes.Job{{Name: "job", Program: "/bin/true", Restartable: &retry}}, 4)...)
	r.RetryLost = retry
	backend, err := remote.OpenOver(ctx, r.Options, r.Say, "local", nodes...)
	if err != nil {
		return nil, err
	}
	defer backend.Close()
	b := harness.Batch{Request: r}
	if b.Scheduler, b.Workers, err = r.Scheduler(1, 4); err != nil {
		t.Fatal(err)
	}
	kept := &keeper{jobs: map[int]results.Job{}}
	node, err := backend.Open(ctx, b, kept)
	if err != nil {
		return kept, err
	}
	_, err = node.Execute(ctx, 1, time.Now())
	return kept, joined(append(node.Close(new(results.Run)), err))
}

func joined(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func ends(s *scripted, job int) { s.ok(job) }

// letNodesEnd gives nodes the time to see that nobody listens any more, before the test checks that no goroutine is left. It is fake time (synctest),
// and takes none.
func letNodesEnd() { time.Sleep(time.Minute) }

// A node that holds the pipe up for 5 s is a slow one. After 10 s of silence it is lost, and only its jobs with it.
func TestASilentNodeIsLostAfterTenSeconds(t *testing.T) {
	for silent, lost := range map[time.Duration]bool{5 * time.Second: false, 15 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			slow := func(s *scripted, job int) {
				if job == 1 {
					s.goes(silent)
				}
				s.ok(job)
			}
			kept, err := over(t, t.Context(), play(t, ends), play(t, slow))
			letNodesEnd()
			if err != nil {
				t.Fatal(err)
			}
			want := "0 ok \n1 ok \n2 ok \n3 ok \n"
			if lost {
				want = "0 ok \n1 ok \n2 ok \n3 lost job job is lost: node 1 (n) is down\nnode-lost node 1 (n) is lost: it has said nothing for 10s, and with it job 3 (job)\n"
			}
			if text := kept.String(); !strings.HasPrefix(text, want) || strings.Contains(text, "lost") != lost {
				t.Errorf("silent for %v:\n%s", silent, text)
			}
		})
	}
}

// What ends a node ends its jobs, by name, and the others go on.
func TestANodeIsLostWithItsJobs(t *testing.T) {
	for want, last := range map[string]func(s *scripted){
		"its process ended": func(s *scripted) { s.to.Close() },
		`json: cannot unmarshal string into Go value of type remote.FromNode: "\"killed\""`: func(s *scripted) { s.to.Say("killed") },
		`json: unknown field "Jab": "{\"Jab\":1}"`:                                          func(s *scripted) { s.to.Say(map[string]int{"Jab": 1}) },
		"the GPU is gone": func(s *scripted) { s.say(remote.FromNode{Ended: &remote.Failure{Why: "the GPU is gone"}}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			breaks := func(s *scripted, job int) {
				if job == 1 {
					last(s)
				}
			}
			late := func(s *scripted, job int) {
				go func() {
					time.Sleep(time.Second)
					s.ok(job)
				}()
			}
			kept, err := over(t, t.Context(), play(t, late), play(t, breaks))
			letNodesEnd()
			if broken := strings.Contains(want, "GPU"); (err != nil) != broken {
				t.Error(err)
			}
			all := "0 ok \n1 lost job job is lost: node 1 (n) is down\n2 ok \n3 lost job job is lost: node 1 (n) is down\n" +
				"node-lost node 1 (n) is lost: " + want + ", and with it job 1 (job), job 3 (job)\n"
			if text := lineNumber.ReplaceAllString(kept.String(), ""); !strings.HasPrefix(text, all) {
				t.Errorf("%s\nwant\n%s", text, all)
			}
		})
	}
}

// With --retry-lost jobs that may be started again do so on another node.
func TestLostJobsStartAgainElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dies := func(s *scripted, job int) {
			if job == 1 {
				s.to.Close()
			}
		}
		kept, err := retrying(t, play(t, ends), play(t, dies))
		letNodesEnd()
		if text := kept.String(); err != nil || !strings.HasPrefix(text, "0 ok \n1 ok \n2 ok \n3 ok \nnode-lost ") || strings.Count(text, "repeated job job is lost: node 1 (n) is down; it starts again, and ") != 2 {
			t.Errorf("%s (%v)", text, err)
		}
		if j := kept.jobs[1]; j.Restarts == nil || *j.Restarts != 1 {
			t.Errorf("%+v", j)
		}
	})
}

// lineNumber is another one if a ping is answered before.
var lineNumber = regexp.MustCompile(`line \d+: `)

// Jobs that no node can have any more are refused, so that the batch ends.
func TestJobsAreRefusedWithoutNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dies := func(s *scripted, _ int) { s.to.Close() }
		kept, err := over(t, t.Context(), play(t, dies))
		letNodesEnd()
		if text := kept.String(); err != nil || strings.Count(text, " lost job job is lost: node 0 (n) is down\n") != 4 {
			t.Errorf("%s (%v)", text, err)
		}
	})
}

// A job that a node does not have is refused there.
func TestANodeDeclinesAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		declines := func(s *scripted, job int) {
			if job == 0 {
				s.say(remote.FromNode{Declined: &remote.Declined{Job: 0, Why: "no such program"}})
				return
			}
			s.ok(job)
		}
		kept, err := over(t, t.Context(), play(t, declines), play(t, ends))
		if text := kept.String(); err != nil || !strings.HasPrefix(text, "0 refused no such program\n1 ok \n2 ok \n3 ok \n") {
			t.Errorf("%s (%v)", text, err)
		}
	})
}

// A batch that is to stop has its nodes stop their jobs.
func TestNodesStopTheirJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		runs := func(s *scripted, job int) {
			if job == 1 {
				stop(fmt.Errorf("enough"))
			}
		}
		kept, err := over(t, ctx, play(t, runs), play(t, runs))
		letNodesEnd()
		if text := kept.String(); err == nil || err.Error() != "enough" || strings.Count(text, " cancelled enough\n") != 4 {
			t.Errorf("%s (%v)", text, err)
		}
	})
}

// A node of another revision refuses to be one.
func TestANodeIsOfTheRevisionOfItsHead(t *testing.T) {
	var out strings.Builder
	in := strings.NewReader(`{"Open":{"Protocol":1,"Version":"other","Options":{"node":"sim:1xV100"}}}` + "\n")
	if err := member.Serve(t.Context(), in, &out); err != nil || !strings.Contains(out.String(), "and the head's of other: install the same on all nodes") {
		t.Errorf("%s (%v)", &out, err)
	}
}

// A line that a head does not say ends the node.
func TestANodeRefusesOtherLines(t *testing.T) {
	for _, line := range []string{"help\n", `{"Help":true}` + "\n"} {
		if err := member.Serve(t.Context(), strings.NewReader(line), io.Discard); err == nil || !strings.Contains(err.Error(), "the head of the cluster: line 1: ") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
