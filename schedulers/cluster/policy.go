package cluster

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// Policy is a registered policy with its parameters settled.
type Policy struct {
	policies.Info
	text, top string // as String says: without offload, and that
	place     func(*Head, *job) []Share
	exclusive bool   // a rank shares its device with nobody
	latency   bool   // short jobs come first, and long ones give way
	nodes     int    // for each job at most; byKind
	weights   string // the parameter; "": the policy has none
	own       []int  // weights of the nodes, if the parameter has numbers
	literal   bool
	limit     int // devices that are left to a long job that gives way
	offloads  bool
	threshold int               // waiting ranks, beyond which a node's jobs move
	program   *policies.Program // that decides; nil: the policy is registered
	by        Assigner          // the program, once it is started
}

const (
	byKind    = 0
	unbounded = math.MaxInt

	nodesByKind = "kind"
	nodesAll    = "all"

	weightsGPUs = "gpus"
	weightsSMs  = "sms"
	weightsBoth = "both"
)

var (
	paramNodes = policies.Param{Name: "nodes", Default: nodesByKind, Help: "nodes for each job at most, or " + nodesAll +
		"; " + nodesByKind + ": one for a job that is sensitive to communication, all for others"}
	paramWeights = policies.Param{Name: "weights", Default: weightsGPUs, Help: "ranks for which a node has room: " + weightsGPUs + ": its devices; " +
		weightsSMs + ": by the cores of its devices; " + weightsBoth + ": the mean of these two; or a number for each node, such as 4:8:4"}
	paramLiteral   = policies.Param{Name: "literal", Default: "false", Values: []string{"false", "true"}, Help: "true: the listing as printed, with its defects"}
	paramLimit     = policies.Param{Name: "limit", Default: "0", Help: "devices of a node that are left to a long job which gives way there; 0: it is suspended"}
	paramThreshold = policies.Param{Name: "threshold", Default: "8", Help: "jobs leave a node on which more ranks than this wait"}
)

const dissertation = "the dissertation on CPU-GPU clusters"

var registry = map[string]Policy{
	"cluster-batch": {place: placeBatch, exclusive: true, Info: policies.Info{Name: "cluster-batch",
		Binds:  policies.BindsNode,
		Brief:  "a device for each rank, shared with nobody, in turn",
		Rule:   "a job waits until enough devices of the cluster are free, and nobody passes it. Its ranks go to devices in turn, from the device after the latest one on",
		Source: dissertation + ", section 4.4.5, TORQUE"}},
	"cluster-rr": {place: placeInTurn, Info: policies.Info{Name: "cluster-rr",
		Binds:  policies.BindsNode,
		Brief:  "ranks go to nodes in turn, and share their devices",
		Rule:   "each rank goes to the next node in turn, however many are there",
		Source: dissertation + ", Listing 4-1",
		Params: []policies.Param{paramLiteral}}},
	"coloc": {place: placeTogether, Info: policies.Info{Name: "coloc",
		Binds:  policies.BindsNode,
		Brief:  "ranks that talk to each other go to one node, others to where there is room",
		Rule:   "a job that is sensitive to communication goes whole to the node with most room. Other jobs take what room there is, node by node, and their other ranks go to all nodes in turn. Where no node has room, the job waits",
		Source: dissertation + ", Listing 4-2",
		Params: []policies.Param{paramNodes, paramWeights, paramLiteral}}},
	"latency": {place: placeTogether, latency: true, Info: policies.Info{Name: "latency",
		Binds:  policies.BindsNode,
		Brief:  "as coloc; short jobs go first, and long ones give way to them",
		Rule:   "as coloc, but short jobs go first. If one finds no room, the fewest long jobs of one node give way, until no short job waits and none runs there",
		Source: dissertation + ", Listing 4-3",
		Params: []policies.Param{paramNodes, paramWeights, paramLimit}}},
}

// Offload is the name of what goes on top of another policy.
const Offload = "offload"

var offload = policies.Info{Name: Offload,
	Binds:  policies.BindsNode,
	Brief:  "behind another head, as in coloc+offload: jobs leave a crowded node before they start",
	Rule:   "while more ranks wait on a node than the threshold, the job that came last goes to the node with the fewest waiting ranks for its weight. A job moves once, and before it starts",
	Source: dissertation + ", section 3.5.8",
	Params: []policies.Param{paramThreshold}}

// Listed describes every registered policy, by name, and offload.
func Listed() (infos []policies.Info) {
	for _, name := range slices.Sorted(maps.Keys(registry)) {
		infos = append(infos, registry[name].Info)
	}
	return append(infos, offload)
}

// All describes the schedulers of one node, and the policies of a cluster's head.
func All() []policies.Info { return slices.Concat(policies.Listed(), Listed()) }

// Lookup describes a scheduler of one node, or a policy of a cluster's head.
func Lookup(name string) (policies.Info, error) {
	for _, i := range Listed() {
		if i.Name == name {
			return i, nil
		}
	}
	return policies.Lookup(name)
}

// Parse settles a policy from its text, name or name:key=value,key=value. +offload:threshold=8 may follow.
func Parse(text string) (Policy, error) {
	base, top, moves := cutOffload(text)
	p, err := parseBase(base)
	if err != nil || !moves {
		return p, err
	}
	if name, _, _ := strings.Cut(top, ":"); name != offload.Name {
		return Policy{}, fmt.Errorf("scheduler %q: after + want %s or %[2]s:threshold=8", text, offload.Name)
	}
	values, err := offload.Settle(top)
	if err != nil {
		return Policy{}, err
	}
	p.offloads = true
	p.top = "+" + canonical(offload, values)
	if p.threshold, err = whole(values, paramThreshold); err != nil {
		return Policy{}, fmt.Errorf("scheduler %s: %w", offload.Name, err)
	}
	return p, nil
}

