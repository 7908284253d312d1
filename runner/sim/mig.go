package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/runner/profiles"
)

// Instances of MIG are parts of a device with SMs, memory and copy engines of their own. Each is a device of the node.

// instance is a kind of instance: what nvidia-smi mig -lgip shows of it, and where it can be, by NVIDIA's Multi-Instance GPU User Guide.
type instance struct {
	name    string
	memory  float64 // GiB
	sms     int
	engines int // copy engines
	slices  int // of the slices of the device's memory: eight, or four of an A30
	starts  []int
}

var (
	anywhere = []int{0, 1, 2, 3, 4, 5, 6}
	even     = []int{0, 2, 4, 6}
	quarters = []int{0, 2, 4}
	halves   = []int{0, 4}
	atFirst  = []int{0}
)

// instances are by the models' names, the whole device last.
var instances = map[string][]instance{
	"A100": {{"1g.5gb", 4.75, 14, 1, 1, anywhere}, {"1g.10gb", 9.62, 14, 1, 2, even}, {"2g.10gb", 9.62, 28, 2, 2, quarters},
		{"3g.20gb", 19.5, 42, 3, 4, halves}, {"4g.20gb", 19.5, 56, 4, 4, atFirst}, {"7g.40gb", 39.25, 98, 7, 8, atFirst}},
	"A30": {{"1g.6gb", 5.81, 14, 1, 1, []int{0, 1, 2, 3}}, {"2g.12gb", 11.69, 28, 2, 2, []int{0, 2}}, {"4g.24gb", 23.44, 56, 4, 4, atFirst}},
	"H100": {{"1g.10gb", 9.75, 16, 1, 1, anywhere}, {"1g.20gb", 19.62, 26, 1, 2, even}, {"2g.20gb", 19.62, 32, 2, 2, quarters},
		{"3g.40gb", 39.38, 60, 3, 4, halves}, {"4g.40gb", 39.38, 64, 4, 4, atFirst}, {"7g.80gb", 79.12, 132, 8, 8, atFirst}},
	"H200": {{"1g.18gb", 16, 16, 1, 1, anywhere}, {"1g.35gb", 32.5, 26, 1, 2, even}, {"2g.35gb", 32.5, 32, 2, 2, quarters},
		{"3g.71gb", 69.75, 60, 3, 4, halves}, {"4g.71gb", 69.75, 64, 4, 4, atFirst}, {"7g.141gb", 140, 132, 8, 8, atFirst}},
}

// profile is that of an instance; nil: a whole device.
func (m *Model) profile() *string {
	if m.whole == nil {
		return nil
	}
	_, p, _ := strings.Cut(m.Name, " MIG ")
	return &p
}

// base is the model of the whole device.
func (m *Model) base() *Model {
	if m.whole != nil {
		return m.whole
	}
	return m
}

// part is the part of the whole device's SMs that an instance has.
func (m *Model) part() float64 { return float64(m.SMs) / float64(m.base().SMs) }

// squeezed is how many times as long as on the whole device a kernel takes: an instance may have too few SMs for what it fills there.
func (m *Model) squeezed(k *profiles.Step) float64 {
	if m.whole == nil {
		return 1
	}
	return max(1, m.whole.filledBy(k)/m.part())
}

// of is the model of an instance of a device.
func (i instance) of(whole *Model) Model {
	all := instances[whole.Name]
	m := *whole
	m.whole = whole
	m.Name = whole.Name + " MIG " + i.name
	m.MemoryBytes = int64(i.memory * float64(1024*mib))
	m.SMs = i.sms
	m.LinkBytesPerS *= float64(i.engines) / float64(all[len(all)-1].engines)
	m.BytesPerS *= float64(i.slices) / float64(all[len(all)-1].slices)
	return m
}

// parseInstances reads how each of the devices is split: [NUMBERx]INSTANCE, joined by commas. name is how it is recorded.
func parseInstances(whole *Model, text string) (groups []Group, name string, err error) {
	known := instances[whole.Name]
	if known == nil {
		return nil, "", fmt.Errorf("%s/%s: only A30, A100, H100 and H200 are split (MIG): leave the slash out", whole.Name, text)
	}
	var names []string
	for _, i := range known {
		names = append(names, i.name)
	}
	var all []instance
	var parts []string
	for item := range strings.SplitSeq(text, ",") {
		count, of := 1, item
		if number, rest, has := strings.Cut(item, "x"); has {
			of = rest
			if count, err = strconv.Atoi(number); err != nil || count < 1 || count > 7 {
				return nil, "", fmt.Errorf("%s/%s: %q: want 1 to 7 instances, as in 7x%s", whole.Name, text, item, names[0])
			}
		}
		at := slices.IndexFunc(known, func(i instance) bool { return strings.EqualFold(i.name, of) })
		if at < 0 {
			return nil, "", fmt.Errorf("%s/%s: no instance %q: %s", whole.Name, text, of, near.OrKnown(of, names))
		}
		all = append(all, slices.Repeat([]instance{known[at]}, count)...)
		parts = append(parts, fmt.Sprintf("%dx%s", count, known[at].name))
		groups = append(groups, Group{Model: known[at].of(whole), Count: count})
	}
	if !fit(all, 0) {
		return nil, "", fmt.Errorf("%s/%s: these do not fit together: the device has %d slices of memory, and an instance begins at some of them only; %s", whole.Name, text, known[len(known)-1].slices, slicesOf(all))
	}
	return groups, strings.Join(parts, ","), nil
}

// slicesOf says how many slices of memory instances take.
func slicesOf(all []instance) string {
	var texts []string
	for _, i := range slices.CompactFunc(slices.Clone(all), func(a, b instance) bool { return a.name == b.name }) {
		texts = append(texts, fmt.Sprintf("%s takes %d", i.name, i.slices))
	}
	return strings.Join(texts, ", ")
}

// fit reports whether instances fit beside what takes the slices of memory that have their bits in taken.
func fit(all []instance, taken uint8) bool {
	if len(all) == 0 {
		return true
	}
	return slices.ContainsFunc(all[0].starts, func(start int) bool {
		here := uint8(1<<all[0].slices-1) << start
		return taken&here == 0 && fit(all[1:], taken|here)
	})
}
