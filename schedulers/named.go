package schedulers

import "strings"

// CutName splits the text of an arm, NAME:=SCHEDULER or SCHEDULER alone, where a scheduler may have parameters. named
// reports whether there is a name, perhaps an empty one.
func CutName(text string) (name, scheduler string, named bool) {
	before, after, found := strings.Cut(text, ":=")
	if !found || strings.Contains(before, ":") { // as in the path of a program
		return "", text, false
	}
	return before, after, true
}

// CutLayer splits the text of a scheduler without a name of the user's, such as cg@mps:workers=2, into that of the scheduler, cg:workers=2, and the
// layer that its jobs run under, mps.
func CutLayer(text string) (scheduler, layer string, layered bool) {
	name, parameters, more := strings.Cut(text, ":")
	scheduler, layer, layered = strings.Cut(name, "@")
	if more {
		scheduler += ":" + parameters
	}
	return scheduler, layer, layered
}
