package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner/cudaelf"
	"github.com/caserun/caserun/userfile"
)

// ErrUnbindable is wrapped when a program cannot be scheduled task by task and the mix
// declares no footprint for it.
var ErrUnbindable = errors.New("it cannot be bound task by task")

// Declared is a job that a task-bound scheduler binds as a whole, because its
// program's CUDA calls do not pass through libcase.
type Declared struct {
	Job int
	Why string
}

// BindPrograms settles how jobs are bound under a task-bound scheduler. A job
// whose program libcase cannot serve is bound by its footprint before it starts. A job
// without a footprint is an error that says what to do, because the job would take a device
// that it was not granted. preloads says that jobs preload libcase.so. Without it libcase serves
// only programs that call the task API.
func BindPrograms(jobs []mixes.Job, programs []string, preloads bool) ([]mixes.Job, []Declared, error) {
	jobs = slices.Clone(jobs)
	type key struct{ program, libraryPath string }
	inspected := map[key]cudaelf.Program{}
	var declared []Declared
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
			declared = append(declared, Declared{i, why + ": bound as a whole by its declared footprint"})
		case !told[j.Command()]:
			told[j.Command()] = true
			problems = append(problems, fmt.Errorf("job %d (%s): program %s: %w: %s; %sgive the job binding: declared and its memory in the mix, or a profile with --profiles (caserun profile measures one)",
				i, j.Command(), k.program, ErrUnbindable, why, remedy))
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
