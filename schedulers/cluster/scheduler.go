package cluster

import (
	"fmt"
	"strings"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// String is the policy as Parse reads it, with the parameters that are not the default.
func (p Policy) String() string { return p.text }

func canonical(i policies.Info, values map[string]string) string {
	var given []string
	for _, p := range i.Params {
		if v := values[p.Name]; v != p.Default {
			given = append(given, p.Name+"="+v)
		}
	}
	if given == nil {
		return i.Name
	}
	return i.Name + ":" + strings.Join(given, ",")
}

// Offloads reports whether jobs that wait on a node move to another.
func (p Policy) Offloads() bool { return p.offloads }

// Cut parts the text of a scheduler, such as coloc:nodes=2/vgpu:n=2, behind the policy of a cluster's head. before is "" for a
// scheduler of one node; else it ends with a slash, and has the user's name, if there is one.
func Cut(text string) (before, node string) {
	_, unnamed, _ := schedulers.CutName(text)
	head, node, found := strings.Cut(unnamed, "/")
	name, _, _ := strings.Cut(strings.ReplaceAll(head, "+", ":"), ":")
	if _, known := registry[name]; !found || !known { // as in the path of a program
		return "", text
	}
	return strings.TrimSuffix(text, node), node
}

// ParseScheduler settles a scheduler as parse does, or one of a cluster: it has a head, and its name is that of both.
func ParseScheduler(text string, devices int, parse func(string, int) (policies.Scheduler, error)) (policies.Scheduler, error) {
	before, node := Cut(text)
	if before == "" {
		return parse(text, devices)
	}
	_, head, _ := schedulers.CutName(strings.TrimSuffix(before, "/"))
	policy, err := Parse(head)
	if err == nil && node == "" {
		err = fmt.Errorf("scheduler %q: after / want the scheduler of each node, as in %s/case-alg3", text, head)
	}
	if err != nil {
		return policies.Scheduler{}, err
	}
	s, err := parse(strings.TrimSuffix(before, head+"/")+node, devices)
	if err == nil {
		s.Head, s.Name = policy, policy.String()+"/"+s.Name
	}
	return s, err
}
