package live

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/layer"
)

// layered is the layer of a file that a run's jobs run under. All methods may be called of nil, which is none.
type layered struct {
	*layer.Layer
	capacities []int64 // of the devices, in bytes
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
	return &layered{Layer: read}, nil
}

func (l *layered) files() []string {
	if l == nil {
		return nil
	}
	return l.Files()
}

// preloads reports whether jobs preload the layer's libraries in place of libcase.so, because both override the same calls.
func (l *layered) preloads() bool { return l != nil && len(l.Preload) > 0 }

func (l *layered) preload() string { return strings.Join(l.Preload, ":") }

// settle takes in the devices of the run.
func (l *layered) settle(devices []results.Device) {
	for _, d := range devices {
		l.capacities = append(l.capacities, d.CapacityBytes)
	}
}

// environment is what the layer adds to that of a job.
func (l *layered) environment(number int, spec *mixes.Job, devices []int, uuids []string) []string {
	if l == nil {
		return nil
	}
	j := layer.Job{Index: number, Bytes: spec.Footprint.Bytes, Share: spec.Share}
	for _, d := range devices {
		j.UUIDs, j.Devices = append(j.UUIDs, uuids[d]), append(j.Devices, l.capacities[d])
	}
	return l.Environment(j, uuids)
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
