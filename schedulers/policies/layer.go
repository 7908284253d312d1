package policies

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/schedulers"
)

// Layer is what jobs share devices through beside their scheduler: MPS, time slices, or what a file describes (runner/layer).
type Layer struct {
	Name    string // as arms have it behind their scheduler's @; of a file that has not been read, its base name
	Path    string // the file; "": the layer is built in
	SHA256  string // the first HashDigits of the sha256 of the file and of what it names; "": any content will do
	MPS     *bool  // nil: as without the layer
	Percent int    // active threads of each client of MPS, in percent of a device's; 0: no limit
}

// Layers are the builtin ones, each with what it is behind a tab.
var Layers = []string{"mps\tjobs share GPUs through MPS", "timeslice\tjobs share GPUs by time slices, without MPS",
	mpsPrefix + "50\tMPS, and a process may use 50 percent of a GPU's threads"}

const mpsPrefix = "mps-"

// parseLayer reads what stands behind the @ of a scheduler: a builtin layer, or a file, which has its digits behind # if it is pinned.
func parseLayer(text string) (Layer, error) {
	percent, limited := strings.CutPrefix(text, mpsPrefix)
	file, digits, pinned := strings.Cut(text, "#")
	switch {
	case text == "mps":
		return Layer{Name: text, MPS: new(true)}, nil
	case text == "timeslice":
		return Layer{Name: text, MPS: new(false)}, nil
	case text == "":
		return Layer{}, errors.New("a layer follows @, as in cg@mps: name one, or leave the @ out")
	case strings.Contains(file, "/") || strings.HasSuffix(file, ".yaml") || strings.HasSuffix(file, ".yml"):
		if pinned && (len(digits) != HashDigits || strings.Trim(digits, "0123456789abcdef") != "") {
			return Layer{}, fmt.Errorf("layer %s: want the first %d digits of a sha256 after #, or leave them out", text, HashDigits)
		}
		base := path.Base(file)
		return Layer{Name: strings.TrimSuffix(base, path.Ext(base)), Path: file, SHA256: digits}, nil
	case limited:
		n, err := input.Int(percent)
		if err != nil || n < 1 || n > 100 || percent != strconv.Itoa(n) {
			return Layer{}, fmt.Errorf("layer %s: want a whole number of percent from 1 to 100, as in mps-50", text)
		}
		return Layer{Name: text, MPS: new(true), Percent: n}, nil
	}
	hint := near.DidYouMean("", text, []string{"mps", "timeslice"})
	if hint == "" {
		hint = "use mps, mps-PERCENT as in mps-50, timeslice, or a file as in ./" + text + ".yaml"
	}
	return Layer{}, fmt.Errorf("unknown layer %q: %s", text, hint)
}

// Under is the scheduler with jobs that run under a layer. Its name has the layer's.
func (s Scheduler) Under(l Layer) Scheduler {
	plain, _, _ := schedulers.CutLayer(s.Name)
	s.Layer, s.Name = &l, plain+"@"+l.Name
	return s
}

// layerKey stands before the content of a layer's file among the parameters of a scheduler.
const layerKey = "layer="

// WithoutLayer leaves the content of a layer's file out of a scheduler's parameters, as k=v,k=v.
func WithoutLayer(parameters string) string {
	kept := slices.DeleteFunc(strings.Split(parameters, ","), func(item string) bool { return strings.HasPrefix(item, layerKey) })
	return strings.Join(kept, ",")
}

// pinnedLayer returns the text of a scheduler so that its layer means the present content of its file.
func (s Scheduler) pinnedLayer(text string) string {
	if s.Layer == nil || s.Layer.Path == "" {
		return text
	}
	return onLayer(text, func(layer string) string {
		file, _, _ := strings.Cut(layer, "#")
		return file + "#" + s.Layer.SHA256
	})
}

// onLayer changes the layer of a scheduler's text, if it has one.
func onLayer(text string, change func(layer string) string) string {
	_, unnamed, _ := schedulers.CutName(text)
	_, layer, layered := schedulers.CutLayer(unnamed)
	if !layered {
		return text
	}
	name, _, _ := strings.Cut(unnamed, ":")
	before := strings.TrimSuffix(text, unnamed) + strings.TrimSuffix(name, layer)
	return before + change(layer) + unnamed[len(name):]
}
