package cluster

import (
	"iter"
	"math"
	"slices"
)

// maxima has a key for each node. It finds the first node with the largest key, and the next node with a key above a
// bound, in O(log n). A node without a key has lowest.
type maxima struct {
	leaves int       // a power of two
	keys   []float64 // keys[1] is the largest, keys[i] the larger of keys[2i] and keys[2i+1]; leaves come last
}

var lowest = math.Inf(-1)

func newMaxima(n int) maxima {
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	return maxima{leaves, slices.Repeat([]float64{lowest}, 2*leaves)}
}

func (m maxima) of(i int) float64 { return m.keys[m.leaves+i] }

func (m maxima) largest() float64 { return m.keys[1] }

func (m maxima) set(i int, key float64) {
	i += m.leaves
	m.keys[i] = key
	for i /= 2; i > 0; i /= 2 {
		larger := max(m.keys[2*i], m.keys[2*i+1])
		if m.keys[i] == larger {
			return
		}
		m.keys[i] = larger
	}
}

// first is the first node with the largest key.
func (m maxima) first() int {
	i := 1
	for i < m.leaves {
		i *= 2
		if m.keys[i] < m.keys[i+1] {
			i++
		}
	}
	return i - m.leaves
}

// firsts are the nodes with the largest keys above 0, the largest first: at most so many.
func (m maxima) firsts(most int) (nodes []int) {
	var keys []float64
	for len(nodes) < most && m.largest() > 0 {
		i := m.first()
		nodes, keys = append(nodes, i), append(keys, m.of(i))
		m.set(i, lowest)
	}
	for at, i := range nodes {
		m.set(i, keys[at])
	}
	return nodes
}

// next is the first node from a place on with a key above the bound; -1: none has one.
func (m maxima) next(from int, bound float64) int {
	if from >= m.leaves {
		return -1
	}
	i := from + m.leaves
	for m.keys[i] <= bound {
		for i%2 == 1 { // the end of a subtree without one
			i /= 2
		}
		if i == 0 {
			return -1
		}
		i++
	}
	for i < m.leaves {
		i *= 2
		if m.keys[i] <= bound {
			i++
		}
	}
	return i - m.leaves
}

// inTurn is next, and after the last node the first one follows.
func (m maxima) inTurn(from int, bound float64) int {
	if i := m.next(from, bound); i >= 0 {
		return i
	}
	return m.next(0, bound)
}

// above has the nodes with keys above the bound, in order.
func (m maxima) above(bound float64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := m.next(0, bound); i >= 0 && yield(i); {
			i = m.next(i+1, bound)
		}
	}
}
