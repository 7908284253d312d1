package engine

import (
	"iter"
	"math"
)

// tree holds waiting tasks in the order of compare, each with a value. It links nodes that its tasks lend it. Each node knows the least
// value below it, so that the first task with a value of at most x is found in O(log n), like the
// place of a task. It is a treap: a task's weight is drawn from its arrival, and no node is heavier than
// the one above it.
type tree struct {
	compare func(a, b *waiting) int // 0 only for the same task
	root    *node
	len     int
}

// everything is the limit that every value keeps.
const everything = math.MaxInt64

type node struct {
	w           *waiting
	weight      uint32
	value       int64
	least       int64 // of the values of the node and of all below it
	left, right *node
}

// insert adds w, which the tree does not have, as n, a node of w that is in no tree.
func (t *tree) insert(w *waiting, n *node, value int64) {
	*n = node{w: w, weight: weight(w.arrival), value: value, least: value}
	t.root = t.insertAt(t.root, n)
	t.len++
}

// remove takes out w, which the tree has. compare must still find it where it was inserted.
func (t *tree) remove(w *waiting) {
	t.root = t.removeAt(t.root, w)
	t.len--
}

// set gives w, which the tree has, another value.
func (t *tree) set(w *waiting, value int64) { t.setAt(t.root, w, value) }

// least is the least value; the largest integer if the tree is empty.
func (t *tree) least() int64 {
	if t.root == nil {
		return everything
	}
	return t.root.least
}

// first returns the first task past after with a value of at most limit, or nil. If after is nil,
// it may be any task. after need not be in the tree.
func (t *tree) first(limit int64, after *waiting) *waiting {
	return t.firstAt(t.root, limit, after)
}

// all has the tasks in their order. The tree must not change meanwhile.
func (t *tree) all() iter.Seq[*waiting] {
	return func(yield func(*waiting) bool) { t.root.each(yield) }
}

func (n *node) each(yield func(*waiting) bool) bool {
	return n == nil || n.left.each(yield) && yield(n.w) && n.right.each(yield)
}

func (n *node) update() *node {
	n.least = n.value
	if n.left != nil {
		n.least = min(n.least, n.left.least)
	}
	if n.right != nil {
		n.least = min(n.least, n.right.least)
	}
	return n
}

func (t *tree) insertAt(n, added *node) *node {
	switch {
	case n == nil:
		return added
	case added.weight > n.weight:
		added.left, added.right = t.split(n, added.w)
		return added.update()
	case t.compare(added.w, n.w) < 0:
		n.left = t.insertAt(n.left, added)
	default:
		n.right = t.insertAt(n.right, added)
	}
	return n.update()
}

// split returns what is before w and what is after it. n does not have w.
func (t *tree) split(n *node, w *waiting) (before, behind *node) {
	if n == nil {
		return nil, nil
	}
	if t.compare(n.w, w) < 0 {
		n.right, behind = t.split(n.right, w)
		return n.update(), behind
	}
	before, n.left = t.split(n.left, w)
	return before, n.update()
}

func (t *tree) removeAt(n *node, w *waiting) *node {
	switch c := t.compare(w, n.w); {
	case c == 0:
		return merge(n.left, n.right)
	case c < 0:
		n.left = t.removeAt(n.left, w)
	default:
		n.right = t.removeAt(n.right, w)
	}
	return n.update()
}

// merge joins two trees; all of a is before all of b.
func merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight > b.weight:
		a.right = merge(a.right, b)
		return a.update()
	}
	b.left = merge(a, b.left)
	return b.update()
}

func (t *tree) setAt(n *node, w *waiting, value int64) {
	switch c := t.compare(w, n.w); {
	case c == 0:
		n.value = value
	case c < 0:
		t.setAt(n.left, w, value)
	default:
		t.setAt(n.right, w, value)
	}
	n.update()
}

func (t *tree) firstAt(n *node, limit int64, after *waiting) *waiting {
	if n == nil || n.least > limit {
		return nil
	}
	if after == nil || t.compare(n.w, after) > 0 {
		if w := t.firstAt(n.left, limit, after); w != nil {
			return w
		}
		if n.value <= limit {
			return n.w
		}
		after = nil
	}
	return t.firstAt(n.right, limit, after)
}

// weight spreads arrivals over the integers, so that the tree is balanced whatever their order
// (the finalizer of MurmurHash3).
func weight(arrival uint64) uint32 {
	x := arrival
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return uint32(x)
}
