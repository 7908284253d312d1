// Package sim is the simulated node: discrete events in virtual time under the
// same run loop and engine as real devices. Every number from it must be shown as simulated.
// docs/design/simulator.md states the model and its distance from the published measurements.
package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// Node is a simulated node. Its devices are those of its groups, in their order.
type Node struct {
	Name   string // canonical, such as "sim:4xV100" or "sim:2xC2050+1xQuadro2000"
	Host   Host   // of the first group's kind, with the cores and threads of all groups
	Groups []Group
}

// Group is devices of one model. A split device is several groups of instances.
type Group struct {
	Model
	Count int
}

// part is devices of one model that are split alike, or not at all.
type part struct {
	of     *Model
	count  int
	groups []Group // of one device
	split  string  // its instances; "": it is whole
}

// prefix begins the names of simulated nodes.
const prefix = "sim:"

// mostDevices is how many devices a node may have.
const mostDevices = 999

var partForm = regexp.MustCompile(`^([0-9]+)x([A-Za-z0-9]+)(?:/(.*))?$`)

// ParseNode reads "sim:" and devices COUNTxMODEL or COUNTxMODEL/INSTANCES, joined by "+". Neighbours that are alike are one.
func ParseNode(text string) (Node, error) {
	groups, found := strings.CutPrefix(text, prefix)
	if !found {
		return Node{}, fmt.Errorf("node %q: %w", text, errForm())
	}
	n, err := parseNode(groups)
	if err != nil {
		return Node{}, fmt.Errorf("node %q: %w", text, err)
	}
	return n, nil
}

func parseNode(text string) (n Node, err error) {
	var parts []part
	for item := range strings.SplitSeq(text, "+") {
		p, err := parsePart(item)
		if err != nil {
			return Node{}, err
		}
		if last := len(parts) - 1; last >= 0 && parts[last].of == p.of && parts[last].split == p.split {
			parts[last].count += p.count
		} else {
			parts = append(parts, p)
		}
	}
	n.Host = parts[0].of.Host
	n.Host.Cores, n.Host.Threads = 0, 0
	var names []string
	for _, p := range parts {
		n.Host.Cores += p.count * p.of.Host.Cores
		n.Host.Threads += p.count * p.of.Host.Threads
		name := fmt.Sprintf("%dx%s", p.count, p.of.Name)
		if p.split != "" {
			name += "/" + p.split
		}
		names = append(names, name)
		n.add(p)
	}
	if n.Count() > mostDevices {
		return Node{}, fmt.Errorf("%d devices: a node has at most %d", n.Count(), mostDevices)
	}
	n.Name = prefix + strings.Join(names, "+")
	return n, nil
}

// add adds devices. Neighbouring groups of one model are one.
func (n *Node) add(p part) {
	for range p.count {
		for _, g := range p.groups {
			if last := len(n.Groups) - 1; last >= 0 && n.Groups[last].Name == g.Name {
				n.Groups[last].Count += g.Count
			} else {
				n.Groups = append(n.Groups, g)
			}
		}
	}
}

var modelForm = regexp.MustCompile(`^(sim:(?:[^:]*:)*(?:[0-9]+x)?(?:[0-9]+x[A-Za-z0-9]+\+)*[0-9]+x)[A-Za-z0-9]*$`)

var splitForm = regexp.MustCompile(`^(sim:.*x([A-Za-z0-9]+)/(?:[^+:@]*,)?)[^,+:@]*$`)

// Offer offers the models for a node's name of which all is typed but the last model, or the instances of a device, each with its description
// behind a tab.
func Offer(typed string) (offers []string) {
	if m := splitForm.FindStringSubmatch(typed); m != nil {
		for _, i := range instances[strings.ToUpper(m[2])] {
			offers = append(offers, fmt.Sprintf("%s%dx%s\t%d SMs, %g GiB each", m[1], len(i.starts), i.name, i.sms, i.memory))
		}
		return offers
	}
	if strings.HasSuffix(typed, "+") {
		typed += "1x"
	}
	m := modelForm.FindStringSubmatch(typed)
	if m == nil {
		return nil
	}
	for _, name := range modelNames() {
		of := models[strings.ToUpper(name)]
		offers = append(offers, fmt.Sprintf("%s%s\t%d SMs, %s", m[1], name, of.SMs, size.Text(of.MemoryBytes)))
	}
	return offers
}

func errForm() error {
	return fmt.Errorf("want sim:COUNTxMODEL such as sim:4xV100, or several joined by + such as sim:2xC2050+1xQuadro2000, or instances (MIG) such as sim:1xA100/7x1g.5gb, or a cluster such as sim:10x4xV100 or sim:10x4xV100@nic=1Gb:2x1xH200, with models of %s", strings.Join(modelNames(), ", "))
}

func parsePart(text string) (p part, err error) {
	m := partForm.FindStringSubmatch(text)
	if m == nil {
		return p, errForm()
	}
	var ok bool
	if p.of, ok = models[strings.ToUpper(m[2])]; !ok {
		return p, fmt.Errorf("no model %q: %s", m[2], near.OrKnown(m[2], modelNames()))
	}
	if p.count, err = strconv.Atoi(m[1]); err != nil || p.count < 1 || p.count > mostDevices {
		return p, fmt.Errorf("%s devices of model %s: want 1 to %d", m[1], p.of.Name, mostDevices)
	}
	if !strings.Contains(text, "/") {
		p.groups = []Group{{*p.of, 1}}
		return p, nil
	}
	p.groups, p.split, err = parseInstances(p.of, m[3])
	return p, err
}

// Count is the number of devices.
func (n Node) Count() (count int) {
	for _, g := range n.Groups {
		count += g.Count
	}
	return count
}

// Capped is the node with devices that have this much memory, if they have more.
func (n Node) Capped(bytes int64) Node {
	n.Groups = slices.Clone(n.Groups)
	for i := range n.Groups {
		n.Groups[i].MemoryBytes = min(n.Groups[i].MemoryBytes, bytes)
	}
	return n
}

// first is the model of the first device.
func (n Node) first() *Model { return &n.Groups[0].Model }

// models are the devices' models, in their order.
func (n Node) models() (of []*Model) {
	for i := range n.Groups {
		of = append(of, slices.Repeat([]*Model{&n.Groups[i].Model}, n.Groups[i].Count)...)
	}
	return of
}

// Devices are the node's devices as a scheduler may use them, less what an MPS
// server takes of each.
func (n Node) Devices(mps bool) (devices []schedulers.Device) {
	for _, m := range n.models() {
		d := schedulers.Device{Name: m.Name, CapacityBytes: m.MemoryBytes, ContextBytes: m.context(),
			SMs: m.SMs, WarpsPerSM: m.WarpsPerSM, BlocksPerSM: m.BlocksPerSM, Speed: m.part() / m.DeviceFactor}
		if mps {
			d.CapacityBytes -= runner.ServerBytes
		}
		devices = append(devices, d)
	}
	return devices
}
