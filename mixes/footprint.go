package mixes

import (
	"math"
	"strconv"
	"strings"
)

// FootprintOf derives the footprint of a command of Rodinia from its arguments. It is false if the need is not known exactly, as
// when the program refuses the size.
func FootprintOf(program string, args []string) (Footprint, bool) {
	f, _, exact := footprintOf(program, args)
	return f, exact
}

// footprintOf derives a Rodinia command's footprint from its arguments. It also returns the size
// for the job's name ("32768" in needle-32768). It returns false if the need is not known
// exactly:
//   - the command has other flags;
//   - the program refuses the size, or its int arithmetic overflows;
//   - the program is bfs, whose need depends on the graph file.
//
// The bytes are the sums of the programs' cudaMalloc calls in Rodinia 3.1 as CASE's authors built
// it, and equal the authors' footprint list. The grid is the main kernel's. needle launches grids
// from 1 to n/16 blocks; its footprint has the largest.
func footprintOf(program string, args []string) (Footprint, string, bool) {
	formula, found := formulas[program]
	if !found {
		return Footprint{}, "", false
	}
	return formula(args)
}

var formulas = map[string]func([]string) (Footprint, string, bool){
	"backprop":     backpropFootprint,
	"needle":       needleFootprint,
	"srad_v1/srad": sradV1Footprint,
	"srad_v2/srad": sradV2Footprint,
	"lavaMD":       lavaMDFootprint,
	"dwt2d":        dwt2dFootprint,
}

// backprop N: inputs of 4(N+1) bytes, two weight matrices of 4·17(N+1), partial sums of 16 floats
// for each grid row, and twice 17 floats for the hidden layer. The sum is 140N + 276 + 64·rows.
// Grids of 65,536 rows and more are folded to 32,768 rows.
func backpropFootprint(args []string) (Footprint, string, bool) {
	size, ok := sizes(args, 1, 0)
	if !ok || size[0]%16 != 0 || (size[0]+1)*17 > math.MaxInt32 {
		return Footprint{}, "", false
	}
	n := size[0]
	rows, columns := n/16, int64(1)
	if rows >= 65536 {
		rows, columns = 32768, rows/32768
	}
	return Footprint{140*n + 276 + 64*rows, uint64(rows * columns), 256}, args[0], true
}

// needle N PENALTY: two int matrices of (N+1)×(N+1).
func needleFootprint(args []string) (Footprint, string, bool) {
	size, ok := sizes(args, 2, 0)
	if !ok || size[0]%16 != 0 || (size[0]+1)*(size[0]+1) > math.MaxInt32 {
		return Footprint{}, "", false
	}
	n := size[0]
	return Footprint{8 * (n + 1) * (n + 1), uint64(n / 16), 16}, args[0], true
}

// srad_v1 ITERATIONS LAMBDA ROWS COLUMNS: eight float images, and for each side two int vectors
// of neighbours.
func sradV1Footprint(args []string) (Footprint, string, bool) {
	size, ok := sizes(args, 4, 2, 3)
	if !ok || 4*size[0]*size[1] > math.MaxInt32 {
		return Footprint{}, "", false
	}
	r, c := size[0], size[1]
	return Footprint{32*r*c + 8*r + 8*c, uint64((r*c + 511) / 512), 512}, sides(r, c), true
}

// srad_v2 ROWS COLUMNS Y1 Y2 X1 X2 LAMBDA ITERATIONS: six float images.
func sradV2Footprint(args []string) (Footprint, string, bool) {
	size, ok := sizes(args, 8, 0, 1)
	if !ok || size[0]%16 != 0 || size[1]%16 != 0 || size[0]*size[1] > math.MaxInt32 {
		return Footprint{}, "", false
	}
	r, c := size[0], size[1]
	return Footprint{24 * r * c, uint64(r / 16 * (c / 16)), 256}, sides(r, c), true
}

// maxBoxes1D is the largest side of a cube whose particles, 100 in each box, fit an int.
const maxBoxes1D = 277

// lavaMD -boxes1d N: each of N³ boxes has a record of 656 bytes and 100 particles. A particle has
// 32 bytes of position, 32 of force and 8 of charge.
func lavaMDFootprint(args []string) (Footprint, string, bool) {
	if len(args) != 2 || args[0] != "-boxes1d" {
		return Footprint{}, "", false
	}
	size, ok := sizes(args, 2, 1)
	if !ok || size[0] > maxBoxes1D {
		return Footprint{}, "", false
	}
	boxes := size[0] * size[0] * size[0]
	return Footprint{7856 * boxes, uint64(boxes), 128}, args[1], true
}

// dwt2d IMAGE -d WxH -f -5 -l LEVELS: each pixel has 3 bytes of image and seven ints (three
// components in, three out, one backup). The image buffer is rounded up to 256 pixels, so only
// multiples of 256 are exact. Images of 960 or more columns use windows of 192 columns by 8 rows;
// a block has up to 15 windows.
func dwt2dFootprint(args []string) (Footprint, string, bool) {
	if len(args) != 7 || args[1] != "-d" || args[3] != "-f" || args[4] != "-5" || args[5] != "-l" {
		return Footprint{}, "", false
	}
	if _, ok := sizes(args, 7, 6); !ok {
		return Footprint{}, "", false
	}
	width, height, _ := strings.Cut(args[2], "x")
	size, ok := sizes([]string{width, height}, 2, 0, 1)
	if !ok || size[0]*size[1]%256 != 0 || 4*size[0]*size[1] > math.MaxInt32 {
		return Footprint{}, "", false
	}
	w, h := size[0], size[1]
	need := Footprint{Bytes: 31 * w * h}
	if w >= 960 {
		rows := 8 * ((h + 8*15 - 1) / (8 * 15))
		need.Blocks = uint64((w + 191) / 192 * ((h + rows - 1) / rows))
		need.ThreadsPerBlock = 192
	}
	return need, sides(w, h), true
}

// sizes reads the arguments at the given positions as positive decimal numbers. A single size is
// below 2^31. Two sides are up to 2^20 each, so that their product fits an int64.
func sizes(args []string, count int, positions ...int) ([]int64, bool) {
	if len(args) != count {
		return nil, false
	}
	limit := int64(math.MaxInt32)
	if len(positions) > 1 {
		limit = 1 << 20
	}
	values := make([]int64, len(positions))
	for i, p := range positions {
		n, err := strconv.ParseInt(args[p], 10, 32)
		if err != nil || n <= 0 || n > limit || strconv.FormatInt(n, 10) != args[p] {
			return nil, false
		}
		values[i] = n
	}
	return values, true
}

func sides(a, b int64) string {
	if a == b {
		return strconv.FormatInt(a, 10)
	}
	return strconv.FormatInt(a, 10) + "x" + strconv.FormatInt(b, 10)
}
