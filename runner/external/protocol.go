package external

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/userfile/strictjson"
)

// The messages of the protocol, which docs/reference/policy-protocol.md describes for users. Each is a JSON object
// on a line of its own. A question has an id, and its answer repeats it.

// The versions that this package speaks. The greeting is the same in all, and a program's answer to it says which version the program
// speaks. Version 2 tells more, and lets a program take memory back.
const (
	first  = 1
	second = 2
)

type (
	hello struct {
		ID           uint64 `json:"id"`
		Kind         string `json:"kind"` // hello
		Protocol     int    `json:"protocol"`
		SlotsPerWarp int    `json:"slots_per_warp"`
	}
	placeQuestion struct {
		ID      uint64   `json:"id"`
		Kind    string   `json:"kind"`             // place
		Now     *int64   `json:"now_ns,omitempty"` // since the batch's arrival; nil in version 1
		Task    task     `json:"task"`
		Latest  *int     `json:"latest"` // null before the first grant
		Devices []device `json:"devices"`
	}
	growQuestion struct {
		ID     uint64 `json:"id"`
		Kind   string `json:"kind"` // grow
		Now    *int64 `json:"now_ns,omitempty"`
		Bytes  int64  `json:"bytes"`
		Device usage  `json:"device"`
	}
	reshapeQuestion struct {
		ID     uint64    `json:"id"`
		Kind   string    `json:"kind"` // reshape
		Now    *int64    `json:"now_ns,omitempty"`
		Task   task      `json:"task"`
		At     placement `json:"at"`
		Device usage     `json:"device"` // without the task's blocks
	}
)

// task is a schedulers.Task.
type task struct {
	ID              schedulers.TaskID `json:"id"`
	Job             schedulers.JobID  `json:"job"`
	Process         int               `json:"process"`
	Bytes           int64             `json:"bytes"`
	Blocks          uint64            `json:"blocks"`
	ThreadsPerBlock uint32            `json:"threads_per_block"`
	BlocksPerSM     uint32            `json:"blocks_per_sm"`
	WarpsPerBlock   uint64            `json:"warps_per_block"`
	Warps           uint64            `json:"warps"`
	GridUnknown     bool              `json:"grid_unknown"`
	Managed         bool              `json:"managed"`
	OnDevice        *int              `json:"on_device"`
	Priority        int               `json:"priority"`
	Isolate         bool              `json:"isolate"`
	*more
}

// more is what version 2 says of a task.
type more struct {
	NeedBytes int64   `json:"need_bytes"`
	Devices   int     `json:"devices"`
	Share     float64 `json:"share"`
	Due       *int64  `json:"due_ns"`
	Expected  *int64  `json:"expected_ns"`
	MaxWait   *int64  `json:"max_wait_ns"`
}

func (p *Policy) taskOf(t schedulers.Task) task {
	out := task{ID: t.ID, Job: t.Job, Process: t.Serial, Bytes: t.Bytes, Blocks: t.Blocks, ThreadsPerBlock: t.ThreadsPerBlock,
		BlocksPerSM: t.BlocksPerSM, WarpsPerBlock: t.WarpsPerBlock(), Warps: t.Warps(), GridUnknown: t.GridUnknown, Managed: t.Managed,
		OnDevice: t.OnDevice, Priority: t.Priority, Isolate: t.Isolate}
	if p.greeting.Protocol >= second {
		terms := t.Terms.OrNone()
		out.more = &more{NeedBytes: t.Needs(), Devices: max(1, terms.Devices), Share: float64(terms.Share) / schedulers.WholeDevice}
		if terms.Due > 0 {
			out.Due = new(terms.Due.Nanoseconds())
		}
		if terms.Expected != nil {
			out.Expected = new(terms.Expected.Nanoseconds())
		}
		if terms.MaxWait > 0 {
			out.MaxWait = new(terms.MaxWait.Nanoseconds())
		}
	}
	return out
}

