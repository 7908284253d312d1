package local

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/runner/harness"
)

// VisibleDevices is CUDA's variable. Slurm, among others, hands out a machine's GPUs with it.
const VisibleDevices = "CUDA_VISIBLE_DEVICES"

// chosen is the list of the GPUs to use, and who gave it, for messages. Both are empty where
// nobody did, which means all GPUs.
func chosen(devices string) (list, giver string, err error) {
	if devices != "" {
		return devices, "--devices " + devices, nil
	}
	list, set := os.LookupEnv(VisibleDevices)
	giver = VisibleDevices + "=" + list
	switch {
	case !set:
		return "", "", nil
	case strings.TrimSpace(list) == "", strings.TrimSpace(list) == "-1":
		return "", "", fmt.Errorf("%w: %s hides all of them, unless --devices names some", nvml.ErrNoGPU, giver)
	}
	return list, giver, nil
}

// Given says who chose the GPUs, for messages that count them; "" if nobody did.
func Given(devices string) string {
	if _, giver, _ := chosen(devices); giver != "" {
		return " (" + giver + ")"
	}
	return ""
}

// OpenGPUs opens NVML for the GPUs that devices lists. Without a list the GPUs are those of
// VisibleDevices, or all. The error matches nvml.ErrNoGPU where there is no GPU to use.
func OpenGPUs(devices string) (*nvml.Node, error) {
	list, giver, err := chosen(devices)
	if err != nil {
		return nil, err
	}
	node, err := nvml.Open()
	if err != nil && devices != "" {
		err = fmt.Errorf("%s: %w", giver, err)
	}
	if err != nil || list == "" {
		return node, err
	}
	if err := node.Select(list); err != nil {
		err = fmt.Errorf("%s: %w", giver, err)
		if devices == "" {
			err = fmt.Errorf("%w; or name GPUs with --devices, which goes before %s", err, VisibleDevices)
		}
		return nil, errors.Join(harness.Refuse(err), node.Close())
	}
	return node, nil
}
