package sim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/near"
)

// Kind is nodes of a cluster that are alike.
type Kind struct {
	Node
	Nodes  int
	Weight int    // for how many ranks one has room (schedulers/cluster.Node)
	NIC    string // its name; "": defaultNIC
}

// A cluster may have so many nodes and devices, and a node such a weight.
const (
	mostNodes     = 10_000
	mostOfCluster = 100_000
	mostWeight    = 1_000_000
)

var kindForm = regexp.MustCompile(`^([0-9]+)x([0-9]+x.*)$`)

// IsFile reports whether a name is that of a file of a cluster's nodes.
func IsFile(text string) bool {
	return strings.HasSuffix(text, ".csv") && !strings.HasPrefix(text, prefix)
}

// Canonical is the name of a node or of a cluster as runs record it. A cluster may be a file.
func Canonical(text string) (string, error) {
	if IsFile(text) {
		kinds, err := loadKinds(text)
		if err != nil {
			return "", err
		}
		if err := tooLarge(kinds); err != nil {
			return "", fmt.Errorf("%s: %w", text, err)
		}
		return nameOf(kinds), nil
	}
	kinds, isCluster, err := parse(text)
	if err != nil || !isCluster {
		return kinds[0].Name, err
	}
	return nameOf(kinds), nil
}

func nameOf(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.String())
	}
	return prefix + strings.Join(names, ":")
}

// parse reads the name of a node or of a cluster. A cluster is NODESxNODE, or several such kinds joined by colons. Behind @ a kind may have
// nic=NAME and weight=NUMBER. There is at least one kind.
func parse(text string) (kinds []Kind, isCluster bool, err error) {
	list, found := strings.CutPrefix(text, prefix)
	if !found || !strings.ContainsAny(list, ":@") && !kindForm.MatchString(list) {
		alone, err := ParseNode(text)
		return []Kind{{Node: alone, Nodes: 1}}, false, err
	}
	for part := range strings.SplitSeq(list, ":") {
		k, err := parseKind(part)
		if err != nil {
			return []Kind{k}, true, fmt.Errorf("node %q: %w", text, err)
		}
		kinds = joined(kinds, k)
	}
	if err := tooLarge(kinds); err != nil {
		return kinds, true, fmt.Errorf("node %q: %w", text, err)
	}
	return kinds, true, nil
}

// tooLarge says why a cluster is too large; nil: it is not.
func tooLarge(kinds []Kind) error {
	nodes, devices := 0, 0
	for _, k := range kinds {
		nodes, devices = nodes+k.Nodes, devices+k.Nodes*k.Count()
	}
	switch {
	case nodes > mostNodes:
		return fmt.Errorf("%d nodes: want 1 to %d", nodes, mostNodes)
	case devices > mostOfCluster:
		return fmt.Errorf("%d devices: a cluster has at most %d", devices, mostOfCluster)
	}
	return nil
}

// joined adds a kind. Neighbouring kinds that are alike are one.
func joined(kinds []Kind, k Kind) []Kind {
	if last := len(kinds) - 1; last >= 0 && kinds[last].Name == k.Name && kinds[last].NIC == k.NIC && kinds[last].Weight == k.Weight {
		kinds[last].Nodes += k.Nodes
		return kinds
	}
	return append(kinds, k)
}

// parseKind reads [NODESx]NODE[@KEY=VALUE]...
func parseKind(text string) (k Kind, err error) {
	form, settings, has := strings.Cut(text, "@")
	k.Nodes = 1
	if m := kindForm.FindStringSubmatch(form); m != nil {
		form = m[2]
		if k.Nodes, err = strconv.Atoi(m[1]); err != nil || k.Nodes < 1 || k.Nodes > mostNodes {
			return k, fmt.Errorf("%s nodes: want 1 to %d", m[1], mostNodes)
		}
	}
	if k.Node, err = parseNode(form); err != nil || !has {
		return k, err
	}
	for setting := range strings.SplitSeq(settings, "@") {
		key, value, _ := strings.Cut(setting, "=")
		if strings.Count("@"+settings, "@"+key+"=") > 1 {
			return k, fmt.Errorf("@%s= twice: leave one out", key)
		}
		switch key {
		case "nic":
			err = k.setNIC(value)
		case "weight":
			err = k.setWeight(value)
		default:
			err = fmt.Errorf("@%s: want @nic=NAME or @weight=NUMBER", setting)
		}
		if err != nil {
			return k, err
		}
	}
	return k, nil
}

func (k *Kind) setNIC(name string) error {
	for known := range nics {
		if strings.EqualFold(known, name) {
			if k.NIC = known; known == defaultNIC {
				k.NIC = ""
			}
			return nil
		}
	}
	return fmt.Errorf("no NIC %q: %s", name, near.OrKnown(name, slices.Sorted(maps.Keys(nics))))
}

func (k *Kind) setWeight(text string) (err error) {
	if k.Weight, err = strconv.Atoi(text); err != nil || k.Weight < 1 || k.Weight > mostWeight {
		return fmt.Errorf("weight %q: want the number of ranks for which such a node has room, from 1 to %d", text, mostWeight)
	}
	return nil
}

// String is the kind as parse reads it.
func (k Kind) String() string {
	text := fmt.Sprintf("%dx%s", k.Nodes, strings.TrimPrefix(k.Name, prefix))
	if k.NIC != "" {
		text += "@nic=" + k.NIC
	}
	if k.Weight > 0 {
		text += fmt.Sprint("@weight=", k.Weight)
	}
	return text
}