// usage is what a device has and what is in use there, whoever asks.
type usage struct {
	Name                string `json:"name"`
	CapacityBytes       int64  `json:"capacity_bytes"`
	ContextReserveBytes int64  `json:"context_reserve_bytes"`
	SMs                 int    `json:"sms"`
	WarpsPerSM          int    `json:"warps_per_sm"`
	BlocksPerSM         int    `json:"blocks_per_sm"`
	FreeBytes           int64  `json:"free_bytes"`
	UsedWarps           uint64 `json:"used_warps"`
	Tasks               int    `json:"tasks"`
	Jobs                int    `json:"jobs"`
	Saturated           bool   `json:"saturated"`
	FreeBlocks          []int  `json:"free_blocks,omitempty"` // by SM; these three only if the greeting asks for SMs
	FreeSlots           []int  `json:"free_slots,omitempty"`
	NextSM              *int   `json:"next_sm,omitempty"`
	*moreUsage
}

// moreUsage is what version 2 says of a device.
type moreUsage struct {
	UsedBytes int64       `json:"used_bytes"`
	Permits   int         `json:"permits"`
	Closed    bool        `json:"closed"`
	Residents *[]resident `json:"residents,omitempty"` // only of a program that takes back
}

func (p *Policy) usageOf(d schedulers.DeviceView) usage {
	l := d.Limits()
	u := usage{Name: l.Name, CapacityBytes: l.CapacityBytes, ContextReserveBytes: l.ContextBytes, SMs: l.SMs, WarpsPerSM: l.WarpsPerSM,
		BlocksPerSM: l.BlocksPerSM, FreeBytes: d.FreeBytes(), UsedWarps: d.UsedWarps(), Tasks: d.Tasks(), Jobs: d.Jobs(), Saturated: d.Saturated()}
	if p.greeting.SMs {
		for i := range l.SMs {
			m := d.SM(i)
			u.FreeBlocks, u.FreeSlots = append(u.FreeBlocks, m.FreeBlocks), append(u.FreeSlots, m.FreeSlots)
		}
		u.NextSM = new(d.NextSM())
	}
	if p.greeting.Protocol >= second {
		u.moreUsage = &moreUsage{UsedBytes: d.UsedBytes(), Permits: d.Permits(), Closed: d.Closed()}
		if p.greeting.TakesBack {
			u.Residents = new(p.residentsOf(d))
		}
	}
	return u
}

// device is a usage with its number and, in place, with what depends on the task.
type device struct {
	Device int `json:"device"`
	usage
	*asked
}

// asked is what a device is to a task that asks for one.
type asked struct {
	ContextBytes int64 `json:"context_bytes"`
	TasksOfJob   int   `json:"tasks_of_job"`
	Open         bool  `json:"open"`
	*context
}

// context is what version 2 says of the task's process on a device.
type context struct {
	Here   bool `json:"context_here"`
	Permit bool `json:"permit_here"`
}

func (p *Policy) devicesOf(v schedulers.View, t *schedulers.Task) []device {
	out := make([]device, v.Len())
	for i := range out {
		d := v.Device(i)
		out[i] = device{Device: i, usage: p.usageOf(d)}
		if t != nil {
			out[i].asked = p.askedOf(d, *t)
		}
	}
	return out
}

func (p *Policy) askedOf(d schedulers.DeviceView, t schedulers.Task) *asked {
	a := &asked{ContextBytes: d.ContextBytes(t), TasksOfJob: d.TasksOf(t.Job), Open: d.Open(t)}
	if p.greeting.Protocol >= second {
		here, permit := d.Context(t.Process())
		a.context = &context{here, permit}
	}
	return a
}

type greeting struct {
	ID        *uint64  `json:"id"`
	Protocol  int      `json:"protocol"`
	Promises  []string `json:"promises"`
	Asks      []string `json:"asks"`
	SMs       bool     `json:"sms"`
	TakesBack bool     `json:"takes_back"` // these three in version 2
	Looks     *int64   `json:"look_every_ns"`
	Bursts    bool     `json:"bursts"`
}

