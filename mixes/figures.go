package mixes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// figure is a figure of the dissertation on runtime support for CPU-GPU clusters: a mix for each choice of its parameters' values.
// The mix whose name is the figure's has the usual ones.
type figure struct {
	name       string
	about      string
	parameters []parameter
	jobs       func(x *jobIndex, v []string) []Job
}

type parameter struct {
	name   string
	values []string
	usual  string
}

// list has the values in words.
func (p parameter) list() string {
	if last := len(p.values) - 1; last >= 10 {
		return p.values[0] + " to " + p.values[last]
	}
	return strings.Join(p.values, ", ")
}

func percents(name, usual string, values ...string) parameter { return parameter{name, values, usual} }

var (
	ofCPU       = percents("CPU", "100", "0", "50", "100", "150", "200")
	ofImbalance = percents("IMBALANCE", "50", "10", "20", "30", "40", "50")
	ofGPU       = parameter{"GPU", []string{"0.3", "3"}, "0.3"}
	ofThrees    = parameter{"THREES", []string{"0", "1", "2", "3", "4"}, "2"}
	ofProgram   = parameter{"PROGRAM", []string{"mm", "nw", "adfa"}, "mm"}
)

var figures = []figure{
	short("N-fig7", "1 GPU", "8", "1", "2", "3", "4", "5", "6", "7", "8"),
	short("N-fig8", "3 GPUs", "48", "8", "16", "24", "32", "40", "48"),
	{"N-fig9", "36 MM-L whose host works CPU % of each kernel's length (dissertation Fig. 3-9)", []parameter{ofCPU},
		func(x *jobIndex, v []string) []Job { return x.matrices("node-mm-l", 36, v[0]) }},
	{"N-fig10", "36 jobs, BS % BS-L and the rest MM-L with 100 % work of the host (dissertation Fig. 3-10)",
		[]parameter{percents("BS", "75", "0", "25", "50", "75", "100")},
		func(x *jobIndex, v []string) []Job { return x.mixed(36, v[0]) }},
	{"N-fig11", "JOBS MM-S whose host works CPU % of each kernel's length, on unequal GPUs (dissertation Fig. 3-11)",
		[]parameter{{"JOBS", []string{"6", "12", "24", "36"}, "6"}, ofCPU},
		func(x *jobIndex, v []string) []Job { return x.matrices("node-mm-s", whole(v[0]), v[1]) }},
	short("N-fig12", "3 + 1 GPUs", "48", "16", "32", "48"),
	{"N-fig13", "JOBS jobs, 25 % BS-L and 75 % MM-L, on 3 + 1 GPUs (dissertation Fig. 3-13)", []parameter{{"JOBS", []string{"16", "32", "48"}, "48"}},
		func(x *jobIndex, v []string) []Job { return x.mixed(whole(v[0]), "25") }},
	{"N-fig14a", "4 jobs of 4 ranks, all-to-all, 0.5 s GPU, one rank IMBALANCE % slower (dissertation Fig. 3-14a)", []parameter{ofImbalance},
		func(x *jobIndex, v []string) []Job {
			return x.uneven("all-to-all", "0.5", share(v[0]), "0", "1", "2", "3")
		}},
	{"N-fig14b", "4 jobs, THREES of 3 ranks and the others of 4, all-to-all, 0.5 s GPU (dissertation Fig. 3-14b)", []parameter{ofThrees},
		func(x *jobIndex, v []string) []Job { return x.composed(v[0], "all-to-all", "0.5") }},
	within("N-fig15", "broadcast"), within("N-fig16", "scatter-gather"), within("N-fig17", "barrier"),
	between("N-fig18", "broadcast"), between("N-fig19", "scatter-gather"), between("N-fig20", "barrier"),
	{"N-fig21", "8 jobs of RANKS ranks, scatter-gather, 0.3 s GPU, on 4 + 3 GPUs (dissertation Fig. 3-21)", []parameter{{"RANKS", []string{"4", "6", "8"}, "4"}},
		func(x *jobIndex, v []string) []Job {
			n := whole(v[0])
			return slices.Repeat([]Job{x.synth(n, "scatter-gather", "0.3", "--message", strconv.Itoa(n*100<<10))}, 8)
		}},
	{"C-fig2", "PROGRAM of 8 ranks (dissertation Fig. 4-2)", []parameter{ofProgram},
		func(x *jobIndex, v []string) []Job { return []Job{x.ranked("cluster-"+v[0], 8)} }},
	{"C-fig3", "6 jobs of PROGRAM, of 4 to 8 ranks (dissertation Fig. 4-3 and 4-4)", []parameter{ofProgram},
		func(x *jobIndex, v []string) (jobs []Job) {
			for _, ranks := range []int{4, 5, 6, 7, 8, 4} {
				jobs = append(jobs, x.ranked("cluster-"+v[0], ranks))
			}
			return jobs
		}},
	ordered("C-fig5a", "high-end", "amnmnm"), ordered("C-fig5b", "commodity", "amnmnann"),
	{"C-alone", "the job of PROGRAM that C-fig5a and C-fig5b have, alone", []parameter{ofProgram},
		func(x *jobIndex, v []string) []Job { return []Job{x.with("cluster-" + v[0])} }},
}

