package regress

import "slices"

// What a finding in a few words means. Short findings that are not here explain themselves.
const (
	saysTooFew       = "too few: with so few repetitions no difference would be significant among all checks. Measure as many of each arm as the finding says"
	saysTooNoisy     = "too noisy: half the width of the change's interval, which the finding has, is more than the limit, so that a regression of the limit would not stand out. Measure more repetitions, or allow more"
	saysNotShown     = "not shown: the change is beyond the limit, but not significant, or its interval is too wide to say. Measure more repetitions"
	saysMixesDiffer  = "mixes differ: the change over all mixes is beyond the limit, but some gained and others lost. Measure more repetitions"
	saysOneSample    = "one sample: simulated runs without noise are all the same. Measure again with noise"
	saysSettled      = "ok over all mixes: too noisy or too few alone, and settled by the check over all mixes"
	saysLostMore     = "lost more jobs: a side that loses more jobs does less work, so that no other metric can be compared"
	saysFirstCrashes = "first crashes: no job crashed before, and the crashes are too few to tell them from chance"
	saysByChance     = "chance: the candidate lost more jobs than its limit, and no more than chance explains"
	saysAllowed      = "allowed: the candidate lost more jobs, as a limit allows"
	saysNightsDiffer = "nights differ: the candidate's nights lie further apart than the limit, so that together they may hide a regression of some. Check them one by one"
	saysEnvironment  = "environment: the check fails, and what changed beside the program is named. It may be the cause"
)

// settle sets what a check found: its class, its finding in a few words and in a sentence, and what the
// few words mean.
func (c *Check) settle(class Class, short, text, note string) {
	c.Class, c.Short, c.Text, c.note = class, short, text, note
}

// Explanations says what the findings mean, each kind once, in the order of the checks.
func (r Report) Explanations() []string {
	var out []string
	for _, c := range r.Checks {
		if c.note != "" && !slices.Contains(out, c.note) {
			out = append(out, c.note)
		}
	}
	if note := r.ofSpread(); note != "" {
		out = append(out, note)
	}
	return out
}
