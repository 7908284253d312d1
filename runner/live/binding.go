package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/cudaelf"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/userfile"
)

// errUnbindable is wrapped if a program cannot be scheduled task by task and the mix
// declares no footprint for it.
var errUnbindable = errors.New("it cannot be bound task by task")

// bind settles how the batch's jobs get their devices, and notes what the run's record must
// say about it.
func (n *node) bind() (err error) {
	if n.Mix.Jobs, n.notes, err = n.bound(n.Mix, n.programs); err != nil {
		return err
	}
	n.tell()
	return nil
}

// bound is bind for the jobs of a mix.
func (n *node) bound(m mixes.Mix, programs []string) (jobs []mixes.Job, notes []results.Event, err error) {
	jobs = m.Jobs
	if err := n.checkInstances(jobs); err != nil {
		return nil, nil, err
	}
	if n.Scheduler.Binds == policies.BindsTask && !n.Scheduler.Checkpoints {
		if jobs, notes, err = bindPrograms(jobs, programs, n.library != ""); err != nil {
			return nil, nil, harness.Refuse(harness.ToMeasure(err, errUnbindable, n.Options, m))
		}
	}
	for i, j := range jobs {
		if j.Pin && (n.Scheduler.Binds == policies.BindsJob || j.Binding == mixes.BindDeclared) {
			notes = append(notes, results.Event{Kind: results.EventPinIgnored, Job: &i,
				Detail: "pin: true has no effect: the whole job is bound, and it sees that device only"})
		}
	}
	return jobs, notes, nil
}

// checkInstances refuses jobs that must see several devices, and those that libcase does not serve, if one of the devices is an instance of MIG.
func (n *node) checkInstances(jobs []mixes.Job) error {
	if !n.gpus.Divided() {
		return nil
	}
	if n.Probe == results.Explicit && n.Scheduler.Binds == policies.BindsTask {
		return harness.Refuse(errors.New("--probe explicit: a process must get its instance of MIG before it starts CUDA, and only libcase.so does that: use --probe lazy, or choose whole GPUs with --devices"))
	}
	for i, j := range jobs {
		key := ""
		switch {
		case j.GPUs > 1:
			key = fmt.Sprintf("gpus: %d", j.GPUs)
		case j.Pin && n.Scheduler.Binds == policies.BindsTask && j.Binding != mixes.BindDeclared:
			key = "pin: true"
		default:
			continue
		}
		return harness.Refuse(fmt.Errorf("job %d (%s) has %s, and a process sees only one instance of MIG: leave it out, or choose whole GPUs with --devices", i, j.Name, key))
	}
	return nil
}

// tell says each note once, with the jobs that it concerns.
func (n *node) tell() {
	const shown = 4
	var order []string
	jobs := map[string][]string{}
	for _, e := range n.notes {
		if _, seen := jobs[e.Detail]; !seen {
			order = append(order, e.Detail)
		}
		jobs[e.Detail] = append(jobs[e.Detail], fmt.Sprintf("%d (%s)", *e.Job, n.Mix.Jobs[*e.Job].Name))
	}
	for _, detail := range order {
		names := jobs[detail]
		more := ""
		if len(names) > shown {
			more = fmt.Sprintf(" and %d more", len(names)-shown)
		}
		n.Say("job %s%s: %s", strings.Join(names[:min(shown, len(names))], ", "), more, detail)
	}
}

// bindPrograms settles how jobs are bound under a task-bound scheduler. A job
// whose program libcase cannot serve is bound by its footprint before it starts. A job
// without a footprint is an error that says what to do, because the job would take a device
// that it was not granted. preloads says that jobs preload libcase.so. Without it libcase serves
// only programs that call the task API. An event tells of each job that is bound by its footprint, because its program's
// CUDA calls do not pass through libcase.
func bindPrograms(jobs []mixes.Job, programs []string, preloads bool) ([]mixes.Job, []results.Event, error) {
	jobs = slices.Clone(jobs)
	type key struct{ program, libraryPath string }
	inspected := map[key]cudaelf.Program{}
	var declared []results.Event
	var problems []error
	told := map[string]bool{}
	for i, j := range jobs {
		if j.Binding == mixes.BindDeclared {
			continue
		}
		k := key{programs[i], lookup(append(os.Environ(), j.Env...), "LD_LIBRARY_PATH")}
		p, seen := inspected[k]
		if !seen && userfile.Check(k.program, 0) == nil { // else the job fails when it starts
			var err error
			if p, err = cudaelf.Inspect(k.program, filepath.SplitList(k.libraryPath)); err != nil {
				return nil, nil, fmt.Errorf("job %d (%s): %w", i, j.Command(), err)
			}
			inspected[k] = p
		}
		why, remedy := unserved(p, preloads)
		switch {
		case why == "":
		case j.Footprint.Bytes > 0:
			jobs[i].Binding = mixes.BindDeclared
			declared = append(declared, results.Event{Kind: results.EventDeclared, Job: &i, Detail: why + ": bound as a whole by its declared footprint"})
		case !told[j.Command()]:
			told[j.Command()] = true
			problems = append(problems, fmt.Errorf("job %d (%s): program %s: %w: %s; %sgive the job binding: declared and its memory in the mix, or a profile with --profiles (caserun profile measures one)",
				i, j.Command(), k.program, errUnbindable, why, remedy))
		}
	}
	return jobs, declared, errors.Join(problems...)
}

// unserved says why libcase cannot serve a program ("": it can), and what to change in the
// program. A program that shows no CUDA, such as a script, may load the shared runtime later.
// A program that calls the task API needs no lazy runtime.
func unserved(p cudaelf.Program, preloads bool) (why, remedy string) {
	switch {
	case p.TaskAPI:
		return "", ""
	case p.Runtime == cudaelf.Static && p.Unpreloadable != "":
		return "the CUDA runtime is linked statically into " + p.Object + ", and " + p.Unpreloadable, ""
	case p.Runtime == cudaelf.Static:
		return "the CUDA runtime is linked statically into " + p.Object,
			"relink it with nvcc -cudart shared (CMake: CUDA_RUNTIME_LIBRARY Shared), or "
	case p.Runtime == cudaelf.Driver:
		return p.Object + " calls the CUDA driver directly", ""
	case p.Runtime == cudaelf.Shared && !preloads:
		return "it does not call the task API, and nothing is preloaded", "run it with --probe lazy, or "
	case p.Runtime == cudaelf.Shared && p.Unpreloadable != "":
		return "libcase.so cannot be preloaded: " + p.Unpreloadable, ""
	}
	return "", ""
}
