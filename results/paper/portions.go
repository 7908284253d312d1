package paper

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/results"
)

// Figures of where the portions of a run's jobs were done, on a system whose devices are of several hosts.
var ofPortions = map[string]func(placed, int) *float64{
	"load_of_host":     func(p placed, host int) *float64 { return p.load(host) },
	"lead_of_host":     func(p placed, host int) *float64 { return p.lead(host) },
	"saved_over_whole": func(p placed, _ int) *float64 { return p.saved(placed.whole) },
	"saved_over_parts": func(p placed, _ int) *float64 { return p.saved(placed.parts) },
}

// portionsFigure finds a figure of portions by its name, which may end with the number of a host, from 1.
func portionsFigure(name string) (of func(placed) *float64, known bool) {
	number := name[strings.LastIndex(name, "_")+1:]
	host, err := strconv.Atoi(number)
	if err == nil {
		name = strings.TrimSuffix(name, "_"+number)
	}
	figure, known := ofPortions[name]
	return func(p placed) *float64 { return figure(p, host-1) }, known
}

// placed are the hosts that did the portions of a run's jobs: a list for each job, by the numbers of its portions.
type placed struct {
	hosts int
	jobs  [][]int
}

// placed is where the portions of a run were done. It has no jobs if a portion has no device.
func (a *arms) placed(r results.Run) (placed, error) {
	p := placed{hosts: len(a.paper.system(a.node.System).Hosts)}
	ranks, err := a.node.Ranks(r.ID)
	if err != nil {
		return p, err
	}
	for _, k := range ranks { // by job, and by their numbers
		if !k.Portion || k.Device == nil {
			return placed{}, nil
		}
		if k.Rank == 0 {
			p.jobs = append(p.jobs, nil)
		}
		last := &p.jobs[len(p.jobs)-1]
		*last = append(*last, a.hostOf(*k.Device))
	}
	return p, nil
}

// hostOf is the host of a device of the system.
func (a *arms) hostOf(device int) int {
	for host, devices := range a.paper.system(a.node.System).Hosts {
		if device < devices {
			return host
		}
		device -= devices
	}
	return -1
}

// load is the share of the portions that a host did; nil: there are none.
func (p placed) load(host int) *float64 {
	done, all := 0, 0
	for _, job := range p.jobs {
		for _, at := range job {
			if all++; at == host {
				done++
			}
		}
	}
	if all == 0 {
		return nil
	}
	return new(float64(done) / float64(all))
}

// lead is the share of a host over the largest share of another; above 1 it did the most.
func (p placed) lead(host int) *float64 {
	most := 0.0
	for other := range p.hosts {
		if share := p.load(other); share != nil && other != host {
			most = max(most, *share)
		}
	}
	own := p.load(host)
	if own == nil || most == 0 {
		return nil
	}
	return new(*own / most)
}

// A product of matrices is divided into M × M portions. A portion reads a block of rows of one matrix and a block of columns of the
// other, and writes a block of the result. The matrices are on the first host, so what it does is no traffic between hosts. Portions of a host share what
// was copied to it (ivmMapSubset). All traffic is in matrices.

// saved is the part of other traffic that is saved if a host gets each block that its portions read once.
func (p placed) saved(other func(placed, func(host int) []int, int) float64) *float64 {
	had, otherwise := 0.0, 0.0
	for _, job := range p.jobs {
		m := int(math.Round(math.Sqrt(float64(len(job)))))
		if m*m != len(job) {
			return nil
		}
		of := func(host int) (portions []int) {
			for portion, at := range job {
				if at == host {
					portions = append(portions, portion)
				}
			}
			return portions
		}
		for host := 1; host < p.hosts; host++ {
			var rows, columns []int
			for _, portion := range of(host) {
				rows, columns = append(rows, portion/m), append(columns, portion%m)
			}
			slices.Sort(rows)
			slices.Sort(columns)
			result := float64(len(rows)) / float64(m*m)
			had += float64(len(slices.Compact(rows))+len(slices.Compact(columns)))/float64(m) + result
			otherwise += result
		}
		otherwise += other(p, of, m)
	}
	if otherwise == 0 {
		return nil
	}
	return new(1 - had/otherwise)
}

// whole is what hosts get that have any portion, if each gets both matrices.
func (p placed) whole(of func(host int) []int, _ int) (matrices float64) {
	for host := 1; host < p.hosts; host++ {
		if len(of(host)) > 0 {
			matrices += 2
		}
	}
	return matrices
}

// parts is what hosts get if each portion gets its own blocks, and none are shared.
func (p placed) parts(of func(host int) []int, m int) (matrices float64) {
	for host := 1; host < p.hosts; host++ {
		matrices += float64(len(of(host))) * 2 / float64(m)
	}
	return matrices
}
