package live

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner/surroundings"
)

// environment is a job's: the parent's without another MPS daemon, what the run needs, then the job's own.
// native/probe reads the CASE_ variables.
func (x *Executor) environment(job int, devices []int, seat seat, traces string) []string {
	spec := x.job(job).spec
	uuids, binding := x.config.UUIDs, "task"
	if len(devices) > 0 {
		uuids, binding = nil, "job"
		for _, d := range devices {
			uuids = append(uuids, x.config.UUIDs[d])
		}
	}
	visible := strings.Join(uuids, ",")
	own := os.Environ()
	if seat.step != nil {
		own = seat.step.Env
	}
	callers, _ := surroundings.WithoutMPS(own)
	env := slices.DeleteFunc(callers, func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"CASE_PIN", "CASE_FOOTPRINT", "CASE_DEVICES", "CASE_MPS_PIPES", "CASE_MPS_PIPE_DIRECTORY", "CASE_VISIBLE_DEVICES", "CASE_GUARD", "CASE_MOVABLE", "CASE_CAPACITY", "CASE_WAIT", "CASE_SHARED", "CASE_PRIORITY", "CASE_RESTART_KERNELS", "CASE_RANK", "CASE_RANKS", "CASE_PORTION", "CASE_PORTIONS", "CASE_RENDEZVOUS"}, key)
	})
	if x.config.ServerEnv != nil {
		device := 0 // the only one that CUDA shows, before the task is bound, where each has an MPS daemon of its own
		if len(devices) > 0 {
			device = devices[0]
		}
		env = append(env, x.config.ServerEnv(device)...)
	}
	if x.state != "" {
		env = append(env, "CASE_SHARED="+x.state, "CASE_PRIORITY="+strconv.Itoa(spec.Priority))
	}
	env = append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES="+visible,
		"CASE_SOCKET="+x.server.Path(), "CASE_TOKEN="+seat.token, "CASE_REQUIRED=1", "CASE_REPORT="+x.server.Report(), "CASE_BINDING="+binding)
	switch {
	case binding == "job":
	case spec.Pin:
		env = append(env, "CASE_PIN=1")
	default:
		env = append(env, "CASE_DEVICES="+visible)
		if len(x.config.Pipes) > 0 {
			env = append(env, "CASE_MPS_PIPES="+strings.Join(x.config.Pipes, ":"))
		}
	}
	f := spec.Footprint
	f.Bytes = max(f.Bytes, x.try(job).Bytes)
	if f != (mixes.Footprint{}) {
		env = append(env, fmt.Sprintf("CASE_FOOTPRINT=%d,%d,%d", f.Bytes, f.Blocks, f.ThreadsPerBlock))
	}
	if w := spec.Wait; w != nil {
		env = append(env, "CASE_WAIT="+waitText(*w))
	}
	if len(spec.RestartKernels) > 0 {
		env = append(env, "CASE_RESTART_KERNELS="+strings.Join(spec.RestartKernels, ","))
	}
	if binding == "task" {
		env = append(env, x.capacity())
	}
	if x.config.Swap != nil {
		env = append(env, "CASE_MOVABLE=1")
	}
	if x.config.Guard {
		env = append(env, "CASE_GUARD=1")
	}
	env = append(env, seat.environment()...)
	if spec.Portion > 0 {
		env = append(env, "CASE_PORTION="+strconv.Itoa(spec.Portion-1), "CASE_PORTIONS="+strconv.Itoa(spec.Portions))
	}
	env = append(env, x.tracing(traces)...)
	env = append(env, x.config.Layer.environment(x.number(job), spec, devices, x.config.UUIDs)...)
	env = append(env, spec.Env...)
	preload := x.preload
	if x.config.Layer.preloads() {
		preload = x.config.Layer.preload()
	}
	if preload == "" {
		return env
	}
	if users := lookup(env, "LD_PRELOAD"); users != "" {
		preload += ":" + users
	}
	return append(env, "LD_PRELOAD="+preload)
}

// capacity is how much memory a task may have, and how large a device is to seem.
func (x *Executor) capacity() string {
	var swap, seems int64
	if x.config.Swap != nil {
		swap = x.config.Swap.Bytes()
	}
	if x.config.Capped {
		seems = x.config.TaskBytes
	}
	return fmt.Sprintf("CASE_CAPACITY=%d,%d,%d", x.config.TaskBytes, swap, seems)
}

// waitText is a longest wait as native/probe/case.h takes it.
func waitText(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// lookup is a variable's value in an environment; the last entry counts.
func lookup(env []string, key string) string {
	for _, entry := range slices.Backward(env) {
		if k, value, _ := strings.Cut(entry, "="); k == key {
			return value
		}
	}
	return ""
}
