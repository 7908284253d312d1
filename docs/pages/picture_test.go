package pages

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/html"
	"github.com/caserun/caserun/results/store"
)

// picturePage is the picture of README and of the guide.
var picturePage = page{"docs/guide/w7.svg", []table{{whole, picture}}}

// picture draws W7 under two schedulers: of each, the repetition of README's sweep that has the median makespan.
func picture() string {
	var svg bytes.Buffer
	swept([]string{"W7"}, []string{"sa", "case-alg3"}, func(db *store.Store, runs []results.Run) {
		sa, alg3 := middle(runs, "sa"), middle(runs, "case-alg3")
		title := fmt.Sprintf("%s, %d jobs on four V100s", sa.Mix, sa.Jobs)
		note := fmt.Sprintf("%s, %d repetitions with a noise of %g %%: of each scheduler the one with the median makespan", sa.Node, sweepReps, 100*sweepNoise)
		if err := html.Picture(ctx, &svg, db, []html.Pictured{
			{Run: sa, Text: "each job has a GPU of its own"},
			{Run: alg3, Text: "jobs share GPUs as far as their memory fits"},
		}, title, note); err != nil {
			fail("%w", err)
		}
	})
	return svg.String()
}

// middle is the scheduler's run with the median makespan.
func middle(runs []results.Run, scheduler string) results.Run {
	own := slices.DeleteFunc(slices.Clone(runs), func(r results.Run) bool { return r.Scheduler != scheduler })
	slices.SortFunc(own, func(a, b results.Run) int { return cmp.Compare(*a.Metrics.MakespanS, *b.Metrics.MakespanS) })
	return own[len(own)/2]
}
