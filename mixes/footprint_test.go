package mixes

import "testing"

// The formulas must give the exact bytes of the authors' list, and the measured grids.
func TestFormulasGiveTable1(t *testing.T) {
	for _, j := range Jobs() {
		got, size, exact := footprintOf(j.Program, j.Args)
		if j.Program == "bfs" {
			if exact {
				t.Errorf("%s: a footprint without the graph", j.Name)
			}
			continue
		}
		want := j.Footprint
		if j.Program == "needle" {
			// needle has many launches: Table 1 has one of them, the formula the largest.
			if got.Blocks < want.Blocks {
				t.Errorf("%s: largest grid %d, but one of %d was seen", j.Name, got.Blocks, want.Blocks)
			}
			want.Blocks = got.Blocks
		}
		if !exact || got != want || labelOf(j.Program)+"-"+size != j.Name {
			t.Errorf("%s: %+v, size %q, exact %v; want %+v", j.Name, got, size, exact, want)
		}
	}
}

func TestFootprintOf(t *testing.T) {
	for command, want := range map[string]struct {
		footprint Footprint
		size      string
	}{
		"backprop 65536": {Footprint{140*65536 + 276 + 64*4096, 4096, 256}, "65536"},
		// A grid has at most 65535 rows of blocks.
		"backprop 1048560":                 {Footprint{140*1048560 + 276 + 64*65535, 65535, 256}, "1048560"},
		"backprop 1048576":                 {Footprint{140*1048576 + 276 + 64*32768, 65536, 256}, "1048576"},
		"needle 4096 10":                   {Footprint{8 * 4097 * 4097, 256, 16}, "4096"},
		"srad_v1/srad 10 0.5 502 458":      {Footprint{32*502*458 + 8*502 + 8*458, 450, 512}, "502x458"},
		"srad_v2/srad 64 128 0 1 0 1 .5 2": {Footprint{24 * 64 * 128, 32, 256}, "64x128"},
		"lavaMD -boxes1d 10":               {Footprint{7856000, 1000, 128}, "10"},
		"lavaMD -boxes1d 277":              {Footprint{7856 * 277 * 277 * 277, 277 * 277 * 277, 128}, "277"},
		"dwt2d x.bmp -d 512x512 -f -5 -l 3": {
			Footprint{Bytes: 31 * 512 * 512}, "512"},
		"dwt2d x.bmp -d 1024x512 -f -5 -l 1": {Footprint{31 * 1024 * 512, 6 * 13, 192}, "1024x512"},
	} {
		j, _, err := new(wlReader).command(splitLine(command))
		if err != nil {
			t.Fatal(err)
		}
		if j.Footprint != want.footprint || j.Name != labelOf(j.Program)+"-"+want.size {
			t.Errorf("%s: %s %+v, want %+v", command, j.Name, j.Footprint, want)
		}
	}
}

func TestFootprintUnknown(t *testing.T) {
	for _, command := range []string{
		"backprop 65537", "backprop 0", "backprop -16", "backprop 016", "backprop", "backprop 16 16", "backprop 134217728",
		"needle 16384", "needle 100 10", "needle 65536 10",
		"srad_v1/srad 100 0.5 30000 30000", "srad_v2/srad 100 100 0 127 0 127 0.5 2", "srad_v2/srad 65536 65536 0 127 0 127 0.5 2",
		"lavaMD -cores 10", "lavaMD -boxes1d 278", "lavaMD -boxes1d 2097152", "lavaMD -boxes1d 9223372036854775807",
		"dwt2d rgb.bmp -d 8192x8192 -f -9 -l 3", "dwt2d rgb.bmp -d 8192 -f -5 -l 3", "dwt2d rgb.bmp -d 1000x999 -f -5 -l 3",
		"dwt2d rgb.bmp -d 32768x32768 -f -5 -l 3", "dwt2d rgb.bmp -d 64x64 -f -5 -l x", "bfs graph1M.txt", "darknet detect",
	} {
		j, _, err := new(wlReader).command(splitLine(command))
		if err != nil {
			t.Fatal(err)
		}
		if j.Footprint != (Footprint{}) || j.Class != "" || j.Name != labelOf(j.Program) {
			t.Errorf("%s: %s %+v, want unknown", command, j.Name, j.Footprint)
		}
	}
}
