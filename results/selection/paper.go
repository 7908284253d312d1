package selection

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/userfile"
)

// Paper says which runs the paper's tables are made of.
type Paper struct {
	Of     *paper.Paper
	Sweeps []string // numbers or latest; none: the latest, unless Tag is given or the paper has no sweeps and all runs count
	Tag    string
	Nodes  []string // none: all nodes of the runs
	System string   // of the paper, with which all nodes are compared; "": by the node
	DB     string   // the store as the user named it
	// StoreFlag is the flag that the commands in hints need to find the store; "" for the
	// default store.
	StoreFlag string
	// Resume is how the commands find it that write to the store.
	Resume regress.StoreHint
	Say    func(format string, args ...any)
}

// NothingError says that no run is selected.
type NothingError struct{ why string }

func (e *NothingError) Error() string { return e.why }

// Nothing is a NothingError.
func Nothing(format string, args ...any) error { return &NothingError{fmt.Sprintf(format, args...)} }

// OnlyTimes reports whether the store is missing, and the paper's file of kernel times is in its folder.
func (p Paper) OnlyTimes() bool {
	return p.Of.Times != "" && len(p.Sweeps) == 0 && p.Tag == "" && userfile.Absent(p.DB) && !userfile.Absent(p.timesFile())
}

func (p Paper) timesFile() string { return filepath.Join(filepath.Dir(p.DB), p.Of.Times) }

// Select groups the selected runs by node, with what the paper's figures need of them. Without a store (OnlyTimes) or runs the paper's
// kernel times suffice, and it says so.
func (p Paper) Select(ctx context.Context, db *store.Store) ([]paper.Node, error) {
	times, err := p.times(ctx)
	if err != nil {
		return nil, err
	}
	var runs []results.Run
	if db == nil {
		err = Nothing("paper: no store %s. %s", p.DB, p.Of.Remedy)
	} else {
		runs, err = p.runs(ctx, db)
	}
	if none := (*NothingError)(nil); errors.As(err, &none) && len(times) > 0 && p.Tag == "" {
		p.Say("%s alone is shown, because runs are missing: %s", p.timesFile(), strings.TrimPrefix(none.why, "paper: "))
		return times, nil
	}
	if err != nil {
		return nil, err
	}
	if err := haveRuns(runs, p.Nodes); err != nil {
		return nil, err
	}
	nodes, err := p.Group(ctx, db, runs)
	return append(nodes, times...), err
}

// mostTimes bounds the file of times, in bytes.
const mostTimes = 16 << 20

// times are the kernel times in the paper's file beside the store, a node for each size; nil without such a file.
func (p Paper) times(ctx context.Context) (nodes []paper.Node, err error) {
	if p.Of.Times == "" {
		return nil, nil
	}
	file := p.timesFile()
	text, err := userfile.Read(ctx, file, mostTimes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	times, err := p.Of.ReadTimes(file, text)
	if err != nil {
		return nil, Refuse("%v", err)
	}
	for _, system := range p.Of.SystemNames() {
		own := slices.DeleteFunc(slices.Clone(times), func(t paper.Time) bool { return t.Size != system })
		if len(own) > 0 {
			nodes = append(nodes, paper.Node{Name: file, Mode: results.Live, System: system, Times: own})
		}
	}
	return nodes, nil
}

// haveRuns refuses a node on which none of the runs was made, unless there are no runs at all.
func haveRuns(runs []results.Run, wanted []string) error {
	var there []string
	for _, r := range runs {
		if !slices.Contains(there, r.Node) {
			there = append(there, r.Node)
		}
	}
	for _, node := range wanted {
		if len(runs) > 0 && !slices.Contains(there, node) {
			return Refuse("--node %s: none of the selected runs is on it: they are on %s", node, strings.Join(there, " and "))
		}
	}
	return nil
}

// Group groups runs by node, and by system if that follows from the runs.
func (p Paper) Group(ctx context.Context, db *store.Store, runs []results.Run) ([]paper.Node, error) {
	index := map[[2]string]int{}
	var nodes []paper.Node
	none := 0 // runs of no system
	for _, r := range runs {
		if len(p.Nodes) > 0 && !slices.Contains(p.Nodes, r.Node) {
			continue
		}
		system := ""
		if p.Of.ByRuns() {
			devices, err := db.Devices(ctx, r.ID)
			if err != nil {
				return nil, err
			}
			if system = p.Of.SystemOf(r.Mix, devices); system == "" {
				none++
				continue
			}
		}
		i, known := index[[2]string{r.Node, system}]
		if !known {
			n, err := p.node(ctx, db, r, system)
			if err != nil {
				return nil, err
			}
			i, index[[2]string{r.Node, system}] = len(nodes), len(nodes)
			nodes = append(nodes, n)
		}
		nodes[i].Runs = append(nodes[i].Runs, r)
	}
	if none > 0 {
		p.Say("%s left out: the paper has no such mix, or not with so much memory on a device", size.Count(none, "run"))
	}
	for i := range nodes {
		n := &nodes[i]
		var ids []int64
		for _, r := range n.Runs {
			ids = append(ids, r.ID)
		}
		devices, err := db.DevicesOf(ctx, store.Filter{IDs: ids})
		if err != nil {
			return nil, err
		}
		n.Machines = results.SeveralMachines(n.Runs, devices)
	}
	return nodes, nil
}

// undoubted leaves out doubtful runs, and says so.
func (p Paper) undoubted(runs []results.Run) []results.Run {
	kept := slices.DeleteFunc(slices.Clone(runs), func(r results.Run) bool { return r.Doubts != "" })
	if n := len(runs) - len(kept); n > 0 {
		p.Say("%s", results.SaysDoubtful(n))
	}
	return kept
}

// read are the runs that a filter selects. It says how many a user has excluded.
func (p Paper) read(ctx context.Context, db *store.Store, f store.Filter) ([]results.Run, error) {
	notes, err := LeftOut(ctx, db, f)
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		p.Say("%s", note)
	}
	return db.Runs(ctx, f)
}

