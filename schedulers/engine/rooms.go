package engine

import (
	"math/bits"
	"slices"
)

// rooms has a number for each device, and finds devices with at least a number in O(log devices). It
// is a complete binary tree in an array: the devices are its leaves, and each inner node has the
// larger number of the two below it.
type rooms struct {
	most   []int64 // the root is at 1, and those below i are at 2i and 2i+1
	leaves int     // a power of two; leaves without a device have -1
}

// newRooms returns the rooms of so many devices, each -1.
func newRooms(devices int) rooms {
	r := rooms{leaves: 1 << bits.Len(uint(devices-1))}
	r.most = make([]int64, 2*r.leaves)
	for i := range r.most {
		r.most[i] = -1
	}
	return r
}

func (r rooms) set(device int, room int64) {
	i := r.leaves + device
	r.most[i] = room
	for i /= 2; i > 0; i /= 2 {
		r.most[i] = max(r.most[2*i], r.most[2*i+1])
	}
}

func (r rooms) of(device int) int64 { return r.most[r.leaves+device] }

// largest is the largest number of all.
func (r rooms) largest() int64 { return r.most[1] }

// nthLargest is the n-th largest number of all, from n = 1 on; -1 if there are fewer.
func (r rooms) nthLargest(n int) int64 {
	if n > r.leaves {
		return -1
	}
	all := slices.Sorted(slices.Values(r.most[r.leaves:]))
	return all[len(all)-n]
}

// next returns the first device from device on that has at least so much room; false if there is
// none.
func (r rooms) next(device int, atLeast int64) (int, bool) {
	if device >= r.leaves {
		return 0, false
	}
	i := r.leaves + device
	for r.most[i] < atLeast {
		for i&1 == 1 { // the last below its parent
			i /= 2
		}
		if i == 0 {
			return 0, false
		}
		i++
	}
	for i < r.leaves {
		i *= 2
		if r.most[i] < atLeast {
			i++
		}
	}
	return i - r.leaves, true
}
