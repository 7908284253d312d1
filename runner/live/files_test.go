package live

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caserun/caserun/results"
)

// What a job does to the run's files spoils neither its own outcome nor that of the jobs that follow, nor another file.
func TestJobsThatSpoilFiles(t *testing.T) {
	probeDir := `"${CASE_SOCKET%/*}"`
	root := `"${CASE_SOCKET%/*/*}"`
	for name, c := range map[string]struct {
		sched, script string
		quiet         bool // nothing needs to be made again
	}{
		"socket removed":                {script: `rm "$CASE_SOCKET"`},
		"socket a directory":            {script: `rm "$CASE_SOCKET"; mkdir -p "$CASE_SOCKET/x"`},
		"socket a file":                 {script: `rm "$CASE_SOCKET"; echo garbage > "$CASE_SOCKET"`},
		"socket a FIFO":                 {script: `rm "$CASE_SOCKET"; mkfifo "$CASE_SOCKET"`},
		"socket a link":                 {script: `rm "$CASE_SOCKET"; ln -s /nowhere "$CASE_SOCKET"`},
		"socket locked":                 {script: `chmod 0 "$CASE_SOCKET"`},
		"socket moved":                  {script: `mv "$CASE_SOCKET" "$CASE_SOCKET.away"`},
		"probe directory removed":       {script: `rm -r ` + probeDir},
		"probe directory locked":        {script: `chmod 0 ` + probeDir},
		"probe directory a file":        {script: `rm -r ` + probeDir + `; echo > ` + probeDir},
		"probe directory a link":        {script: `mv ` + probeDir + ` ` + root + `/x; ln -s x ` + probeDir},
		"temporary directory removed":   {script: `rm -r ` + root},
		"temporary directory moved":     {script: `mv ` + root + ` ` + root + `-away; rm -r ` + root + `-away`},
		"temporary directory a file":    {script: `mv ` + root + ` away; rm -r away; echo > ` + root},
		"temporary directory locked":    {script: `chmod 0 ` + root, quiet: os.Geteuid() == 0},
		"a file in the probe directory": {script: `echo > ` + probeDir + `/mine`, quiet: true},
		"run directory removed":         {script: `rm -r out`},
		"run directory a file":          {script: `rm -r out; echo > out`},
		"run directory locked":          {script: `chmod 0 out`, quiet: os.Geteuid() == 0},
		"output a directory":            {script: `mkdir -p out/job-0001.out/x`},
		"output a link":                 {script: `ln -s ../precious out/job-0001.out`},
		"output a hard link":            {script: `ln precious out/job-0001.out`},
		"output a dangling link":        {script: `ln -s ../new out/job-0001.err`},
		"output a FIFO":                 {script: `mkfifo out/job-0001.out out/job-0001.err`},
		"own output removed":            {script: `rm out/job-0000.err`},
		"own output replaced":           {script: `echo mine > mine; mv mine out/job-0000.out`},
		"own output a link":             {script: `ln -sf ../precious out/job-0000.out`},
		"own output a FIFO":             {script: `rm out/job-0000.err; mkfifo out/job-0000.err`},
		"own output a directory":        {script: `rm out/job-0000.err; mkdir out/job-0000.err`},
		"own output moved":              {script: `mv out/job-0000.out out/x`},
		"own output linked":             {script: `ln out/job-0000.out x`, quiet: true},
		"run directory moved":           {script: `mv out out2`},
		"state file removed":            {sched: "schedgpu:arch=shared", script: `rm "$CASE_SHARED"`},
		"state directory removed":       {sched: "schedgpu:arch=shared", script: `rm -r "${CASE_SHARED%/*}"`},
		"state file a directory":        {sched: "schedgpu:arch=shared", script: `rm "$CASE_SHARED"; mkdir "$CASE_SHARED"`},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if c.sched == "" {
				c.sched = "case-alg3"
			}
			r := newRig(t, c.sched).sh(c.script+"; true").job("begin:1000", "free")
			r.workers = 1
			precious := filepath.Join(r.dir, "precious")
			if err := os.WriteFile(precious, []byte("of the user"), 0o600); err != nil {
				t.Fatal(err)
			}
			jobs, rec, err := r.run(t.Context())
			if want := []results.Outcome{results.OK, results.OK}; err != nil || !slices.Equal(outcomes(jobs), want) {
				t.Errorf("outcomes %v (%q), error %v", outcomes(jobs), jobs[1].Detail, err)
			}
			told := slices.ContainsFunc(rec.events, func(e results.Event) bool {
				if e.Kind == results.EventFiles && (e.Job == nil || *e.Job != 0) {
					t.Errorf("%+v does not name the job", e)
				}
				return e.Kind == results.EventFiles
			})
			if told == c.quiet {
				t.Errorf("events %+v, want one of a file: %t", rec.events, !c.quiet)
			}
			if text, err := os.ReadFile(precious); string(text) != "of the user" {
				t.Errorf("the user's file has %q (%v)", text, err)
			}
			if _, err := os.Lstat(filepath.Join(r.dir, "new")); err == nil {
				t.Error("an output file was made where a link points to")
			}
		})
	}
}

