package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers/policies"
)

const (
	localNode = "local"
	// fallbackNode is what runs use where there is no GPU.
	fallbackNode = "sim:4xV100"
	// visibleDevices is CUDA's variable, with which Slurm among others hands out
	// the GPUs of a machine.
	visibleDevices = "CUDA_VISIBLE_DEVICES"
)

// gpus is the list of the GPUs to use, and who gave it, for messages. Both are
// empty where nobody did: that is all GPUs.
func (c config) gpus() (list, giver string, err error) {
	if c.Devices != "" {
		return c.Devices, "--devices " + c.Devices, nil
	}
	list, set := os.LookupEnv(visibleDevices)
	giver = visibleDevices + "=" + list
	switch {
	case !set:
		return "", "", nil
	case strings.TrimSpace(list) == "", strings.TrimSpace(list) == "-1":
		return "", "", fmt.Errorf("%w: %s hides all of them, unless --devices names some", nvml.ErrNoGPU, giver)
	}
	return list, giver, nil
}

// gpusGiven is for messages that count the GPUs to use.
func (c config) gpusGiven() string {
	if _, giver, _ := c.gpus(); giver != "" {
		return " (" + giver + ")"
	}
	return ""
}

// openGPUs opens NVML for the GPUs to use. Its error matches nvml.ErrNoGPU where
// there is none, and has the exit status.
func openGPUs(c config) (*nvml.Node, error) {
	list, giver, err := c.gpus()
	if err != nil {
		return nil, infrastructureError(err)
	}
	node, err := nvml.Open()
	if err != nil && c.Devices != "" {
		err = fmt.Errorf("%s: %w", giver, err)
	}
	if err != nil || list == "" {
		return node, infrastructureError(err)
	}
	if err := node.Select(list); err != nil {
		err = fmt.Errorf("%s: %w", giver, err)
		if c.Devices == "" {
			err = fmt.Errorf("%w; or name GPUs with --devices, which goes before %s", err, visibleDevices)
		}
		return nil, errors.Join(usageError(err), node.Close())
	}
	return node, nil
}

// settleNode is the node that the configuration names, or what runs use where it
// names none.
func settleNode(c config, stderr io.Writer) (string, error) {
	switch {
	case strings.HasPrefix(c.Node, "sim:") && c.Devices != "":
		return "", usageError(fmt.Errorf("--devices %s: %s has none of this machine's GPUs: name --node local, or no devices (--devices= where a file or the environment does)", c.Devices, c.Node))
	case strings.HasPrefix(c.Node, "sim:"), c.Node == localNode:
		return c.Node, nil
	case c.Node != "":
		return "", usageError(fmt.Errorf("node %q: use local, or sim:COUNTxMODEL such as %s", c.Node, fallbackNode))
	}
	node, err := openGPUs(c)
	if errors.Is(err, nvml.ErrNoGPU) && !c.Trace && c.Devices == "" {
		fmt.Fprintf(stderr, "caserun: %v; running SIMULATED on %s\n", err, fallbackNode)
		return fallbackNode, nil
	}
	if err != nil {
		return "", err
	}
	return localNode, infrastructureError(node.Close())
}

// nodeSize is how many devices the configuration's settled node has, and how many
// threads its host.
func nodeSize(c config) (devices, threads int, err error) {
	if c.Node != localNode {
		n, err := sim.ParseNode(c.Node)
		return n.Count, n.Threads(), usageError(err)
	}
	gpus, err := openGPUs(c)
	if err != nil {
		return 0, 0, err
	}
	found, err := gpus.Devices()
	return len(found), runtime.NumCPU(), infrastructureError(errors.Join(err, gpus.Close()))
}

// checkSimulated refuses a scheduler that a simulated node has no use for.
func checkSimulated(s policies.Scheduler, node string) error {
	if s.ClientsDecide {
		return usageError(fmt.Errorf("--sched %s:arch=shared: not available on %s: a simulated node has no processes that could decide for themselves; arch=server has the same policies", s.Name, node))
	}
	return nil
}

func simTraceError(node string) error {
	return usageError(fmt.Errorf("--trace: not available on %s: a simulated node runs no kernels; it always records one interval for each task's kernels", node))
}
