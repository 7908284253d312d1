// Package policies has the schedulers that users choose from: one file for each policy,
// their registry, and the parts that a new policy may use too (docs/guide/policies.md).
package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// Binding says what a scheduler binds to a device, or that it is of a cluster's head.
type Binding string

const (
	BindsJob  Binding = "job"  // the process, before exec
	BindsTask Binding = "task" // each GPU task, when its process asks
	BindsNode Binding = "node" // ranks of a job to nodes, which have schedulers of their own (schedulers/cluster)
)

// Param is one parameter of a scheduler, as users see it.
type Param struct {
	Name    string
	Default string
	Help    string
	Values  []string // all that it can have; nil: it has a number, a time or other text
	// OmitDefault keeps the parameter out of Parameters while it has its default. Older stored runs
	// lack the parameter, and new runs must remain repetitions of the same arm.
	OmitDefault bool
}

// Info describes a registered scheduler.
type Info struct {
	Name   string
	Binds  Binding
	Shares bool // several processes may use one device at once, so a live run needs MPS
	// Oversubscribes: it grants more memory than a device has, so that jobs run out of it.
	Oversubscribes bool
	// KnowsShares: it admits jobs by the parts of a device's time that they ask for (schedulers.Terms.Share).
	KnowsShares bool
	// Revokes: the policy is a schedulers.Preempter, which takes memory back from processes.
	Revokes bool
	// KeepsIdle: with Revokes, an idle context keeps its permit.
	KeepsIdle bool
	// Preempts: an idle context loses its permit, and so does one without a task.
	Preempts bool
	// KeepsTurn: a context keeps its permit while it asks for memory that its next kernel uses.
	KeepsTurn bool
	// EndsBursts: a context always gives up its permit when it has nothing submitted (Scheduler.Bursts).
	EndsBursts bool
	// Predicts: the scheduler plans by what jobs are expected to do (schedulers.Prediction), see Scheduler.Plans.
	Predicts bool
	// External: a program of the user's decides (Scheduler.Program).
	External bool
	Brief    string // the rule in one line
	Rule     string
	Source   string
	Params   []Param
}

// Scheduler is a registered scheduler with its parameters settled.
type Scheduler struct {
	Info
	Arm    string       // the user's name for it with its parameters; may be empty
	Head   fmt.Stringer // the policy of the head of a cluster whose nodes have this scheduler (schedulers/cluster); nil: for one node
	Policy schedulers.Policy
	Config engine.Config
	// IsolateKnown: a job that is known to fault does not share its device.
	IsolateKnown bool
	// ClientsDecide: the processes themselves decide who gets memory of SharedDevice, over
	// host memory that they share. The engine is not asked.
	ClientsDecide bool
	SharedDevice  int
	Plans         *Planning // nil: the scheduler does not plan
	Nice          bool      // jobs get host priorities (schedulers.NiceByLength)
	// Checkpoints: jobs are bound as a whole, and the driver takes all that they have on their devices (via=checkpoint). MPS excludes that.
	Checkpoints bool
	Bursts      bool // a context gives up its permit when it has nothing submitted; else a permit lasts until a Yield
	// Program decides if the scheduler is External. Policy is nil until somebody has started it
	// (runner/external), because this package starts nothing.
	Program *Program
	Layer   *Layer // what jobs run under; nil: as the scheduler has it
	values  map[string]string
}

// Parameters returns the canonical k=v,k=v text of every parameter, sorted by name. It
// includes defaults, except of parameters with OmitDefault. The content of a layer's file counts as one.
func (s Scheduler) Parameters() string {
	var b []string
	if s.Layer != nil && s.Layer.SHA256 != "" {
		b = append(b, layerKey+s.Layer.SHA256)
	}
	for _, p := range s.Params {
		if v := s.values[p.Name]; !p.OmitDefault || v != p.Default {
			b = append(b, p.Name+"="+v)
		}
	}
	slices.Sort(b)
	return strings.Join(b, ",")
}

