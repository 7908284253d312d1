package schedtest

import (
	"flag"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
)

// Workloads is how many random workloads a check makes unless it is told.
const Workloads = 100

// Failure is the rule that a scheduler broke, and the smallest workload that was found on which it
// breaks the rule.
type Failure struct {
	Why   string
	Steps []Step
	Flaky bool // the same workload did not fail again
}

// smaller is how long a smaller workload that fails is looked for.
const smaller = 5 * time.Second

// Step is a part of a workload: what was done, what was drawn for it, and what the engine decided.
type Step struct{ Do, With, Decided string }

// Outside runs a check of random workloads outside of a test. The same seed, which is not 0, makes
// the same workloads. Only one check may run at a time, because rapid's settings are global.
func Outside(seed uint64, workloads int, property func(*rapid.T)) (*Failure, error) {
	testing.Init() // rapid asks package testing for its flags
	if !flag.Parsed() {
		if err := flag.CommandLine.Parse(nil); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]string{"rapid.seed": strconv.FormatUint(seed, 10), "rapid.checks": strconv.Itoa(workloads), "rapid.nofailfile": "true", "rapid.shrinktime": smaller.String()} {
		f := flag.Lookup(name)
		defer func(old string) { _ = f.Value.Set(old) }(f.Value.String())
		if err := f.Value.Set(value); err != nil {
			return nil, fmt.Errorf("check of random workloads: set %s: %w", name, err)
		}
	}
	o := &outside{}
	done := make(chan struct{})
	go func() { // FailNow ends a goroutine
		defer close(done)
		rapid.Check(o, property)
	}()
	<-done
	if !o.failed {
		return nil, nil
	}
	return &Failure{strings.ReplaceAll(o.why, "\u00a0", " "), taken(o.steps), o.flaky}, nil // cmp writes such spaces
}

// outside is a rapid.TB that keeps the last workload, which rapid makes of the failure that it has
// made small.
type outside struct {
	failed bool
	flaky  bool
	why    string
	steps  []Step
}

func (o *outside) Helper()                   {}
func (o *outside) Name() string              { return "caserun schedulers test" }
func (o *outside) Failed() bool              { return o.failed }
func (o *outside) Fail()                     { o.failed = true }
func (o *outside) FailNow()                  { o.failed = true; runtime.Goexit() }
func (o *outside) SkipNow()                  { runtime.Goexit() }
func (o *outside) Skip(...any)               { runtime.Goexit() }
func (o *outside) Skipf(string, ...any)      { runtime.Goexit() }
func (o *outside) Log(args ...any)           { o.note(fmt.Sprint(args...)) }
func (o *outside) Logf(f string, a ...any)   { o.note(fmt.Sprintf(f, a...)) }
func (o *outside) Error(args ...any)         { o.fail("", args) }
func (o *outside) Errorf(f string, a ...any) { o.fail(f, a) }
func (o *outside) Fatal(args ...any)         { o.fail("", args); runtime.Goexit() }
func (o *outside) Fatalf(f string, a ...any) { o.fail(f, a); runtime.Goexit() }

// fail keeps the error that rapid reports. The workload follows.
func (o *outside) fail(format string, args []any) {
	o.failed, o.flaky, o.steps = true, strings.Contains(format, "flaky"), nil
	o.why = fmt.Sprint(args...)
	for _, a := range args {
		err, ok := a.(error)
		if v := reflect.ValueOf(a); !ok || v.Kind() == reflect.Pointer && v.IsNil() { // rapid has nil where nothing failed
			continue
		}
		o.why = err.Error()
		if !o.flaky {
			break
		}
	}
	if o.flaky {
		o.why = "the same workload does not fail again, so the policy has a memory, a clock or chance in it; at first: " + o.why
	}
}

var (
	drawn = regexp.MustCompile(`(?s)^\[rapid\] draw ([^:]*): (.*)$`)
	// noise is what Go writes around values.
	noise       = regexp.MustCompile(`schedulers\.|engine\.|Name:"random", |^"|"$`)
	hexadecimal = regexp.MustCompile(`\b0x[0-9a-f]+\b`)
)

// plainly is a value that was drawn, as a reader writes it.
func plainly(value string) string {
	return hexadecimal.ReplaceAllStringFunc(noise.ReplaceAllString(value, ""), func(text string) string {
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return text
		}
		return strconv.FormatUint(n, 10)
	})
}

// What else is logged of a workload than draws begins with one of these.
const (
	decided   = "decided: "   // the decisions of a call
	submitted = "submitted: " // the task that was drawn
	failed    = "failed: "    // why the policy can decide no more
)