// runs are the selected runs that are complete and not doubtful.
func (p Paper) runs(ctx context.Context, db *store.Store) ([]results.Run, error) {
	sweeps := p.Sweeps
	switch {
	case len(sweeps) > 0:
	case p.Tag != "" || len(p.Of.Sweeps) == 0:
		return p.ofStore(ctx, db)
	default:
		sweeps = []string{"latest"}
	}
	var runs []results.Run
	taken := map[int64]bool{} // a sweep named twice counts once
	for _, arg := range sweeps {
		sweep, err := Sweep(ctx, db, arg)
		if err != nil {
			return nil, err
		}
		if taken[sweep.ID] {
			continue
		}
		taken[sweep.ID] = true
		switch store.Standing(sweep) {
		case results.Complete:
		case results.Running:
			p.Say("sweep %d is under way: the runs that it has done count", sweep.ID)
		default:
			p.Say("sweep %d is interrupted: its complete runs count; caserun sweep --resume %d%s does the others%s", sweep.ID, sweep.ID, p.Resume.Flag, p.Resume.Unpack)
		}
		more, err := p.read(ctx, db, store.Filter{Sweep: sweep.ID, Status: results.Complete})
		if err != nil {
			return nil, err
		}
		runs = append(runs, p.undoubted(more)...)
	}
	return runs, nil
}

// ofStore are the runs of all sweeps and of none that have the tag, or are of the paper's mixes.
func (p Paper) ofStore(ctx context.Context, db *store.Store) ([]results.Run, error) {
	runs, err := p.read(ctx, db, store.Filter{Tag: p.Tag, Status: results.Complete})
	if err != nil {
		return nil, err
	}
	nothing := Nothing("paper: no complete run in %s has the tag %s; caserun report%s lists what there is", p.DB, p.Tag, p.StoreFlag)
	if p.Tag == "" {
		runs = slices.DeleteFunc(runs, func(r results.Run) bool { return !p.Of.Has(r.Mix) })
		nothing = Nothing("paper: no complete run in %s is of a mix of the paper. %s", p.DB, p.Of.Remedy)
	}
	if len(runs) == 0 {
		return nil, nothing
	}
	return p.undoubted(runs), nil
}

// node is a run's node without its runs. If system is empty, the node says what it is.
func (p Paper) node(ctx context.Context, db *store.Store, r results.Run, system string) (paper.Node, error) {
	devices, err := db.Devices(ctx, r.ID)
	if err == nil && system == "" {
		system, err = p.SystemFor(r.Node, len(devices))
	}
	if err != nil {
		return paper.Node{}, err
	}
	hardware, capacity := report.DeviceNames(devices), int64(0)
	if n := int64(len(devices)); n > 0 {
		var each []string // that differ
		for _, d := range devices {
			capacity += d.CapacityBytes
			if text := report.Human(float64(d.CapacityBytes), report.Bytes); !slices.Contains(each, text) {
				each = append(each, text)
			}
		}
		capacity /= n
		hardware += fmt.Sprintf(", of each %s for jobs", strings.Join(each, " or "))
	}
	return paper.Node{Name: r.Node, Hardware: hardware, Mode: r.Mode, Devices: len(devices), System: system, CapacityBytes: capacity,
		Utilization: func(r results.Run) ([]results.Segment, error) { return utilization(ctx, db, r) },
		Trace:       func(run int64) (results.Traced, error) { return traced(ctx, db, run) },
		Jobs:        func(run int64) ([]results.Job, error) { return db.Jobs(ctx, run) },
		Events:      func(run int64) ([]results.Event, error) { return db.Events(ctx, run) },
		Ranks:       func(run int64) ([]results.Rank, error) { return db.Ranks(ctx, run) },
		Tasks:       func(run int64) ([]results.Task, error) { return db.Tasks(ctx, run) }}, nil
}

// utilization reads what paper.Node.Utilization has.
func utilization(ctx context.Context, db *store.Store, r results.Run) ([]results.Segment, error) {
	if r.Mode != results.Simulated || r.Metrics.MakespanS == nil {
		return db.Segments(ctx, r.ID)
	}
	devices, err := db.Devices(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	var resident results.Residence
	err = db.EachKernel(ctx, r.ID, func(k results.Kernel) error { resident.Add(k); return nil })
	return resident.Segments(devices, *r.Metrics.MakespanS), err
}

// SystemFor is the paper's system with which a node is compared.
func (p Paper) SystemFor(node string, devices int) (string, error) {
	if p.System != "" {
		return p.System, nil
	}
	system, err := p.Of.SystemFor(node, devices)
	if err != nil {
		return "", Refuse("%v, with --as", err)
	}
	return system, nil
}
