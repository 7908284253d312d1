package live

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/layer"
	"github.com/caserun/caserun/runner/surroundings"
)

// layered is the layer of a file that a run's jobs run under. All methods may be called of nil, which is none.
type layered struct {
	*layer.Layer
	running    *layer.Running // nil before start
	guard      *guard         // of the daemon
	capacities []int64        // of the devices, in bytes
}

// readLayer reads the file of the scheduler's layer; nil: it has none.
func (n *node) readLayer(ctx context.Context) (*layered, error) {
	l := n.Scheduler.Layer
	if l == nil || l.Path == "" {
		return nil, nil
	}
	read, err := layer.Read(ctx, l.Path)
	if err != nil {
		return nil, harness.Refuse(err)
	}
	if !strings.HasPrefix(read.SHA256, l.SHA256) {
		return nil, harness.Refuse(fmt.Errorf("layer %s: it, or a file that it names, has changed since the run was asked for: run again", l.Path))
	}
	return &layered{Layer: read}, nil
}

// startLayer starts the layer's daemon, once the devices are prepared. stopLayer must follow, also after an error.
func (n *node) startLayer(ctx context.Context) (err error) {
	l := n.layer
	if l == nil {
		return nil
	}
	env, _ := surroundings.WithoutMPS(os.Environ())
	env = append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES="+strings.Join(uuids(n.found), ","))
	if n.mps != nil {
		env = append(env, n.mps.Env(0)...)
	}
	for _, d := range n.devices {
		l.capacities = append(l.capacities, d.CapacityBytes)
	}
	if l.running, err = l.Prepare(uuids(n.found), env, filepath.Join(n.runs, "layer-"+n.Started.UTC().Format(dirTime)+".log")); err != nil {
		return err
	}
	if l.Start == nil {
		return nil
	}
	if l.guard, err = startGuard(func(err error) { n.Say("layer %s: %v", l.Name, err) }); err != nil {
		return err
	}
	l.guard.watch(&process{pid: noSession, token: l.running.Token})
	return l.running.Start(ctx)
}

// noSession is the session of no process: those of a daemon are known by their token.
const noSession = math.MaxInt32

// keepLog gives the daemon's log its place beside the output of the jobs.
func (l *layered) keepLog(dir string) error {
	if l == nil {
		return nil
	}
	return l.running.Rename(filepath.Join(dir, "layer.log"))
}

// stopLayer ends the daemon with all that it has started. An error says that it had ended before.
func (n *node) stopLayer() error {
	l := n.layer
	if l == nil || l.running == nil {
		return nil
	}
	late, err := l.running.Stop()
	if late != nil {
		n.Say("%v", late)
	}
	killMarked(map[int]string{noSession: l.running.Token})
	if l.guard != nil {
		l.guard.close()
	}
	l.running.Forget()
	l.running = nil
	return err
}

func (l *layered) files() []string {
	if l == nil {
		return nil
	}
	return l.Files()
}

// interposes reports whether jobs have libraries of the layer in place of libcase.so.
func (l *layered) interposes() bool { return l != nil && l.Interposes() }

func (l *layered) preloads() bool { return l != nil && len(l.Preload) > 0 }

func (l *layered) preload() string { return strings.Join(l.Preload, ":") }

// owns reports whether the layer's daemon started a process.
func (l *layered) owns(pid int) bool { return l != nil && bears(pid, l.running.Token) }

// environment is what the layer adds to that of a job.
func (l *layered) environment(number int, spec *mixes.Job, devices []int, uuids []string) []string {
	if l == nil {
		return nil
	}
	j := layer.Job{Index: number, Bytes: spec.Footprint.Bytes, Share: spec.Share}
	for _, d := range devices {
		j.UUIDs, j.Devices = append(j.UUIDs, uuids[d]), append(j.Devices, l.capacities[d])
	}
	return l.running.Environment(j)
}

// notePreload says that a process of a job uses a device without the libraries that the layer preloads, which a statically linked
// program, for one, does not load.
func (x *Executor) notePreload(pid, device, job int, name string) {
	if !x.config.Layer.preloads() {
		return
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil || len(maps) == 0 { // it has ended
		return
	}
	for _, library := range x.config.Layer.Preload {
		if strings.Contains(string(maps), " "+library+"\n") {
			continue
		}
		e := results.Event{Kind: results.EventDoubt, Device: &device}
		who := "a job"
		if job >= 0 {
			e.Job, who = &job, fmt.Sprintf("job %d", x.number(job))
		}
		e.Detail = fmt.Sprintf("process %d (%.15s) of %s used GPU %d without %s, which layer %s preloads", pid, name, who, x.gpu(device), library, x.config.Layer.Name)
		x.config.Warn("%s", e.Detail)
		x.note(e)
	}
}
