package results

// Step is a stretch [FromS, ToS] in which a device's series had one value; nil
// means that nothing is known of it.
type Step struct {
	FromS float64
	ToS   float64
	Value *float64
}

// Steps gives one series of one device as a step function on [0, end], in the
// order of time and by the rule that the metrics follow (docs/store.md,
// utilization). Stretches without a step are unknown.
func Steps(segments []Segment, device int, series Series, end float64) []Step {
	var own []Segment
	for _, s := range segments {
		if s.Device == device && s.Series == series {
			own = append(own, s)
		}
	}
	var out []Step
	for _, s := range spans(own, end) {
		out = append(out, Step{FromS: s.from, ToS: s.to, Value: s.value})
	}
	return out
}
