package mixes

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/caserun/caserun/internal/near"
)

// The catalog is a set of mix files in the users' format, read by the same parser. rodinia.yaml,
// darknet.yaml, torch.yaml, pilot.yaml, node.yaml and cluster.yaml define the jobs to which mixes, and users' files, refer by name.
//
//go:embed catalog/*.yaml
var catalogFiles embed.FS

var catalogMixNames = withManaged([]string{
	"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8",
	"D-predict", "D-detect", "D-generate", "D-train", "D-128",
	"M-train", "M-infer", "M-mixed",
	"P-fig2-1g", "P-fig2-5g", "P-fig2-10g",
	"P-fig4-backprop", "P-fig4-bfs", "P-fig4-hs3d", "P-fig4-partfilter", "P-fig4-lavamd",
	"P-fig4-nn", "P-fig4-gaussian", "P-fig4-corr", "P-fig4-gesummv", "P-fig4-2dconvol",
	"P-fig5-corr-backprop", "P-fig5-hs3d-2dconvol", "P-fig5-bfs-2dconvol", "P-fig5-bfs-nn",
})

// OnManaged is the end of the names of PILOT's mixes whose programs are told to have managed memory.
const OnManaged = "-managed"

var managedArgs = []string{"--memory", "managed"}

func withManaged(names []string) []string {
	for _, name := range names {
		if strings.HasPrefix(name, "P-") {
			names = append(names, name+OnManaged)
		}
	}
	return names
}

// managed is the mix with managed memory.
func (m Mix) managed() Mix {
	m = m.clone()
	m.Name += OnManaged
	m.Description += ", with managed memory"
	for i := range m.Jobs {
		m.Jobs[i].Args = append(m.Jobs[i].Args, managedArgs...)
	}
	return m
}

// Managed reports whether a job's program is told to have managed memory, as PILOT's programs can be.
func Managed(j Job) bool {
	at := slices.Index(j.Args, managedArgs[0])
	return at >= 0 && slices.Equal(j.Args[at:min(at+2, len(j.Args))], managedArgs)
}

type catalog struct {
	rodinia, darknet []Job
	mixes            []Mix
	jobs             jobIndex
}

// jobIndex has the jobs to which a mix may refer by name.
type jobIndex struct {
	names     []string
	byName    map[string]Job
	byCommand map[string]Job
	inputs    map[string]map[string]string // by program and base name: the files that its jobs read
}

func (x *jobIndex) add(jobs []Job) {
	if x.byName == nil {
		x.byName, x.byCommand, x.inputs = map[string]Job{}, map[string]Job{}, map[string]map[string]string{}
	}
	for _, j := range jobs {
		x.names = append(x.names, j.Name)
		x.byName[j.Name] = j
		if _, found := x.byCommand[j.Command()]; !found {
			x.byCommand[j.Command()] = j
		}
		if x.inputs[j.Program] == nil {
			x.inputs[j.Program] = map[string]string{}
		}
		for _, a := range append([]string{j.Stdin}, j.Args...) {
			if namesFile(a) {
				x.inputs[j.Program][path.Base(a)] = a
			}
		}
	}
}

// builtin panics on a bad embedded file. Such a file is an error in the program, like a bad
// pattern for regexp.MustCompile, and fails every test of the package.
var builtin = sync.OnceValue(func() *catalog {
	var c catalog
	read := func(name string) Mix {
		file := "catalog/" + name + ".yaml"
		data, err := catalogFiles.ReadFile(file)
		if err != nil {
			panic(err)
		}
		m, err := parseYAML(newLines(file, bytes.NewReader(data)), c.jobs, nil)
		if err != nil {
			panic(err)
		}
		m.Source, m.Lines = "catalog", nil
		return m
	}
	c.rodinia = read("rodinia").Jobs
	c.darknet = read("darknet").Jobs
	c.jobs.add(c.rodinia)
	c.jobs.add(c.darknet)
	c.jobs.add(read("torch").Jobs)
	c.jobs.add(read("pilot").Jobs)
	c.jobs.add(read("node").Jobs)
	c.jobs.add(read("cluster").Jobs)
	for _, name := range catalogMixNames {
		if of, managed := strings.CutSuffix(name, OnManaged); managed {
			c.mixes = append(c.mixes, read(of).managed())
		} else {
			c.mixes = append(c.mixes, read(name))
		}
	}
	for i := range figures {
		c.mixes = append(c.mixes, figures[i].usual(&c.jobs))
	}
	return &c
})

// Catalog returns the mixes of the CASE paper: W1 to W8 of Table 2, the four
// homogeneous Darknet mixes and the 128-job Darknet mix of section 5.3. Those of PyTorch programs, M-train to M-mixed, follow, and those of PILOT's figures, P-fig2-1g to P-fig5-bfs-nn, and these with managed memory. Those of
// the dissertation's figures, N-fig7 to N-fig21 and C-fig2 to C-alone, are last, with the usual values of their parameters.
func Catalog() []Mix {
	mixes := make([]Mix, 0, len(builtin().mixes))
	for _, m := range builtin().mixes {
		mixes = append(mixes, m.clone())
	}
	return mixes
}

// Jobs returns the 17 Rodinia jobs of Table 1 in the table's order, by increasing memory.
func Jobs() []Job {
	jobs := make([]Job, 0, len(builtin().rodinia))
	for _, j := range builtin().rodinia {
		jobs = append(jobs, j.clone())
	}
	return jobs
}

// mixNames are the names of the catalog's mixes, those of figures without values.
func mixNames() (names []string) {
	for _, m := range builtin().mixes {
		names = append(names, m.Name)
	}
	return names
}

// Lookup finds a catalog mix by name, in any case.
func Lookup(name string) (Mix, error) {
	for _, m := range builtin().mixes {
		if strings.EqualFold(m.Name, name) {
			return m.clone(), nil
		}
	}
	for _, find := range []func(string) (Mix, bool, error){retimed, ofFigure} {
		if m, known, err := find(name); known {
			return m, err
		}
	}
	return Mix{}, fmt.Errorf("no mix %q in the catalog; %s", name, near.OrKnown(name, mixNames()))
}

// Match returns the names of the catalog's mixes that match a pattern of path.Match, such as
// D-*, in any case. N-fig9-* are those of a figure with values.
func Match(pattern string) ([]string, error) {
	all, names := mixNames(), []string(nil)
	for i := range figures {
		if prefix := figures[i].name + "-"; len(pattern) > len(prefix) && strings.EqualFold(pattern[:len(prefix)], prefix) {
			all = append(all, figures[i].names()...)
		}
	}
	for _, name := range all {
		fits, err := path.Match(strings.ToUpper(pattern), strings.ToUpper(name))
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w: write it as W* or D-*", pattern, err)
		}
		if fits {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no mix of the catalog fits %q: use one of %s", pattern, strings.Join(mixNames(), ", "))
	}
	return names, nil
}
