package nvml

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"sort"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Process holds a compute context on a device.
type Process struct {
	PID int
	// UsedBytes is nil if the driver does not know, as in some containers and under WSL.
	UsedBytes *uint64
	// MPS marks a client of an MPS server.
	MPS bool
}

// Processes lists by PID the processes with compute contexts on the device at position index,
// MPS clients included. PIDs are of the driver's PID namespace and may be unknown inside a
// container.
func (n *Node) Processes(index int) ([]Process, error) {
	if index < 0 || index >= len(n.handles) {
		return nil, fmt.Errorf("list processes of GPU %d: the node has %d", index, len(n.handles))
	}
	h := n.handles[index]
	found, err := bounded(n, h, func() ([]Process, error) { return n.processes(h) })
	if err != nil {
		return nil, fmt.Errorf("list processes of GPU %s: %w", h.id, err)
	}
	return found, nil
}

// Users is Processes for looks that come again and again: it makes one call of the driver, and says how much processor time that took.
// Under MPS it makes a second one until it has seen that the first lists the clients too, as drivers do today (H200, driver 580).
func (n *Node) Users(index int, underMPS bool) (found []Process, took time.Duration, err error) {
	if index < 0 || index >= len(n.handles) {
		return nil, 0, fmt.Errorf("look at the processes of GPU %d: the node has %d", index, len(n.handles))
	}
	h := n.handles[index]
	type look struct {
		found []Process
		took  time.Duration
	}
	seen, err := bounded(n, h, func() (look, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := threadCPU()
		found, err := n.users(h, underMPS)
		return look{found, threadCPU() - before}, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("look at the processes of GPU %s: %w", h.id, err)
	}
	return seen.found, seen.took, nil
}

func (n *Node) users(h handle, underMPS bool) ([]Process, error) {
	if err := cmp.Or(h.err, h.there()); err != nil {
		return nil, err
	}
	compute, err := n.listed(h, computeProcesses)
	if err != nil || !underMPS || n.listsClients.Load() {
		return mergeProcesses(compute, nil), err
	}
	mps, err := n.listed(h, mpsProcesses)
	if optional(err) != nil {
		return nil, err
	}
	all := mergeProcesses(compute, mps)
	if len(mps) > 0 && len(all) == len(compute) {
		n.listsClients.Store(true)
	}
	return all, nil
}

func (n *Node) processes(h handle) ([]Process, error) {
	if err := cmp.Or(h.err, h.there()); err != nil {
		return nil, err
	}
	compute, err := n.listed(h, computeProcesses)
	if err != nil {
		return nil, err
	}
	mps, err := n.listed(h, mpsProcesses)
	if optional(err) != nil {
		return nil, err
	}
	return mergeProcesses(compute, mps), nil
}

// mergeProcesses joins the two lists. A client may be in both.
func mergeProcesses(compute, mps []nvml.ProcessInfo) []Process {
	byPID := map[int]Process{}
	add := func(list []nvml.ProcessInfo, isMPS bool) {
		for _, info := range list {
			p := byPID[int(info.Pid)]
			p.PID = int(info.Pid)
			p.MPS = p.MPS || isMPS
			// NVML_VALUE_NOT_AVAILABLE is -1 as an unsigned 64-bit number.
			if used := info.UsedGpuMemory; used != math.MaxUint64 {
				p.UsedBytes = &used
			}
			byPID[p.PID] = p
		}
	}
	add(compute, false)
	add(mps, true)
	out := make([]Process, 0, len(byPID))
	for _, p := range byPID {
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].PID < out[j].PID })
	return out
}