// A client that asks while the state file is gone waits until the run has put it back.
func TestClientsOfAStateFileThatIsSpoiled(t *testing.T) {
	for name, script := range map[string]string{
		"removed":           `rm "$CASE_SHARED" "$CASE_SHARED.backup"`,
		"directory removed": `rm -r "${CASE_SHARED%/*}"`,
		"directory a file":  `rm -r "${CASE_SHARED%/*}"; echo > "${CASE_SHARED%/*}"`,
		"a directory":       `rm "$CASE_SHARED"; mkdir "$CASE_SHARED"`,
		"a FIFO":            `rm "$CASE_SHARED"; mkfifo "$CASE_SHARED"`,
		"a link":            `mv "$CASE_SHARED" "$CASE_SHARED.away"; ln -s state.away "$CASE_SHARED"`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			r := newRig(t, "schedgpu:arch=shared").sh(`while [ ! -e gone ]; do :; done; $JOB begin:1000 free`).sh(script + `; echo > gone`)
			jobs, rec := r.mustRun()
			if want := []results.Outcome{results.OK, results.OK}; !slices.Equal(outcomes(jobs), want) {
				t.Errorf("outcomes %v (%q)", outcomes(jobs), jobs[0].Detail)
			}
			if !slices.ContainsFunc(rec.events, func(e results.Event) bool { return e.Kind == results.EventFiles }) {
				t.Errorf("events %+v, want one of the state file", rec.events)
			}
		})
	}
}

// A job that runs alone is named.
func TestWhoSpoilsFiles(t *testing.T) {
	r := newRig(t, "case-alg3").sh(`rm "$CASE_SOCKET"; while [ ! -e "$CASE_SOCKET" ]; do :; done; $JOB begin:1000 free`)
	jobs, rec := r.mustRun()
	i := slices.IndexFunc(rec.events, func(e results.Event) bool { return e.Kind == results.EventFiles })
	if *jobs[0].Outcome != results.OK || i < 0 || rec.events[i].Job == nil || *rec.events[i].Job != 0 {
		t.Errorf("outcome %s, events %+v", *jobs[0].Outcome, rec.events)
	}
}

// Where several jobs run, the event names all of them. What a job wrote to its output is kept, whatever became of the file.
func TestWhoOfSeveralSpoilsFiles(t *testing.T) {
	r := newRig(t, "case-alg3").sh(`while [ ! -e stop ]; do :; done`).sh(`while [ ! -e out/job-0000.out ]; do :; done; echo last words >&2; rm "$CASE_SOCKET" out/job-0000.out out/job-0001.err; while [ ! -e "$CASE_SOCKET" ]; do :; done; echo > stop; exit 3`)
	jobs, rec := r.mustRun()
	if jobs[1].StderrTail != "last words" {
		t.Errorf("standard error: %q", jobs[1].StderrTail)
	}
	var said []string
	for _, e := range rec.events {
		if e.Kind == results.EventFiles {
			said = append(said, e.Detail)
			if e.Job != nil {
				t.Errorf("%q accuses job %d", e.Detail, *e.Job)
			}
		}
	}
	slices.Sort(said)
	const by = ", by one of the jobs 0, 1; jobs must leave the run's files alone"
	if want := []string{"standard error of job 1, in job-0001.err, was removed or replaced" + by, "standard output of job 0, in job-0000.out, was removed or replaced" + by,
		"the scheduler's socket was removed, replaced or locked, and made again" + by}; !slices.Equal(said, want) {
		t.Errorf("events %q, want %q", said, want)
	}
}

