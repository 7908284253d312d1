package regress

import (
	"github.com/caserun/caserun/results"
)

// Since is the night from which on a check fails, as package trend finds it.
type Since struct {
	First  string // its name
	Nights int    // from it to the candidate
	// After and By are the nights between which the change lies, with 95 % confidence: after the one, and at the other at the
	// latest.
	After, By string
	Revisions [2]string // of caserun, in these two nights
	Step      bool      // it is a step of the trend; else there are too few nights after it
}

// Arms are those whose runs a check compared, one in each mix; nil if the sides had different arms.
func (r Report) Arms(c Check) (out []results.Arm) {
	all := single(r.Pairs)
	if c.Mixes > 1 {
		all = blocks(r.Pairs)
	}
	for _, block := range all {
		if len(block) == 1 && block[0].A != c.Arm || len(block) > 1 && merged(block).A != c.Arm {
			continue
		}
		for _, p := range block {
			if p.A != p.B {
				return nil
			}
			out = append(out, p.A)
		}
	}
	return out
}