// cutOffload parts a policy's text before +offload. The path of a program has its plus signs for itself.
func cutOffload(text string) (base, top string, moves bool) {
	sign := "+"
	if _, unnamed, _ := schedulers.CutName(text); isProgram(unnamed) {
		sign += Offload
	}
	at := strings.Index(text, sign)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+1:], true
}

// parseBase settles a policy without offload.
func parseBase(text string) (Policy, error) {
	name, _, _ := strings.Cut(text, ":")
	if isProgram(text) {
		program, err := policies.HeadProgram(text)
		if err != nil {
			return Policy{}, err
		}
		return Policy{Info: policies.Info{Name: name, Binds: policies.BindsNode}, text: program.String(), program: program}, nil
	}
	p, ok := registry[name]
	if !ok {
		return Policy{}, unknown(name)
	}
	values, err := p.Settle(text)
	if err != nil {
		return Policy{}, err
	}
	if err := p.read(values); err != nil {
		return Policy{}, fmt.Errorf("scheduler %s: %w", name, err)
	}
	p.text = canonical(p.Info, values)
	return p, nil
}

func unknown(name string) error {
	if name == offload.Name {
		return fmt.Errorf("cluster policy %s moves what another policy has assigned: write it after one, as in coloc+%[1]s:threshold=8", name)
	}
	return fmt.Errorf("unknown cluster policy %q: %s", name, near.OrKnown(name, slices.Sorted(maps.Keys(registry))))
}

// read takes the parameters from their text.
func (p *Policy) read(values map[string]string) (err error) {
	p.literal = values[paramLiteral.Name] == "true"
	if p.nodes, err = nodesOf(values); err != nil {
		return err
	}
	if p.literal && p.nodes != byKind {
		return fmt.Errorf("nodes=%s: the printed listing has no such bound: leave it out, or %s", values[paramNodes.Name], paramLiteral.Name)
	}
	switch p.weights = values[paramWeights.Name]; p.weights {
	case "", weightsGPUs, weightsSMs, weightsBoth:
	default:
		if p.own, err = numbers(p.weights); err != nil {
			return err
		}
	}
	p.limit, err = whole(values, paramLimit)
	return err
}

// whole is a parameter that is a number of 0 or more; 0: the policy has no such parameter.
func whole(values map[string]string, p policies.Param) (int, error) {
	text, ok := values[p.Name]
	if !ok {
		return 0, nil
	}
	n, err := input.Int(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s=%s: want a whole number of 0 or more", p.Name, text)
	}
	return n, nil
}

func nodesOf(values map[string]string) (int, error) {
	text, ok := values[paramNodes.Name]
	switch {
	case !ok || text == nodesByKind:
		return byKind, nil
	case text == nodesAll:
		return unbounded, nil
	}
	n, err := input.Int(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("nodes=%s: want a whole number of 1 or more, %s or %s", text, nodesAll, nodesByKind)
	}
	return n, nil
}

// nodesFor is how many nodes a job of a kind may have.
func (p Policy) nodesFor(k Kind) int {
	switch {
	case p.nodes != byKind:
		return p.nodes
	case k == Communication:
		return 1
	}
	return unbounded
}

// numbers are the weights that the parameter gives one by one.
func numbers(text string) (weights []int, err error) {
	const most = 1 << 20
	for number := range strings.SplitSeq(text, ":") {
		w, err := input.Int(number)
		if err != nil || w < 1 || w > most {
			return nil, fmt.Errorf("weights=%s: want %s, %s, %s, or a whole number from 1 to %d for each node, such as 4:8:4",
				text, weightsGPUs, weightsSMs, weightsBoth, most)
		}
		weights = append(weights, w)
	}
	return weights, nil
}

// weigh returns how many ranks each node has room for (section 4.4.4).
func (p Policy) weigh(nodes []Node) (weights []int, err error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("the cluster has no nodes: name one")
	}
	least := nodes[0]
	for _, n := range nodes {
		if n.Devices < 1 {
			return nil, fmt.Errorf("node %s has %s: leave it out", n.Name, size.Count(n.Devices, "device"))
		}
		if n.Cores < least.Cores {
			least = n
		}
		if n.Weight > 0 && (p.weights == weightsGPUs || p.program != nil) {
			weights = append(weights, n.Weight)
		} else {
			weights = append(weights, n.Devices)
		}
	}
	switch {
	case p.own != nil && len(p.own) != len(nodes):
		return nil, fmt.Errorf("weights=%s: want one for each of the cluster's %s", p.weights, size.Count(len(nodes), "node"))
	case p.own != nil:
		return p.own, nil
	case p.weights != weightsSMs && p.weights != weightsBoth:
		return weights, nil
	case least.Cores < 1:
		return nil, fmt.Errorf("weights=%s: the cores of node %s are unknown: use %s, or a number for each node", p.weights, least.Name, weightsGPUs)
	}
	for i, n := range nodes {
		cores := float64(n.Cores) / float64(least.Cores) * float64(least.Devices)
		if p.weights == weightsBoth {
			cores = (cores + float64(n.Devices)) / 2
		}
		weights[i] = max(1, int(math.Round(cores)))
	}
	return weights, nil
}
