package swaparea

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/surroundings"
)

// Rates is what moving memory between a GPU and the host costs (native/ballast/swaprate.c).
type Rates struct {
	Make  float64 `json:"make"`     // bytes/s of making page-locked host memory
	Out   float64 `json:"out"`      // bytes/s of copies to the host
	In    float64 `json:"in"`       // bytes/s of copies to the GPU
	First float64 `json:"first_us"` // microseconds to reach a piece of host memory for the first time
	OutUS float64 `json:"out_us"`   // microseconds for a piece that goes out, beside the copy
	MapUS float64 `json:"map_us"`   // microseconds to map a piece from the host, where it stays
	InUS  float64 `json:"in_us"`    // microseconds for a piece that comes in, beside the copy
	Whole bool    `json:"whole"`    // contents stay the same
}

// Measure runs bin on a device, an ordinal in PCI bus order or a UUID, and moves so many pieces, 1024 at
// most.
func Measure(ctx context.Context, bin, device string, pieces int) (Rates, error) {
	cmd := exec.CommandContext(ctx, bin, device, strconv.Itoa(pieces))
	cmd.Env, _ = surroundings.WithoutMPS(os.Environ())
	r, err := child.Report[Rates](cmd)
	if err != nil {
		return Rates{}, fmt.Errorf("measure swapping on GPU %s: %w", device, err)
	}
	return r, nil
}
