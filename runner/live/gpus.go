package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/slurm"
)

// VisibleDevices is CUDA's variable. Slurm, among others, hands out a machine's GPUs with it.
const VisibleDevices = "CUDA_VISIBLE_DEVICES"

// noDevices are values of VisibleDevices for no GPU, beside an empty one: CUDA's documentation has the first, and some batch systems set the other.
var noDevices = []string{"-1", "NoDevFiles"}

// hidesAll reports whether a value of VisibleDevices begins with one of noDevices. CUDA does not look at what follows.
func hidesAll(list string) bool {
	first, _, _ := strings.Cut(list, ",")
	return slices.Contains(noDevices, strings.TrimSpace(first))
}

// chosen is the list of the GPUs to use, and who gave it, for messages. Both are empty where
// nobody did, which means all GPUs. In a job of Slurm somebody must.
func chosen(devices string, job *slurm.Allocation) (list, giver string, err error) {
	if devices != "" {
		return devices, "--devices " + devices, nil
	}
	list, set := os.LookupEnv(VisibleDevices)
	giver = VisibleDevices + "=" + list
	switch {
	case !set && job != nil:
		return "", "", fmt.Errorf("%w: job %s of Slurm was given none (%s is not set): submit it with --gres=gpu:N, or name GPUs with --devices if the whole node is the job's", nvml.ErrNoGPU, job.Job, VisibleDevices)
	case !set:
		return "", "", nil
	case strings.TrimSpace(list) == "", hidesAll(list):
		return "", "", fmt.Errorf("%w: %s hides all of them, unless --devices names some", nvml.ErrNoGPU, giver)
	}
	return list, giver, nil
}

// Given says who chose the GPUs, for messages that count them; "" if nobody did.
func Given(devices string) string {
	if _, giver, _ := chosen(devices, nil); giver != "" {
		return " (" + giver + ")"
	}
	return ""
}

// OpenGPUs opens NVML for the GPUs that devices lists. Without a list the GPUs are those of
// VisibleDevices, or all. In a job of Slurm devices must be among those of VisibleDevices. The error
// matches nvml.ErrNoGPU where there is no GPU to use. A GPU that cannot be used is an error only if it is among these.
func OpenGPUs(ctx context.Context, devices string) (*nvml.Node, error) {
	node, err := FindGPUs(ctx, devices)
	if err != nil {
		return nil, err
	}
	if bad := node.Unusable(); len(bad) > 0 {
		return nil, errors.Join(fmt.Errorf("%w; name other GPUs with --devices", errors.Join(bad...)), node.Close())
	}
	return node, nil
}

// FindGPUs is OpenGPUs with GPUs that cannot be used, if nobody has chosen the GPUs.
func FindGPUs(ctx context.Context, devices string) (*nvml.Node, error) {
	job, err := slurm.Current()
	if err != nil {
		return nil, harness.Refuse(err)
	}
	list, giver, err := chosen(devices, job)
	if err != nil {
		return nil, err
	}
	within := ""
	if job != nil && devices != "" {
		if within = os.Getenv(VisibleDevices); hidesAll(within) {
			return nil, harness.Refuse(fmt.Errorf("%s: job %s of Slurm was given no GPU (%s=%s)", giver, job.Job, VisibleDevices, within))
		}
	}
	node, err := nvml.Open(ctx)
	if err != nil && devices != "" {
		err = fmt.Errorf("%s: %w", giver, err)
	}
	if err != nil || list == "" {
		return node, err
	}
	if err := node.Select(list, within); err != nil {
		err = fmt.Errorf("%s: %w", giver, err)
		if within != "" {
			err = fmt.Errorf("%w; %s has the GPUs of job %s of Slurm", err, VisibleDevices, job.Job)
		}
		if devices == "" {
			err = fmt.Errorf("%w; or name GPUs with --devices, which goes before %s", err, VisibleDevices)
		}
		if !errors.Is(err, nvml.ErrUnusable) {
			err = harness.Refuse(err)
		}
		return nil, errors.Join(err, node.Close())
	}
	return node, nil
}

// closeGPUs ends the session of NVML. A shutdown that does not return is said, and spoils nothing: the process ends without it.
func closeGPUs(node *nvml.Node, say harness.Say) error {
	err := node.Close()
	if errors.Is(err, nvml.ErrHung) {
		say("%v; it is skipped, and what was measured before counts", err)
		return nil
	}
	return err
}
