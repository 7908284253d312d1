package live

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/caserun/caserun/collectors/kernels"
	"github.com/caserun/caserun/results"
)

// Traces takes what the kernel tracer recorded of jobs that have ended. Several goroutines call
// its methods, which do not block.
type Traces interface {
	Kernel(results.Kernel)
	Copy(results.Copy)
}

// findTracer finds the kernel tracer in the places where FindBallast looks for its program, and
// has the loader try it, because the tracer needs the CUPTI that it was built with.
func findTracer(ctx context.Context) (string, error) {
	path, err := findNative("kernel tracer libcasetrace.so", "tracer", "libcasetrace.so")
	if err != nil {
		return "", fmt.Errorf("%w where CUPTI is: Debian's libcupti-dev, or cuda-cupti-dev of your CUDA toolkit; CUPTI_PATH=DIR names another place", err)
	}
	return path, tryPreload(ctx, path)
}

// tracing is what the environment of a traced job has. The CUDA driver loads
// the library into every process of the job that uses CUDA.
func (x *Executor) tracing(dir string) []string {
	if x.config.Tracer == "" {
		return nil
	}
	return []string{"CUDA_INJECTION64_PATH=" + x.config.Tracer, "CASE_TRACE_DIR=" + dir}
}

// makeTraceDir makes the directory for the traces of a job's processes. "": there are none.
func (x *Executor) makeTraceDir(name string) (dir string, err error) {
	if x.config.Tracer == "" {
		return "", nil
	}
	err = x.make(name, func(path string) error {
		dir = path
		return os.Mkdir(path, 0o755)
	})
	if err != nil {
		return "", fmt.Errorf("make trace directory: %w", err)
	}
	return dir, nil
}

// Traced is what the tracer says about itself, once Run has returned.
func (x *Executor) Traced() results.Tracer {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.traced
}

// readTraces passes on the traces that the processes of an ended job left.
func (x *Executor) readTraces(job int, ranks []*process) {
	if x.config.Tracer == "" {
		return
	}
	var found []kernels.Trace
	for _, p := range ranks {
		names, err := fs.Glob(os.DirFS(p.traces), "*.trace")
		if err != nil {
			x.traceEvent(job, err.Error())
		}
		for _, name := range names {
			t, err := kernels.ReadFile(filepath.Join(p.traces, name))
			if err != nil {
				x.traceEvent(job, err.Error())
			}
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, func(a, b kernels.Trace) int { return int(a.StartedNS - b.StartedNS) })
	if len(found) == 0 {
		x.traceEvent(job, "no process of the job left a trace: none used CUDA, or the tracer could not start")
	}
	var sum tracerSum
	for _, t := range found {
		x.deliver(job, t, &sum)
	}
	sum.processes = int64(len(found))
	if len(found) == 0 {
		sum.untraced = 1
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	sum.addTo(&x.traced)
}

// tracerSum is what one job adds to the run's totals.
type tracerSum struct{ processes, kernels, copies, lost, cut, untraced int64 }

func (s tracerSum) addTo(t *results.Tracer) {
	for _, c := range []struct {
		total **int64
		more  int64
	}{{&t.Processes, s.processes}, {&t.Kernels, s.kernels}, {&t.Copies, s.copies}, {&t.Lost, s.lost}, {&t.Cut, s.cut}, {&t.Untraced, s.untraced}} {
		if *c.total == nil {
			*c.total = new(int64)
		}
		**c.total += c.more
	}
}

// deliver passes on the records of one process. Their times are the run's and their devices are
// the node's.
func (x *Executor) deliver(job int, t kernels.Trace, sum *tracerSum) {
	lost := int64(t.Lost)
	if t.Torn {
		lost++
	}
	texts := map[[3]uint32]string{} // few texts, which many launches share
	text := func(v [3]uint32) string {
		if _, ok := texts[v]; !ok {
			texts[v] = fmt.Sprintf("%d,%d,%d", v[0], v[1], v[2])
		}
		return texts[v]
	}
	for _, k := range t.Kernels {
		device := slices.Index(x.config.IDs, [16]byte(k.Device))
		if device < 0 {
			lost++
			continue
		}
		from, to := x.seconds(k.StartNS), x.seconds(k.EndNS)
		x.config.Traces.Kernel(results.Kernel{Job: job, Device: device, Name: k.Name, StartS: from, EndS: to, BusyS: to - from,
			Grid: text(k.Grid), Block: text(k.Block), Registers: int(k.Registers), StaticSharedBytes: int(k.StaticShared),
			DynamicSharedBytes: int(k.DynamicShared), PID: int(t.PID), Stream: int(k.Stream)})
		sum.kernels++
	}
	for _, c := range t.Copies {
		device := slices.Index(x.config.IDs, [16]byte(c.Device))
		if device < 0 {
			lost++
			continue
		}
		x.config.Traces.Copy(results.Copy{Job: job, PID: int(t.PID), Device: device, Kind: c.Kind, Bytes: int64(c.Bytes),
			Stream: int(c.Stream), StartS: x.seconds(c.StartNS), EndS: x.seconds(c.EndNS)})
		sum.copies++
	}
	for _, note := range t.Notes {
		x.traceEvent(job, fmt.Sprintf("process %d: the tracer says: %s", t.PID, note))
	}
	if lost > 0 {
		x.traceEvent(job, fmt.Sprintf("process %d: %d records are lost", t.PID, lost))
	}
	if !t.Ended {
		x.traceEvent(job, fmt.Sprintf("process %d did not exit in order: what it did in its last moments may be missing", t.PID))
		sum.cut++
	}
	sum.lost += lost
}

// seconds converts CLOCK_MONOTONIC to the run's time.
func (x *Executor) seconds(monotonicNS int64) float64 {
	return x.server.At(monotonicNS).Sub(x.config.Start).Seconds()
}

func (x *Executor) traceEvent(job int, detail string) {
	x.note(results.Event{Kind: results.EventTrace, Job: &job, Detail: detail})
}