// ordered is a workload of Table 4-5, whose jobs come in any order.
func ordered(name, cluster, printed string) figure {
	return figure{name, fmt.Sprintf("%d jobs for the %s cluster (dissertation Fig. 4-5), in an ORDER of adfa, mm and nw by their first letters", len(printed), cluster),
		[]parameter{{"ORDER", orders(printed), printed}},
		func(x *jobIndex, v []string) (jobs []Job) {
			for _, letter := range v[0] {
				jobs = append(jobs, x.with(map[rune]string{'a': "cluster-adfa", 'm': "cluster-mm", 'n': "cluster-nw"}[letter]))
			}
			return jobs
		}}
}

// orders are the different orders of letters, by the alphabet.
func orders(letters string) (all []string) {
	if letters == "" {
		return []string{""}
	}
	sorted := []byte(letters)
	slices.Sort(sorted)
	for i, first := range sorted {
		if i > 0 && first == sorted[i-1] {
			continue
		}
		for _, others := range orders(string(sorted[:i]) + string(sorted[i+1:])) {
			all = append(all, string(first)+others)
		}
	}
	return all
}

// gpuTimes are ends of the names of the mixes C-*: by what factor the estimated times of their kernels are others.
var gpuTimes = map[string]string{"-half": "0.5", "-double": "2"}

// retimed is the mix of a name that ends so. known says whether the name does.
func retimed(name string) (_ Mix, known bool, err error) {
	for end, factor := range gpuTimes {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, "c-") || !strings.HasSuffix(lower, end) {
			continue
		}
		m, err := Lookup(name[:len(name)-len(end)])
		m.Name += end
		m.Description += ", GPU times × " + factor
		for i := range m.Jobs {
			m.Jobs[i].Args = append(m.Jobs[i].Args, "--gpu-factor", factor)
		}
		return m, true, err
	}
	return Mix{}, false, nil
}

// short is a figure of jobs that are drawn from the short ones. A draw of more jobs begins with that of fewer.
func short(name, on, usual string, jobs ...string) figure {
	return figure{name, fmt.Sprintf("JOBS short jobs of Table 3-2 at random, on %s (dissertation Fig. 3-%s)", on, strings.TrimPrefix(name, "N-fig")),
		[]parameter{{"JOBS", jobs, usual}, {"DRAW", []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}, "1"}},
		func(x *jobIndex, v []string) []Job {
			var from []Job
			for _, name := range []string{"bp", "bfs", "hs", "nw", "sp", "mt", "pr", "sc", "bs-s", "va"} {
				from = append(from, x.byName["node-"+name])
			}
			return draw(newRand(uint64(whole(v[1]))), from, whole(v[0]))
		}}
}

// within is a figure of imbalance within jobs: in the worst case one rank of four is faster than the others, in the best case three are.
func within(name, communication string) figure {
	return figure{name, fmt.Sprintf("4 jobs of 4 ranks, %s, GPU s, in the CASE best three ranks IMBALANCE %% faster, in the worst one (dissertation Fig. 3-%s)", communication, strings.TrimPrefix(name, "N-fig")),
		[]parameter{ofGPU, {"CASE", []string{"best", "worst"}, "best"}, ofImbalance},
		func(x *jobIndex, v []string) []Job {
			faster := map[string][]string{"best": {"1,2,3", "0,2,3", "0,1,3", "0,1,2"}, "worst": {"0", "1", "2", "3"}}[v[1]]
			return x.uneven(communication, v[0], "-"+share(v[2]), faster...)
		}}
}

// between is a figure of imbalance between jobs: some have three ranks.
func between(name, communication string) figure {
	return figure{name, fmt.Sprintf("4 jobs, THREES of 3 ranks and the others of 4, %s, GPU s, host CPU %% of that (dissertation Fig. 3-%s)", communication, strings.TrimPrefix(name, "N-fig")),
		[]parameter{ofGPU, percents("CPU", "0", "0", "50", "100"), ofThrees},
		func(x *jobIndex, v []string) []Job { return x.composed(v[2], communication, v[0], onHost(v[1])...) }}
}

func whole(text string) int { n, _ := strconv.Atoi(text); return n }

// share writes percents as a part of one.
func share(percent string) string {
	return strconv.FormatFloat(float64(whole(percent))/100, 'g', -1, 64)
}

func onHost(percent string) []string { return []string{"--cpu-fraction", share(percent)} }

