package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/runner/sim"
)

const (
	localNode = "local"
	// fallbackNode is what runs use where there is no GPU.
	fallbackNode = "sim:4xV100"
)

// settleNode is the node that the configuration names, or what runs use where it
// names none.
func settleNode(c config, stderr io.Writer) (string, error) {
	switch {
	case strings.HasPrefix(c.Node, "sim:"), c.Node == localNode:
		return c.Node, nil
	case c.Node != "":
		return "", usageError(fmt.Errorf("node %q: use local, or sim:COUNTxMODEL such as %s", c.Node, fallbackNode))
	}
	node, err := nvml.Open()
	if errors.Is(err, nvml.ErrNoGPU) && !c.Trace {
		fmt.Fprintf(stderr, "caserun: %v; running SIMULATED on %s\n", err, fallbackNode)
		return fallbackNode, nil
	}
	if err != nil {
		return "", infrastructureError(err)
	}
	return localNode, infrastructureError(node.Close())
}

// nodeSize is how many devices a settled node has, and how many threads its host.
func nodeSize(node string) (devices, threads int, err error) {
	if node != localNode {
		n, err := sim.ParseNode(node)
		return n.Count, n.Threads(), usageError(err)
	}
	gpus, err := nvml.Open()
	if err != nil {
		return 0, 0, infrastructureError(err)
	}
	found, err := gpus.Devices()
	return len(found), runtime.NumCPU(), infrastructureError(errors.Join(err, gpus.Close()))
}

func simTraceError(node string) error {
	return usageError(fmt.Errorf("--trace: not available on %s: a simulated node runs no kernels; it always records one interval for each task's kernels", node))
}
