package engine

import "iter"

// forest is a tree for each branch of the waiting tasks (waiting.branch). The order of tasks of different branches may
// change with time, but that within a branch may not.
type forest struct {
	compare func(a, b *waiting) int // 0 only for the same task
	trees   []tree
	len     int
}

// of is the tree of w's branch.
func (f *forest) of(w *waiting) *tree {
	for len(f.trees) <= w.branch() {
		f.trees = append(f.trees, tree{compare: f.compare})
	}
	return &f.trees[w.branch()]
}

// insert, remove and set are those of tree.

func (f *forest) insert(w *waiting, n *node, value int64) {
	f.of(w).insert(w, n, value)
	f.len++
}

func (f *forest) remove(w *waiting) {
	f.of(w).remove(w)
	f.len--
}

func (f *forest) set(w *waiting, value int64) { f.of(w).set(w, value) }

// least is the least value; the largest integer if the forest is empty.
func (f *forest) least() int64 {
	least := (&tree{}).least()
	for i := range f.trees {
		least = min(least, f.trees[i].least())
	}
	return least
}

// first returns the first task past after with a value of at most limit, or nil. If after is nil, it may be any task.
func (f *forest) first(limit int64, after *waiting) *waiting {
	var first *waiting
	for i := range f.trees {
		if w := f.trees[i].first(limit, after); w != nil && (first == nil || f.compare(w, first) < 0) {
			first = w
		}
	}
	return first
}

// all has the tasks in their order. The forest must not change meanwhile.
func (f *forest) all() iter.Seq[*waiting] {
	return func(yield func(*waiting) bool) { f.each(yield) } // one closure, which costs no memory where it is inlined
}

func (f *forest) each(yield func(*waiting) bool) {
	if len(f.trees) == 1 {
		f.trees[0].root.each(yield)
		return
	}
	for w := f.first(everything, nil); w != nil && yield(w); w = f.first(everything, w) {
	}
}