func (x *jobIndex) with(name string, args ...string) Job {
	j := x.byName[name].clone()
	j.Args = append(j.Args, args...)
	return j
}

// pairs are how many pairs of inputs the ranks of a program of benchmarks/cluster share.
var pairs = map[string]int{"cluster-mm": 24, "cluster-nw": 76}

// besidesPairs is what a rank has in memory besides its pairs: the times of a kernel, and a checksum.
const besidesPairs = 24

// ranked is a job with other ranks than usual. A rank has memory for as many pairs as any rank has.
func (x *jobIndex) ranked(name string, ranks int) Job {
	j := x.with(name)
	if n := pairs[name]; n > 0 {
		most := func(ranks int) int64 { return int64((n + ranks - 1) / ranks) }
		j.Footprint.Bytes = (j.Footprint.Bytes-besidesPairs)/most(j.Ranks)*most(ranks) + besidesPairs
	}
	j.Ranks = ranks
	return j
}

func (x *jobIndex) matrices(name string, count int, percent string) []Job {
	return slices.Repeat([]Job{x.with(name, onHost(percent)...)}, count)
}

// mixed is so many jobs, so many percent of them BS-L, spread among MM-L.
func (x *jobIndex) mixed(count int, percent string) (jobs []Job) {
	of := whole(percent)
	for i := range count {
		if (i+1)*of/100 > i*of/100 {
			jobs = append(jobs, x.with("node-bs-l"))
		} else {
			jobs = append(jobs, x.matrices("node-mm-l", 1, "100")...)
		}
	}
	return jobs
}

// synth is a generated program (Table 3-3): each rank uses the GPU for 60 s, or for 100 s in phases of 0.5 s.
func (x *jobIndex) synth(ranks int, communication, gpu string, args ...string) Job {
	iterations := "200"
	if gpu == "3" {
		iterations = "20"
	}
	j := x.with("node-synth", append([]string{"--communication", communication, "--gpu-time", gpu, "--iterations", iterations}, args...)...)
	j.Ranks = ranks
	return j
}

// uneven is a job of four ranks for each list of ranks that last longer by a share. Which ranks of a job do is not published: ours are others in each job.
func (x *jobIndex) uneven(communication, gpu, by string, which ...string) (jobs []Job) {
	for _, ranks := range which {
		jobs = append(jobs, x.synth(4, communication, gpu, "--uneven", ranks, "--by", by))
	}
	return jobs
}

func (x *jobIndex) composed(threes, communication, gpu string, args ...string) []Job {
	of := whole(threes)
	return append(slices.Repeat([]Job{x.synth(4, communication, gpu, args...)}, 4-of), slices.Repeat([]Job{x.synth(3, communication, gpu, args...)}, of)...)
}

// usual is the mix that has the figure's name.
func (f *figure) usual(x *jobIndex) Mix {
	var values, says []string
	for _, p := range f.parameters {
		values = append(values, p.usual)
		says = append(says, p.name+" "+p.list()+" (default "+p.usual+")")
	}
	return f.mix(x, f.name, values, strings.Join(says, "; "))
}

func (f *figure) mix(x *jobIndex, name string, values []string, says string) Mix {
	jobs := f.jobs(x, values)
	for i := range jobs {
		jobs[i] = jobs[i].clone()
	}
	return Mix{Name: name, Description: f.about + ": " + says, Source: "catalog", Jobs: jobs}
}

// names are those of the figure's mixes with values, such as N-fig11-6-100.
func (f *figure) names() []string {
	names := []string{f.name}
	for _, p := range f.parameters {
		var longer []string
		for _, name := range names {
			for _, v := range p.values {
				longer = append(longer, name+"-"+v)
			}
		}
		names = longer
	}
	return names
}

// ofFigure is the mix with such a name. known says whether the name begins with that of a figure.
func ofFigure(name string) (_ Mix, known bool, err error) {
	for i := range figures {
		f := &figures[i]
		if len(name) <= len(f.name) || !strings.EqualFold(name[:len(f.name)+1], f.name+"-") {
			continue
		}
		values := strings.Split(strings.ToLower(name[len(f.name)+1:]), "-")
		var form, says []string
		fits := len(values) == len(f.parameters)
		for k, p := range f.parameters {
			form = append(form, p.name+" is "+p.list())
			if fits = fits && slices.Contains(p.values, values[k]); fits {
				says = append(says, p.name+" "+values[k])
			}
		}
		if !fits {
			upper := f.name
			for _, p := range f.parameters {
				upper += "-" + p.name
			}
			return Mix{}, true, fmt.Errorf("no mix %q in the catalog: write %s, where %s", name, upper, strings.Join(form, "; "))
		}
		return f.mix(&builtin().jobs, f.name+"-"+strings.Join(values, "-"), values, strings.Join(says, ", ")), true, nil
	}
	return Mix{}, false, nil
}
