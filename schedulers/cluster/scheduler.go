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

// Exclusive reports whether a rank shares its device with nobody.
func (p Policy) Exclusive() bool { return p.exclusive }

// Literal reports whether the policy is a listing as printed.
func (p Policy) Literal() bool { return p.literal }

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
		s, err := parse(text, devices)
		_, unnamed, _ := schedulers.CutName(text)
		if name, _, _ := strings.Cut(strings.ReplaceAll(unnamed, "+", ":"), ":"); err != nil && registry[name].place != nil {
			err = fmt.Errorf("scheduler %q: %s gives jobs to the nodes of a cluster: write also the scheduler of each node, as in %[1]s/case-alg3", unnamed, name)
		}
		return s, err
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
