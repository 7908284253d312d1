// Package inputs has the input files of the Darknet jobs in CASE's Table 5 and in its authors' other
// batches: the networks' descriptions, and lists of images. It has no weights: if a file of weights is missing, the builtin
// program makes weights from a seed.
package inputs

import (
	"embed"
	"fmt"
	"strings"
)

// cfg has the networks (.cfg) and the data sets (.data); benchmarks/darknet/README.md
// has their sources.
//
//go:embed cfg
var cfg embed.FS

// The numbers and sizes of the images in the two lists. The paper does not publish the numbers.
// With these numbers, and the -len and max_batches of the other two jobs, a task takes about 5 s
// alone on an H200.
const (
	LargeImages  = 1200 // images-large.txt, for predict
	MediumImages = 4000 // images-medium.txt, for detect
	CifarUpdates = 140  // max_batches of cifar_small.cfg

	largeWidth, largeHeight   = 448, 448
	mediumWidth, mediumHeight = 416, 416
)

// File is an input file.
type File struct {
	Path    string // relative to the data directory, with slashes, as in the jobs' commands
	Content []byte
}

// Files returns all input files. seed is the images' seed.
func Files(seed uint64) []File {
	files := []File{
		{"images-large.txt", images(LargeImages, largeWidth, largeHeight, seed)},
		{"images-medium.txt", images(MediumImages, mediumWidth, mediumHeight, seed)},
	}
	for _, at := range []string{
		// The paths of Table 5's commands.
		"imagenet1k.data", "darknet53_448.cfg", "cfg/yolov3-tiny.cfg", "cfg/rnn.cfg", "cfg/cifar.data", "cfg/cifar_small.cfg",
		// The networks of the authors' other batches.
		"alexnet.cfg", "darknet19.cfg", "resnet152.cfg",
		"yolov2-320.cfg", "yolov2-608.cfg", "yolov3-320.cfg", "yolov3-608.cfg", "yolov3-spp.cfg",
	} {
		content, err := cfg.ReadFile("cfg/" + strings.TrimPrefix(at, "cfg/"))
		if err != nil {
			panic(err) // the file is embedded above
		}
		files = append(files, File{at, content})
	}
	return files
}

// images returns a list of n images that the builtin program makes from seeds.
func images(n, width, height int, seed uint64) []byte {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "gen:%dx%d:%d\n", width, height, seed+uint64(i))
	}
	return []byte(list.String())
}
