package engine

import "math/bits"

// passes counts how often each waiting task was passed, without a step for each task: a task is
// passed at each grant of a task that came later, unless it is stalled then. So the count is the
// number of grants behind the task's place in the order of arrival, corrected by what it missed
// while it was stalled.
type passes struct {
	places []*waiting // by arrival; nil where the task is gone
	grants []int      // Fenwick tree: grants[i] counts those at the places i&(i+1) to i
	total  int        // grants, at all places
	young  int        // no place before it has a task that is even and has not aged
	uneven []*waiting // that have been stalled, and have not aged
}

// departed is the place of a task that has left.
const departed = -1

// turn is what passes knows of a task.
type turn struct {
	place  int
	base   int // what is added to the grants behind place; all of the count while the task is stalled
	aged   bool
	uneven bool // it has been stalled: it may have been passed less often than a task that came later
}

// enter adds the latest task.
func (p *passes) enter(w *waiting) {
	if len(p.places) == cap(p.places) {
		p.compact()
	}
	w.place = len(p.places)
	p.places = append(p.places, w)
}

// of returns how often w was passed.
func (p *passes) of(w *waiting) int {
	if w.stalled {
		return w.base
	}
	return w.base + p.behind(w.place)
}

// leave removes w. If it was granted, the tasks that came before it and are not stalled were passed.
func (p *passes) leave(w *waiting, granted bool) {
	p.places[w.place] = nil
	if granted {
		p.total++
		for i := w.place; i < len(p.grants); i |= i + 1 {
			p.grants[i]++
		}
	}
	w.place = departed
}

// stall says whether w is stalled from now on.
func (p *passes) stall(w *waiting, stalled bool) {
	switch {
	case stalled == w.stalled:
		return
	case stalled:
		w.base += p.behind(w.place)
		if !w.uneven && !w.aged {
			w.uneven, p.uneven = true, append(p.uneven, w)
		}
	default:
		w.base -= p.behind(w.place)
	}
	w.stalled = stalled
}

// age returns the tasks that have been passed as often as limit and have not aged before. They count
// as aged from now on. Of the even tasks the first to come is passed most often.
func (p *passes) age(limit int) []*waiting {
	var aged []*waiting
	for ; p.young < len(p.places); p.young++ {
		w := p.places[p.young]
		if w == nil || w.aged || w.uneven {
			continue
		}
		if p.of(w) < limit {
			break
		}
		aged = append(aged, w)
	}
	still := p.uneven[:0]
	for _, w := range p.uneven {
		switch {
		case w.place == departed:
		case !w.stalled && p.of(w) >= limit:
			aged = append(aged, w)
		default:
			still = append(still, w)
		}
	}
	clear(p.uneven[len(still):])
	p.uneven = still
	return aged
}

// behind counts the grants at later places.
func (p *passes) behind(place int) int {
	n := p.total
	for i := place; i >= 0; i = i&(i+1) - 1 {
		n -= p.grants[i]
	}
	return n
}

// compact gives the tasks new places without gaps, as many again that are free, and no grants.
func (p *passes) compact() {
	var kept []*waiting
	for _, w := range p.places {
		if w == nil {
			continue
		}
		if !w.stalled {
			w.base += p.behind(w.place)
		}
		kept = append(kept, w)
	}
	size := max(64, 2<<bits.Len(uint(len(kept))))
	*p = passes{places: make([]*waiting, len(kept), size), grants: make([]int, size), uneven: p.uneven}
	copy(p.places, kept)
	for i, w := range kept {
		w.place = i
	}
}
