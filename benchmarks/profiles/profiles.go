// Package profiles holds what jobs do when they run alone: the phases that the
// simulated node replays.
//
// rodinia31_h200.csv was derived from one run each of the Rodinia 3.1 CUDA
// programs with the command lines of CASE's Table 1, alone on one NVIDIA H200
// (driver 580, 16 cores). host_before is wall time until the process first
// touched CUDA, host_held what remains after copies and kernels until it
// exits: the device memory is held for that long. The kernel times of srad_v2
// were lost at exit and are estimated from srad_v1's time per pixel and
// iteration; its copy back is taken to last as long as its copy in.
package profiles

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
)

// Profile is one job alone on the device it was measured on. Durations are
// seconds.
type Profile struct {
	Job           string
	HostBeforeS   float64
	HostHeldS     float64
	CopyInBytes   int64
	CopyInS       float64
	KernelS       float64 // all kernels together
	CopyOutBytes  int64
	CopyOutS      float64
	KernelAssumed bool // KernelS is an estimate
}

// WallS is the job's duration alone.
func (p Profile) WallS() float64 {
	return p.HostBeforeS + p.HostHeldS + p.CopyInS + p.KernelS + p.CopyOutS
}

//go:embed rodinia31_h200.csv
var rodinia string

var load = sync.OnceValues(func() (map[string]Profile, error) { return parse("rodinia31_h200.csv", rodinia) })

// Lookup returns the profile of the catalog job with that name.
func Lookup(job string) (Profile, error) {
	all, err := load()
	if err != nil {
		return Profile{}, err
	}
	p, ok := all[job]
	if !ok {
		return Profile{}, fmt.Errorf("no profile of job %q: a simulated node can only run the catalog's Rodinia jobs", job)
	}
	return p, nil
}

var header = []string{"job", "host_before_s", "host_held_s", "copy_in_bytes", "copy_in_s", "kernel_s",
	"copy_out_bytes", "copy_out_s", "kernel_estimated"}

func parse(file, text string) (map[string]Profile, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = len(header)
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read profiles %s: %w", file, err)
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != strings.Join(header, ",") {
		return nil, fmt.Errorf("read profiles %s: want the header %s", file, strings.Join(header, ","))
	}
	all := map[string]Profile{}
	for i, row := range rows[1:] {
		var v [9]float64
		for c := 1; c <= 7; c++ {
			if v[c], err = strconv.ParseFloat(row[c], 64); err != nil || !(v[c] >= 0) || math.IsInf(v[c], 1) {
				return nil, fmt.Errorf("read profiles %s: line %d: %s is %q, want a number that is not negative", file, i+2, header[c], row[c])
			}
		}
		if _, twice := all[row[0]]; twice {
			return nil, fmt.Errorf("read profiles %s: line %d: job %s is there twice", file, i+2, row[0])
		}
		all[row[0]] = Profile{Job: row[0], HostBeforeS: v[1], HostHeldS: v[2], CopyInBytes: int64(v[3]), CopyInS: v[4],
			KernelS: v[5], CopyOutBytes: int64(v[6]), CopyOutS: v[7], KernelAssumed: row[8] == "yes"}
	}
	return all, nil
}