// Omitted has the parameters of a scheduler, as k=v, that Parameters leaves out while they have these values.
func Omitted(scheduler string) (parameters []string) {
	scheduler, _, _ = schedulers.CutLayer(scheduler)
	for _, p := range registry[scheduler].Params {
		if p.OmitDefault {
			parameters = append(parameters, p.Name+"="+p.Default)
		}
	}
	return parameters
}

// TakesShares reports whether jobs are admitted by their shares. Clients that decide know none.
func (s Scheduler) TakesShares() bool { return s.KnowsShares && !s.ClientsDecide }

// ExceedsManaged reports whether managed memory may be more than devices have free.
func (s Scheduler) ExceedsManaged() bool { return s.values[paramManaged.Name] == managedExceed }

type entry struct {
	Info
	policy func(settings) (schedulers.Policy, error)
}

var (
	paramQueue     = Param{Name: "queue", Default: string(engine.LargestFirst), Help: "order of waiting tasks: " + engine.OrderNames(engine.Orders())}
	paramPlanQueue = Param{Name: "queue", Default: string(engine.LargestFirst), Help: "order of waiting tasks before the first plan, and where nothing is planned: " + engine.OrderNames(planOrders())}
	paramAge       = Param{Name: "age-limit", Default: "64", Help: "a waiting task is passed at most this often before it blocks later ones, unless jobs that wait hold what it needs; 0: however often"}
	paramWait      = Param{Name: "wait-limit", Default: "0s", Help: "a request that waits longer is refused with an error, unless it says itself how long it waits; 0s: never"}
	paramWorkers   = Param{Name: "workers", Default: "0", Help: "jobs on the node at once; 0: two for each device"}
	paramDevice    = Param{Name: "device", Default: "0", Help: "the device that is shared"}
	paramIsolate   = Param{Name: "isolate", Default: isolateNone, Values: []string{isolateNone, isolateKnown}, Help: "known: a job with faults: known in its mix or suite shares its device with nobody; none: it is a job like others", OmitDefault: true}
	// By default no room is left, because growth waits without harm, and jobs that do not
	// grow cannot use memory that is kept free.
	paramRoom    = Param{Name: "room", Default: "0", Help: "share of a device, from 0 to below 1, that a task joining other jobs' tasks leaves free so that those can grow"}
	paramNice    = Param{Name: "nice", Default: niceOn, Values: []string{niceOn, niceOff}, Help: "on: where jobs outnumber the host's cores, those with a device go first there, and the others by length; off: all are equal"}
	paramArch    = Param{Name: "arch", Default: archServer, Values: []string{archServer, archShared}, Help: "who decides: server: the run, over a socket; shared: the clients themselves, over shared memory (schedGPU, section 3.2)", OmitDefault: true}
	paramBursts  = Param{Name: "bursts", Default: burstsOff, Values: []string{burstsOn, burstsOff}, Help: "on: a process gives up its permit when none of its work is left on the device, and asks for it again; off: it keeps the permit until somebody needs it", OmitDefault: true}
	paramManaged = Param{Name: "managed", Default: managedFit, Values: []string{managedFit, managedExceed}, Help: "unified memory beyond what is free: fit: refused; exceed: allowed, and a task that is larger than a device gets an idle one alone. On some GPUs exceed can hang the device"}
)

const (
	managedFit    = "fit"
	managedExceed = "exceed"

	archServer = "server"
	archShared = "shared"

	niceOn  = "on"
	niceOff = "off"

	burstsOn  = "on"
	burstsOff = "off"

	isolateNone  = "none"
	isolateKnown = "known"
)

// omitDefault is Param.OmitDefault.
func omitDefault(p Param) Param { p.OmitDefault = true; return p }

func withDefault(p Param, value string) Param { p.Default = value; return p }

const (
	casePaper  = "CASE (PPoPP 2022)"
	pilotPaper = "PILOT: a Runtime System to Manage Multi-tenant GPU Unified Memory Footprint"
)