// placement is a schedulers.Placement.
type placement struct {
	Device      int   `json:"device"`
	Blocks      []int `json:"blocks,omitempty"`
	WarpSlots   int   `json:"warp_slots,omitempty"`
	NextSM      int   `json:"next_sm,omitempty"`
	Exclusive   bool  `json:"exclusive,omitempty"`
	WholeMemory bool  `json:"whole_memory,omitempty"`
}

func placementOf(p schedulers.Placement) placement {
	return placement{p.Device, p.Blocks, p.WarpSlots, p.NextSM, p.Exclusive, p.WholeMemory}
}

func (p placement) placement() schedulers.Placement {
	return schedulers.Placement{Device: p.Device, Blocks: p.Blocks, WarpSlots: p.WarpSlots, NextSM: p.NextSM, Exclusive: p.Exclusive, WholeMemory: p.WholeMemory}
}

type placeAnswer struct {
	ID *uint64 `json:"id"`
	placement
	Device given `json:"device"` // of the placement; null: the task waits
}

// given is a number or null that an answer has.
type given struct {
	there  bool
	number *int
}

// UnmarshalJSON implements json.Unmarshaler. It is called for null too, and not for a field that is left out.
func (g *given) UnmarshalJSON(text []byte) error {
	g.there = true
	return json.Unmarshal(text, &g.number)
}

// at is the placement of an answer with a device.
func (a placeAnswer) at() placement {
	p := a.placement
	p.Device = *a.Device.number
	return p
}

type growAnswer struct {
	ID   *uint64 `json:"id"`
	Grow *bool   `json:"grow"`
}

func (a greeting) id() *uint64    { return a.ID }
func (a placeAnswer) id() *uint64 { return a.ID }
func (a growAnswer) id() *uint64  { return a.ID }

// The promises that a policy can make in its greeting.
const (
	memoryHard      = "memory-hard"
	placesWhatFits  = "places-what-fits"
	oneJobPerDevice = "one-job-per-device"
)

// The questions that a policy can ask for in its greeting, beside place.
const (
	asksGrow    = "grow"
	asksReshape = "reshape"
	asksTick    = "tick" // of one that takes back
)

func (g greeting) check() error {
	asks := []string{asksGrow, asksReshape}
	switch {
	case g.Protocol != first && g.Protocol != second:
		return fmt.Errorf("it speaks protocol %d, and this caserun speaks protocols %d and %d: let it answer with one of these, or take a caserun that speaks its own", g.Protocol, first, second)
	case g.Protocol == first && (g.TakesBack || g.Looks != nil || g.Bursts):
		return fmt.Errorf("takes_back, look_every_ns and bursts are of protocol %d: let it answer with that one", second)
	case g.TakesBack:
		asks = append(asks, asksTick)
	case g.Looks != nil || g.Bursts:
		return errors.New("look_every_ns and bursts without takes_back: only a policy that takes back has activity pages and permits")
	case g.Protocol == second && slices.Contains(g.Asks, asksTick):
		return errors.New("asks has tick without takes_back: only a policy that takes back acts at a tick")
	}
	if l := g.Looks; l != nil && *l != 0 && (*l < leastWait.Nanoseconds() || *l > mostWait.Nanoseconds()) {
		return fmt.Errorf("look_every_ns is %d: want nanoseconds from %d to %d, or 0, which is never", *l, leastWait.Nanoseconds(), mostWait.Nanoseconds())
	}
	for _, list := range []struct {
		field        string
		items, known []string
	}{
		{"promises", g.Promises, []string{memoryHard, placesWhatFits, oneJobPerDevice}},
		{"asks", g.Asks, asks},
	} {
		for _, item := range list.items {
			if !slices.Contains(list.known, item) {
				return fmt.Errorf("%s has %q: want some of %q", list.field, item, list.known)
			}
		}
	}
	if slices.Contains(g.Promises, placesWhatFits) && !slices.Contains(g.Promises, memoryHard) {
		return fmt.Errorf("promises has %q without %q: only memory can tell what fits", placesWhatFits, memoryHard)
	}
	return nil
}