// A job that removes what leads to the MPS daemon is named, and the next job finds it again. If it cannot be put back, no further job
// starts, because it would run without MPS.
func TestJobsThatCutOffTheMPSDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		lost bool
		want []results.Outcome
		says string
	}{
		"mended": {false, []results.Outcome{results.OK, results.OK, results.OK}, "what leads to the MPS daemon was removed, replaced or locked, and put back; jobs"},
		"lost":   {true, []results.Outcome{results.OK, results.NotStarted, results.NotStarted}, "cannot be put back: gone for good"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "case-alg3").sh("rm pipe").sh("test -e pipe").sh("rm pipe")
			r.workers = 1
			pipe := filepath.Join(r.dir, "pipe")
			made := 0
			var mu sync.Mutex
			r.mendServer = func() (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				if _, err := os.Stat(pipe); err == nil {
					return false, nil
				}
				if made++; c.lost && made > 1 {
					return true, errors.New("gone for good")
				}
				return made > 1, os.WriteFile(pipe, nil, 0o600)
			}
			jobs, rec, err := r.run(t.Context())
			if !slices.Equal(outcomes(jobs), c.want) || (err != nil) != c.lost {
				t.Errorf("outcomes %v, want %v, error %v", outcomes(jobs), c.want, err)
			}
			var by []int
			for _, e := range rec.events {
				if e.Kind == results.EventFiles && strings.Contains(e.Detail, c.says) && e.Job != nil {
					by = append(by, *e.Job)
				}
			}
			if want := map[bool][]int{false: {0, 2}, true: {0}}[c.lost]; !slices.Equal(by, want) {
				t.Errorf("events %+v of jobs %v, want of %v", rec.events, by, want)
			}
		})
	}
}

func TestListOfJobs(t *testing.T) {
	many := make([]int, 40)
	for i := range many {
		many[i] = 39 - i
	}
	if got := list(many); !strings.HasPrefix(got, "0, 1, 2") || !strings.HasSuffix(got, ", 31 and 8 more") {
		t.Error(got)
	}
}

// A job whose calls are refused because it cannot reach the scheduler is not ok, whatever its exit status.
func TestJobsThatCannotReachTheScheduler(t *testing.T) {
	for name, script := range map[string]string{
		"another path":     `CASE_SOCKET=/nowhere $JOB begin:1000; exit 0`,
		"no path":          `env -u CASE_SOCKET $JOB begin:1000; exit 0`,
		"no token":         `env -u CASE_TOKEN $JOB begin:1000; exit 0`,
		"another token":    `CASE_TOKEN=0123 $JOB begin:1000; exit 0`,
		"an exit status":   `CASE_SOCKET=/nowhere $JOB begin:1000; exit 3`,
		"a signal":         `CASE_SOCKET=/nowhere $JOB begin:1000; kill -SEGV $$`,
		"a report":         `CASE_SOCKET=/nowhere $JOB fault:700; exit 0`,
		"one of its calls": `$JOB begin:1000 free; CASE_SOCKET=/nowhere $JOB begin:1000; exit 0`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			r := newRig(t, "case-alg3").sh(script).job("begin:1000", "free").sh("exit 0")
			jobs, rec := r.mustRun()
			if want := []results.Outcome{results.NotScheduled, results.OK, results.OK}; !slices.Equal(outcomes(jobs), want) {
				t.Errorf("outcomes %v, want %v", outcomes(jobs), want)
			}
			if name == "a report" {
				if jobs[0].Detail != "it could not reach the scheduler: CUDA error 700 in cudaDeviceSynchronize: connect to /nowhere: No such file or directory" {
					t.Errorf("detail %q", jobs[0].Detail)
				}
			} else if !strings.Contains(jobs[0].Detail, "it could not reach the scheduler: its CUDA calls were refused: ") {
				t.Errorf("detail %q", jobs[0].Detail)
			}
			i := slices.IndexFunc(rec.events, func(e results.Event) bool { return e.Kind == results.EventNotScheduled })
			if i < 0 || *rec.events[i].Job != 0 {
				t.Errorf("events %+v", rec.events)
			}
		})
	}
}