// registry has every scheduler. A new policy is its own file in this directory, and a line
// here (docs/guide/policies.md).
var registry = map[string]entry{
	sa.Name:           sa,
	cg.Name:           cg,
	schedgpu.Name:     schedgpu,
	alg2.Name:         alg2,
	alg3.Name:         alg3,
	zero.Name:         zero,
	vgpu.Name:         vgpu,
	vgpuPreempt.Name:  vgpuPreempt,
	demand.Name:       demand,
	mfit.Name:         mfit,
	amfit.Name:        amfit,
	madvise.Name:      madvise,
	quantumEntry.Name: quantumEntry,
	planEntry.Name:    planEntry,
	external.Name:     external,
}

// Listed describes every registered scheduler, by name.
func Listed() []Info {
	var out []Info
	for _, name := range slices.Sorted(maps.Keys(registry)) {
		out = append(out, registry[name].Info)
	}
	return out
}

// AnyDevices is more devices than a node has, for checks before the node is known.
const AnyDevices = 1 << 20

// Parse settles a scheduler from its text, name or name:key=value,key=value. The user's name for it may stand before, as in
// fifo:=case-alg3:queue=fifo. nodeDevices settles defaults that depend on the node.
func Parse(text string, nodeDevices int) (Scheduler, error) {
	arm, unnamed, named := schedulers.CutName(text)
	if named {
		if err := checkArm(arm, unnamed); err != nil {
			return Scheduler{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	unnamed, under, layered := schedulers.CutLayer(unnamed)
	s, err := parse(unnamed, nodeDevices)
	if err == nil && layered {
		var l Layer
		if l, err = parseLayer(under); err != nil {
			return Scheduler{}, fmt.Errorf("scheduler %q: %w", text, err)
		}
		s = s.Under(l)
	}
	if arm != s.Name { // which says nothing more
		s.Arm = input.Name(arm)
	}
	return s, err
}

// parse is Parse of a text without a name of the user's.
func parse(text string, nodeDevices int) (Scheduler, error) {
	name, _, _ := strings.Cut(text, ":")
	en, ok := registry[name]
	if !ok {
		return Scheduler{}, unknownScheduler(text)
	}
	s, given, err := en.settle(text)
	if err != nil {
		return Scheduler{}, err
	}
	if s.checkpoints() && !given["idle"] {
		s["idle"] = rarely
	}
	if s["workers"] == "0" {
		s["workers"] = strconv.Itoa(2 * nodeDevices)
	}
	config, err := s.config(en.Orders())
	if err != nil {
		return Scheduler{}, fmt.Errorf("scheduler %s: %w", name, err)
	}
	config.PermitNeedsTask, config.KeepsPermit = en.Preempts, en.KeepsTurn
	var program *Program
	if en.External {
		if program, err = s.program(); err != nil {
			return Scheduler{}, fmt.Errorf("scheduler %s: %w", name, err)
		}
	}
	policy, err := en.policy(s)
	if err != nil {
		return Scheduler{}, fmt.Errorf("scheduler %s: %w", name, err)
	}
	var plans *Planning
	if en.Predicts {
		if plans, err = s.planning(); err != nil {
			return Scheduler{}, fmt.Errorf("scheduler %s: %w", name, err)
		}
	}
	device, err := s.number("device", 0)
	if err == nil && s["device"] != "" && device >= nodeDevices {
		return Scheduler{}, fmt.Errorf("scheduler %s: device=%d: the node has devices 0 to %d", name, device, nodeDevices-1)
	}
	if w := s["weights"]; w != "" && w != weightSpeed && nodeDevices != AnyDevices && strings.Count(w, ":")+1 != nodeDevices {
		return Scheduler{}, fmt.Errorf("scheduler %s: weights=%s: want one for each of the node's %s", name, w, size.Count(nodeDevices, "device"))
	}
	shared := s["arch"] == archShared
	if key, is := s.ofServer(); shared && key != "" {
		return Scheduler{}, fmt.Errorf("scheduler %s: %s=%s: clients that decide for themselves know no such rule: %s, or use arch=%s", name, key, s[key], is, archServer)
	}
	return Scheduler{Info: en.Info, Policy: policy, Config: config, IsolateKnown: s["isolate"] == isolateKnown,
		ClientsDecide: shared, Checkpoints: s.checkpoints(), SharedDevice: device, Plans: plans, Nice: s["nice"] == niceOn, Bursts: en.EndsBursts || s["bursts"] == burstsOn, Program: program, values: s}, nil
}

// Settle returns the parameters of a scheduler's text, name or name:key=value,key=value: those that it gives, and the
// defaults. It is for schedulers of other registries (schedulers/cluster), too.
func (i Info) Settle(text string) (values map[string]string, err error) {
	values, _, err = entry{Info: i}.settle(text)
	return values, err
}

// settle is Info.Settle. given has the parameters that the text gives.
func (en entry) settle(text string) (s settings, given map[string]bool, err error) {
	name, rest, more := strings.Cut(text, ":")
	if more && rest == "" {
		return nil, nil, fmt.Errorf("scheduler %q: no parameter after the colon: write %s alone, or key=value after it", text, name)
	}
	s = settings{}
	for _, p := range en.Params {
		s[p.Name] = p.Default
	}
	given = map[string]bool{}
	var items []string
	if more {
		items = strings.Split(rest, ",")
	}
	for i, item := range items {
		if item == "" {
			return nil, nil, fmt.Errorf("scheduler %q: a parameter is empty: write a comma only between two parameters", text)
		}
		key, value, ok := en.parameter(i, item)
		if !ok && schedulers.IsRetired(name, key) {
			return nil, nil, fmt.Errorf("scheduler %s: parameter %q: %s went, because it had no effect: leave it out", name, item, key)
		}
		if !ok {
			return nil, nil, fmt.Errorf("scheduler %s: parameter %q: want key=value with a key of %s%s%s", name, item, en.paramNames(), en.commaHint(), en.meant(item))
		}
		if value == "" {
			return nil, nil, fmt.Errorf("scheduler %q: %s has no value: give it one, or leave it out", text, key)
		}
		if given[key] {
			return nil, nil, fmt.Errorf("scheduler %s: parameter %q: %s is given twice", name, item, key)
		}
		if err := cmp.Or(en.colonForComma(key, value), notScanned(key, value)); err != nil {
			return nil, nil, fmt.Errorf("scheduler %s: %w", name, err)
		}
		s[key], given[key] = value, true
	}
	s.canonical()
	for _, p := range en.Params {
		if v := s[p.Name]; p.Values != nil && !slices.Contains(p.Values, v) {
			return nil, nil, fmt.Errorf("scheduler %s: %s=%s: use %s", name, p.Name, v, strings.Join(p.Values, " or "))
		}
	}
	return s, given, nil
}

// Orders are the queue orders that the scheduler takes; nil if it has no such parameter.
func (i Info) Orders() []engine.Order {
	switch {
	case !slices.ContainsFunc(i.Params, func(p Param) bool { return p.Name == paramQueue.Name }):
		return nil
	case i.Predicts:
		return planOrders()
	}
	return engine.Orders()
}

// Values are all that a parameter of the scheduler can have; nil: it has no such parameter, or that has other values than a
// few words.
func (i Info) Values(parameter string) (values []string) {
	if parameter == paramQueue.Name {
		for _, o := range i.Orders() {
			values = append(values, string(o))
		}
	}
	for _, p := range i.Params {
		if p.Name == parameter {
			values = append(values, p.Values...)
		}
	}
	return values
}

func planOrders() []engine.Order {
	return slices.DeleteFunc(engine.Orders(), func(o engine.Order) bool { return o.Admits() })
}

// ParseStored is Parse for the text of a stored run or sweep, which may have parameters that had no effect.
func ParseStored(text string, nodeDevices int) (Scheduler, error) {
	_, unnamed, _ := schedulers.CutName(text)
	name, parameters, _ := strings.Cut(unnamed, ":") // a scheduler with a layer has all parameters
	if kept := schedulers.WithoutRetired(name, parameters); kept != parameters {
		text = With(strings.TrimSuffix(text, unnamed)+name, kept)
	}
	return Parse(text, nodeDevices)
}

// Admits reports whether jobs that wait for their start go by the queue's order, too.
func (s Scheduler) Admits() bool { return s.Config.Queue.Admits() }

// Expects reports whether the scheduler asks what jobs are expected to do.
func (s Scheduler) Expects() bool { return s.Predicts || s.Nice || s.ShortestFirst() }

// Swaps reports whether processes move their memory to the host themselves.
func (s Scheduler) Swaps() bool { return s.Revokes && !s.Checkpoints }

// FreesIdle reports whether processes that wait for others give up their devices.
func (s Scheduler) FreesIdle() bool { return s.Revokes && (s.Bursts || !s.KeepsIdle) }

// ShortestFirst reports whether the job that is expected to be shortest goes first.
func (s Scheduler) ShortestFirst() bool { return s.Config.Queue == engine.ShortestFirst }

// With adds parameters to a scheduler's text. Either may be without parameters.
func With(text, parameters string) string {
	_, unnamed, _ := schedulers.CutName(text)
	switch {
	case parameters == "":
		return text
	case strings.Contains(unnamed, ":"):
		return text + "," + parameters
	}
	return text + ":" + parameters
}

// unknownScheduler is the error of a text whose scheduler the registry lacks.
func unknownScheduler(text string) error {
	name, _, _ := strings.Cut(text, ":")
	names := slices.Sorted(maps.Keys(registry))
	hint := near.DidYouMean("", name, names)
	switch meant := NameMeant(text); {
	case meant != "":
		hint = meant
	case strings.Contains(name, ","):
		hint = "it is a list: name one"
	case strings.ContainsAny(name, "./"): // as no scheduler's name does
		program := name
		if !strings.Contains(name, "/") {
			program = "./" + name
		}
		hint = "for a program of yours, write " + external.Name + ":" + program
	case hint == "":
		hint = "use one of " + strings.Join(names, ", ")
	}
	return fmt.Errorf("unknown scheduler %q: %s", name, hint)
}

// Lookup describes a registered scheduler, which may have a layer.
func Lookup(name string) (Info, error) {
	name, _, _ = schedulers.CutLayer(name)
	en, ok := registry[name]
	if !ok {
		return Info{}, unknownScheduler(name)
	}
	return en.Info, nil
}

// ofServer returns a parameter that only the run's engine implements, and the remedy; "" if
// no such parameter is set.
func (s settings) ofServer() (key, remedy string) {
	switch engine.Order(s["queue"]) {
	case engine.FIFO, engine.FirstFit, engine.PriorityFIFO, engine.PriorityFirstFit:
	default:
		return "queue", "choose one of the paper's four policies"
	}
	for _, p := range []Param{withDefault(paramAge, "0"), paramRoom, paramManaged, paramIsolate} {
		if s[p.Name] != p.Default {
			return p.Name, "leave it out"
		}
	}
	return "", ""
}

// parameter reads the item at a place of a scheduler's text. An external scheduler's first item may
// be the path alone.
func (en entry) parameter(place int, item string) (key, value string, ok bool) {
	key, value, found := strings.Cut(item, "=")
	known := slices.ContainsFunc(en.Params, func(p Param) bool { return p.Name == key })
	ok = known && found
	if !ok && en.External && place == 0 {
		return paramPath.Name, item, true
	}
	return key, value, ok
}

// colonForComma refuses a value with another parameter after a colon. A path has its colons for itself.
func (en entry) colonForComma(key, value string) error {
	before, after, found := strings.Cut(value, ":")
	if _, _, is := en.parameter(1, after); !found || !is || key == paramPath.Name {
		return nil
	}
	return fmt.Errorf("%s=%s: parameters follow after a comma: write %[1]s=%[3]s,%s", key, value, before, after)
}

// meant names the parameter that an item with an unknown key may stand for.
func (en entry) meant(item string) string {
	if meant := NameMeant(item); meant != "" {
		return ": " + meant
	}
	key, _, _ := strings.Cut(item, "=")
	var names []string
	for _, p := range en.Params {
		names = append(names, p.Name)
	}
	if slices.Contains(names, key) {
		return ""
	}
	if hint := near.DidYouMean("", key, names); hint != "" {
		return ": " + hint
	}
	return ""
}

func (en entry) paramNames() string {
	if len(en.Params) == 0 {
		return "none (it has no parameters)"
	}
	var names []string
	for _, p := range en.Params {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// settings are a scheduler's parameters as text.
type settings map[string]string

// canonical gives equal values equal text: 0.10 is 0.1, 90s is 1m30s. A malformed value does not
// change, and fails when it is read.
func (s settings) canonical() {
	for key, text := range s {
		switch key {
		case paramPath.Name, paramSHA256.Name: // text, even where it looks like a number
		case paramWait.Name, paramTimeout.Name, paramPatience.Name, paramLinger.Name, "period", "tq", "idle":
			if d, err := input.Duration(text); err == nil {
				s[key] = d.String()
			}
		case "quota":
			if n, err := size.Parse(text); err == nil {
				s[key] = size.Format(n)
			}
		case paramRoom.Name, "weight", "error":
			if f, err := input.Float(text); err == nil {
				s[key] = strconv.FormatFloat(f, 'f', -1, 64)
			}
		default:
			if n, err := input.Int(text); err == nil {
				s[key] = strconv.Itoa(n)
			}
		}
	}
}

func (s settings) checkpoints() bool { return s[paramVia.Name] == viaCheckpoint }

func (s settings) number(key string, least int) (int, error) {
	text, ok := s[key]
	if !ok {
		return least, nil
	}
	n, err := input.Int(text)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s=%s: want a whole number of %d or more", key, text, least)
	}
	return n, nil
}

// duration reads a time of more than 0.
func (s settings) duration(key string) (time.Duration, error) {
	d, err := input.Duration(s[key])
	if err != nil || d < time.Millisecond {
		return 0, fmt.Errorf("%s=%s: want a duration such as 10s, from 1ms to 2562047h", key, s[key])
	}
	return d, nil
}

// memory returns the memory rule that the parameters give.
func (s settings) memory() (MemoryHard, error) {
	room, err := input.Float(s["room"])
	if err != nil || !(room >= 0 && room < 1) {
		return MemoryHard{}, fmt.Errorf("room=%s: want a share of a device from 0 to below 1, such as 0.1", s["room"])
	}
	return MemoryHard{Room: room, Exceed: s["managed"] == managedExceed}, nil
}

func (s settings) config(orders []engine.Order) (engine.Config, error) {
	c := engine.Config{Queue: engine.FIFO}
	var err error
	if text, ok := s["queue"]; ok {
		if c.Queue, err = engine.ParseOrder(text); err != nil {
			return c, err
		}
		if !slices.Contains(orders, c.Queue) {
			return c, fmt.Errorf("queue=%s: a plan is an order of its own: use one of %s, which count where nothing is planned", text, engine.OrderNames(orders))
		}
	}
	if c.AgeLimit, err = s.number("age-limit", 0); err != nil {
		return c, err
	}
	if text, ok := s["wait-limit"]; ok {
		if c.WaitLimit, err = input.Duration(text); err != nil || c.WaitLimit < 0 {
			return c, fmt.Errorf("wait-limit=%s: want a duration such as 90s, at most 2562047h, or 0s for none", text)
		}
	}
	return c, nil
}