// read reads an answer, which is one JSON object with no unknown fields, because a misspelt field
// would count as left out.
func read[Answer interface{ id() *uint64 }](line []byte, id uint64) (a Answer, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err = d.Decode(&a)
	if errors.Is(err, io.EOF) {
		return a, errors.New("the line is empty: want one JSON object")
	}
	if err != nil {
		return a, strictjson.Plainly(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return a, errors.New("more follows on the line: want one JSON object")
	}
	if err := strictjson.CheckKeys(line, &a); err != nil {
		return a, err
	}
	if err := checkNull(line); err != nil {
		return a, err
	}
	switch got := a.id(); {
	case got == nil:
		return a, fmt.Errorf("it has no id: want that of the question, %d", id)
	case *got != id:
		return a, fmt.Errorf("it has the id %d: want that of the question, %d", *got, id)
	}
	return a, nil
}

// checkNull refuses null, for which Go's decoder leaves a field as it is. Only device can be null, which is its own value.
func checkNull(line []byte) error {
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		items, _ := fields[key].([]any)
		if fields[key] == nil && key != "device" || slices.Contains(items, nil) {
			return fmt.Errorf("%s is null or has null in it: leave it out, or give it a value", key)
		}
	}
	return nil
}

// checkPlacement refuses what the engine could not account.
func (p *Policy) checkPlacement(t schedulers.Task, a placement, d schedulers.DeviceView) error {
	l := d.Limits()
	switch {
	case a.WholeMemory && (!t.Managed || !a.Exclusive):
		return errors.New("whole_memory without exclusive, or for a task without unified memory")
	case a.WarpSlots < 0 || a.NextSM < 0 || a.NextSM >= max(l.SMs, 1):
		return fmt.Errorf("warp_slots %d and next_sm %d: want 0 or more, and an SM from 0 to %d", a.WarpSlots, a.NextSM, l.SMs-1)
	case a.Blocks == nil:
		return nil
	case !p.greeting.SMs:
		return errors.New("blocks without sms in the greeting, so it has not seen what is free")
	case len(a.Blocks) != l.SMs:
		return fmt.Errorf("blocks for %d SMs: the device has %d", len(a.Blocks), l.SMs)
	}
	for i, n := range a.Blocks {
		free := d.SM(i)
		if n < 0 || n > free.FreeBlocks || n > 0 && a.WarpSlots > free.FreeSlots/n {
			return fmt.Errorf("%d blocks of %d slots on SM %d, which has %d blocks and %d slots free", n, a.WarpSlots, i, free.FreeBlocks, free.FreeSlots)
		}
	}
	return nil
}

// checkPlace refuses a device where the task may not go.
func (p *Policy) checkPlace(t schedulers.Task, a placement, v schedulers.View) error {
	at := a.Device
	if at < 0 || at >= v.Len() {
		return fmt.Errorf("device %d: the node has devices 0 to %d", at, v.Len()-1)
	}
	d := v.Device(at)
	if !d.Open(t) {
		return fmt.Errorf("device %d, which is not open to the task", at)
	}
	free, context := d.FreeBytes(), d.ContextBytes(t)
	switch {
	case a.WholeMemory && (d.Tasks() > 0 || free < context):
		return fmt.Errorf("device %d with whole_memory, where others are", at)
	case p.promises(memoryHard) && !a.WholeMemory && p.needs(t) > free-context:
		return fmt.Errorf("device %d, which has %s free beside the task's context, and it promises %s", at, size.Text(free-context), memoryHard)
	}
	if err := p.checkPlacement(t, a, d); err != nil {
		return fmt.Errorf("device %d: %w", at, err)
	}
	return nil
}
