package html

import (
	"fmt"
	"html/template"
	"maps"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/regress"
)

// armName is the name of a scheduler with parameters. One checkbox hides the arm in all mixes
// and nodes. Its number gives it its colour.
type armName struct {
	Index int
	Text  string
	Full  string // with every parameter
}

// Class gives what is of the arm the arm's colour.
func (n armName) Class() string { return figures.Class(n.Index) }

// Swatch is a picture of the arm's style.
func (n armName) Swatch() template.HTML { return template.HTML(figures.Swatch(n.Index)) } //nolint:gosec // our own drawing

type arms struct {
	given results.Names
	order figures.Arms
	names []armName
}

// newArms names the arms of the runs. They are in the order of the matrices, as in figures, and then in the order given.
func newArms(runs []results.Run, ms []regress.Matrix) *arms {
	a := &arms{order: figures.ArmsOf(ms), given: results.NamesOf(runs)}
	all := map[results.Arm]bool{}
	for _, r := range runs {
		all[results.ArmOf(r)] = true
	}
	for _, arm := range a.given.Sorted(maps.Keys(all)) {
		a.order.Add(arm)
	}
	for i, arm := range a.order {
		a.names = append(a.names, armName{i, line(a.given.Scheduler(arm)), fullName(arm)})
	}
	return a
}

func (a *arms) of(r results.Run) armName { return a.names[a.order.Number(results.ArmOf(r))] }

func fullName(arm results.Arm) string {
	name := line(arm.Scheduler)
	if arm.Parameters != "" {
		name += ":" + line(arm.Parameters)
	}
	return results.WithProbe(name, arm.Probe)
}

// armColours is the style of what is of an arm.
func armColours() string {
	var light, dark strings.Builder
	for i := range figures.Styles {
		fmt.Fprintf(&light, ".%s { --arm: %s; fill: %[2]s; }\n", figures.Class(i), figures.Hex(i))
		fmt.Fprintf(&dark, ".%s { --arm: %s; fill: %[2]s; }\n", figures.Class(i), figures.HexDark(i))
	}
	return light.String() + "@media screen and (prefers-color-scheme: dark) {\n" + dark.String() + "}\n"
}

// armRow are the attributes of an arm's row.
func armRow(n armName) template.HTMLAttr {
	return rowAttribute("class", n.Class()) + " " + rowAttribute("data-arm", n.Index)
}