// note takes a line of the workload.
func (o *outside) note(line string) {
	if why, is := strings.CutPrefix(line, failed); is {
		if !o.flaky {
			o.why = why
		}
		return
	}
	draw := drawn.FindStringSubmatch(line)
	ds, isDecided := strings.CutPrefix(line, decided)
	task, isTask := strings.CutPrefix(line, submitted)
	if draw != nil && (len(o.steps) == 0 || draw[1] == "action" || draw[1] == "next to exit") {
		do := map[string]string{"action": plainly(draw[2]), "next to exit": "exit"}[draw[1]]
		if do == "" {
			do = "begin"
		}
		if draw[1] == "action" {
			draw = nil
		}
		o.steps = append(o.steps, Step{Do: do})
	}
	if len(o.steps) == 0 {
		return
	}
	last := &o.steps[len(o.steps)-1]
	switch {
	case isTask:
		last.With = task
	case isDecided:
		last.Decided = strings.TrimSpace(last.Decided + " " + ds)
	case draw != nil && last.With != "":
		last.With += ", " + draw[1] + " " + plainly(draw[2])
	case draw != nil:
		last.With = draw[1] + " " + plainly(draw[2])
	}
}

// taken leaves out actions that found nothing to act on.
func taken(steps []Step) []Step {
	return slices.DeleteFunc(steps, func(s Step) bool { return s.With == "" && s.Decided == "" && s.Do != "settle" && s.Do != "tick" })
}

// logDecisions logs decisions for whoever reads a workload.
func logDecisions(rt *rapid.T, ds []schedulers.Decision) {
	if len(ds) > 0 {
		rt.Logf("%s%s", decided, Text(ds))
	}
}

// logTask logs a task that is submitted, because its draws do not read as what it is.
func logTask(rt *rapid.T, t schedulers.Task) {
	text := fmt.Sprintf("task %d of job %d: %d bytes", t.ID, t.Job, t.Bytes)
	add := func(is bool, format string, args ...any) {
		if is {
			text += ", " + fmt.Sprintf(format, args...)
		}
	}
	add(t.Serial != 0, "process %d", t.Serial)
	add(t.Need != nil, "needs %d of them", t.Needs())
	add(t.Blocks > 0, "%d blocks of %d threads", t.Blocks, t.ThreadsPerBlock)
	add(t.BlocksPerSM > 0, "an SM holds %d blocks", t.BlocksPerSM)
	add(t.GridUnknown, "grid unknown")
	add(t.Managed, "managed")
	add(t.Isolate, "isolated")
	terms := t.Terms.OrNone()
	add(terms.Devices > 1, "on %d devices at once", terms.Devices)
	add(terms.Share > 0, "asks for %g of a device's time", float64(terms.Share)/schedulers.WholeDevice)
	add(t.Priority != 0, "priority %d", t.Priority)
	if t.OnDevice != nil {
		add(true, "only on device %d", *t.OnDevice)
	}
	if t.Wait != nil {
		add(true, "waits %v", *t.Wait)
	}
	rt.Logf("%s%s", submitted, text)
}

// Text returns decisions as text: "1@0" task 1 granted device 0, "1@0+1" devices 0 and 1,
// "!1" task 1 refused, "+1@0" grown, "-1@0" growth refused; under a Preempter "yield(1,6)" task 1
// is asked to yield and give 6 bytes, "evict(1,6)" to evict them, "^1@0" resumed, "_1@0" resuming
// refused; "restart(1,9)" the job of task 1 is to start again with 9 bytes.
func Text(ds []schedulers.Decision) string {
	var out []string
	for _, d := range ds {
		sign := map[schedulers.DecisionKind]string{schedulers.Grown: "+", schedulers.GrowRefused: "-", schedulers.Resumed: "^", schedulers.ResumeRefused: "_", schedulers.Unanswered: "?"}[d.Kind]
		switch d.Kind {
		case schedulers.Refused:
			out = append(out, fmt.Sprintf("!%d", d.Task.ID))
		case schedulers.Restart:
			out = append(out, fmt.Sprintf("restart(%d,%d)", d.Task.ID, d.Bytes))
		case schedulers.Revoke:
			out = append(out, fmt.Sprintf("%v(%d,%d)", d.Revocation.Action, d.Task.ID, d.Revocation.Bytes))
		default:
			text := fmt.Sprintf("%s%d@%d", sign, d.Task.ID, d.Device)
			for _, other := range d.Devices[min(1, len(d.Devices)):] {
				text += fmt.Sprintf("+%d", other)
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}
