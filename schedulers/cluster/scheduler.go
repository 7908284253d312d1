package cluster

import (
	"fmt"
	"path"
	"strings"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
)

// String is the policy as Parse reads it, with the parameters that are not the default.
func (p Policy) String() string { return p.text + p.top }

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

// ReadsLoad reports whether the head must know how many ranks wait on each node (Head.Load).
func (p Policy) ReadsLoad() bool { return p.offloads || p.program != nil }

// Offloads reports whether jobs leave crowded nodes.
func (p Policy) Offloads() bool { return p.offloads }

// Literal reports whether it is the printed listing.
func (p Policy) Literal() bool { return p.literal }

// Cut parts the text of a scheduler, such as coloc:nodes=2/vgpu:n=2, behind the policy of a cluster's head. before is "" for a
// scheduler of one node; else it ends with a slash, and has the user's name, if there is one.
func Cut(text string) (before, node string) {
	_, unnamed, _ := schedulers.CutName(text)
	head, node, found := strings.Cut(unnamed, "/")
	name, _, _ := strings.Cut(strings.ReplaceAll(head, "+", ":"), ":")
	if isProgram(unnamed) {
		node, found = cutProgram(unnamed)
	} else if _, known := registry[name]; !known {
		found = false
	}
	if !found {
		return "", text
	}
	return strings.TrimSuffix(text, node), node
}

// isProgram reports whether a text names a program of the user's.
func isProgram(text string) bool {
	name, _, more := strings.Cut(text, ":")
	info, err := policies.Lookup(name)
	return more && err == nil && info.External
}

// cutProgram finds the scheduler of each node behind the program of a head, whose path may have slashes. It is behind the first slash that the
// name of a scheduler follows, alone or with a colon. A path that path= precedes has all its slashes.
func cutProgram(text string) (node string, found bool) {
	_, program, _ := strings.Cut(text, ":")
	if strings.HasPrefix(program, "path=") {
		return "", false
	}
	for at, c := range program {
		if c != '/' || strings.Trim(path.Base(program[:at]), "./") == "" { // as in ./plan
			continue
		}
		node = program[at+1:]
		name, _, _ := strings.Cut(node, ":") // with its layer, if it has one
		if _, err := policies.Lookup(name); err == nil {
			return node, true
		}
	}
	return "", false
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
		s = policy.Over(s)
	}
	return s, err
}

// Over is the scheduler of a cluster whose head has the policy, and whose nodes have this scheduler, under whatever head.
func (p Policy) Over(node policies.Scheduler) policies.Scheduler {
	if node.Head != nil {
		node.Name = strings.TrimPrefix(node.Name, node.Head.String()+"/")
	}
	node.Head, node.Name = p, p.String()+"/"+node.Name
	return node
}

// Program is what decides for the head; nil: a registered policy does.
func (p Policy) Program() *policies.Program { return p.program }

// Pinned is policies.Scheduler.Pinned of the head's program.
func (p Policy) Pinned(sha256 string) Policy {
	program := *p.program
	program.SHA256 = sha256
	p.program, p.text = &program, program.String()
	return p
}

// By is the policy once its program has been started.
func (p Policy) By(program Assigner) Policy {
	p.by, p.place = program, placeByProgram
	return p
}

// PinnedText is policies.Scheduler.PinnedText of a scheduler of one node, or of a cluster.
func PinnedText(s policies.Scheduler, text string) string {
	before, node := Cut(text)
	base, _, _ := cutOffload(strings.TrimSuffix(before, "/"))
	p, _ := s.Head.(Policy)
	return policies.Scheduler{Program: p.program}.PinnedText(base) + strings.TrimPrefix(before, base) + s.PinnedText(node)
}

// IsPinned is policies.IsPinned of schedulers of one node, or of a cluster.
func IsPinned(pinned, text string) bool {
	pinnedHead, pinnedNode := Cut(pinned)
	head, node := Cut(text)
	base, top, _ := cutOffload(strings.TrimSuffix(head, "/"))
	pinnedBase, pinnedTop, _ := cutOffload(strings.TrimSuffix(pinnedHead, "/"))
	return policies.IsPinned(pinnedBase, base) && pinnedTop == top && policies.IsPinned(pinnedNode, node)
}

// InFolder is policies.InFolder of a scheduler of one node, or of a cluster.
func InFolder(folder, text string) string {
	before, node := Cut(text)
	if before == "" {
		return policies.InFolder(folder, text)
	}
	head := policies.InFolder(folder, strings.TrimSuffix(before, "/"))
	return strings.Replace(head, ":path=", ":", 1) + "/" + policies.InFolder(folder, node)
}

// Spread is policies.Spread of a scheduler of one node. One of a cluster stands for itself.
func Spread(text string) ([]string, error) {
	if before, _ := Cut(text); before != "" {
		return []string{text}, nil
	}
	return policies.Spread(text)
}
