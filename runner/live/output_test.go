package live

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
)

// A job that writes without end is stopped and says so, on whichever of both it writes; its neighbour is not.
func TestOutputWithoutEnd(t *testing.T) {
	r := newRig(t, "zero").sh("yes").sh("yes >&2").sh("echo a few bytes")
	r.most = 1 << 20
	jobs, tape := r.mustRun()
	for _, j := range jobs[:2] {
		if *j.Outcome != results.Crash || !strings.HasPrefix(j.Detail, "it wrote ") || !strings.HasSuffix(j.Detail, " to standard output and standard error, and --output-limit is 1 MiB: it was stopped") {
			t.Errorf("job %d is %s: %s", j.Index, *j.Outcome, j.Detail)
		}
	}
	if *jobs[2].Outcome != results.OK {
		t.Errorf("the neighbour is %s: %s", *jobs[2].Outcome, jobs[2].Detail)
	}
	stopped := 0
	for _, e := range tape.events {
		if e.Kind == results.EventOutput {
			stopped++
		}
	}
	if stopped != 2 {
		t.Errorf("%d events of 2", stopped)
	}
}

// What a job does to the names of its output files does not lift the limit, and a job that ends before it is looked at has written too much
// all the same.
func TestOutputWithoutName(t *testing.T) {
	for name, script := range map[string]string{
		"removed":   `rm out/job-0000.out; yes`,
		"replaced":  `: > new; mv new out/job-0000.out; yes`,
		"a link":    `ln -sf /dev/null out/job-0000.out; yes`,
		"directory": `mv out out2; mkdir out; : > out/job-0000.out; yes`,
		"emptied":   `while :; do head -c 200000 /dev/zero; : > out/job-0000.out; done`,
		"appended":  `while :; do head -c 200000 /dev/zero >> out/job-0000.out; done`,
		"quick":     `head -c 2000000 /dev/zero`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "zero").sh(script)
			r.most = 1 << 20
			jobs, tape := r.mustRun()
			if *jobs[0].Outcome != results.Crash || !strings.Contains(jobs[0].Detail, "--output-limit is 1 MiB") {
				t.Errorf("%s: %s", *jobs[0].Outcome, jobs[0].Detail)
			}
			events := map[results.EventKind]int{}
			for _, e := range tape.events {
				events[e.Kind]++
			}
			spoils := name != "appended" && name != "quick"
			if events[results.EventOutput] != 1 || spoils && name != "emptied" && events[results.EventFiles] == 0 {
				t.Errorf("events %v", events)
			}
		})
	}
}

// A file that shrinks is told, and what was written before counts.
func TestOutputThatIsCut(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := &output{file: f}
	for _, size := range []int64{700, 200, 900} {
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		o.look()
	}
	if o.written != 1400 || o.spoiled() != "was cut by 500 bytes" {
		t.Errorf("%d bytes written; it %s", o.written, o.spoiled())
	}
}

// Output files that a later job spoils are named at the end of the run.
func TestOutputOfJobsThatHaveEnded(t *testing.T) {
	for name, script := range map[string]string{
		"removed":  "rm out/job-0000.out",
		"replaced": "echo first > new; mv new out/job-0000.out",
		"changed":  "echo more >> out/job-0000.out",
		"emptied":  ": > out/job-0000.out",
		"nothing":  "cat out/job-0000.out",
	} {
		r := newRig(t, "zero").sh("echo first").sh(script)
		r.workers = 1
		jobs, tape := r.mustRun()
		var said []string
		for _, e := range tape.events {
			if e.Kind == results.EventFiles {
				said = append(said, e.Detail)
			}
		}
		want := []string{"output files were removed, replaced or changed after their jobs had ended: job-0000.out; jobs must leave the run's files alone"}
		if name == "nothing" {
			want = nil
		}
		if *jobs[0].Outcome != results.OK || !slices.Equal(said, want) {
			t.Errorf("%s: %s, events %q, want %q", name, *jobs[0].Outcome, said, want)
		}
	}
}
