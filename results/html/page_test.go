package html

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/schedulers"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// embedded matches content that has files of its own, which the golden file leaves out.
var embedded = regexp.MustCompile(`(?s)<(style|script)>.*?</(style|script)>|sha256-[A-Za-z0-9+/=&#;]+`)

func TestGolden(t *testing.T) {
	m := memory{}
	m.add(simulatedRun("sa", 1, 10))
	m.add(liveRun())
	got := embedded.ReplaceAllString(write(t, m, m.runs()...), "…")
	path := filepath.Join("testdata", "page.html")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the page differs from %s; -update rewrites it:\n%s", path, diff)
	}
}

// void elements have no end tag.
var void = []string{"meta", "input", "br", "img", "hr", "link"}

// elements returns every start tag of the page. It fails if the page is not well formed.
func elements(t *testing.T, text string) []html.Token {
	t.Helper()
	var out []html.Token
	var open []string
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		kind, token := z.Next(), z.Token()
		switch kind {
		case html.ErrorToken:
			if len(open) > 0 {
				t.Errorf("elements without an end: %v", open)
			}
			return out
		case html.StartTagToken, html.SelfClosingTagToken:
			out = append(out, token)
			if kind == html.StartTagToken && !slices.Contains(void, token.Data) {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> within %v", token.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
}

func attribute(token html.Token, name string) (string, bool) {
	at := slices.IndexFunc(token.Attr, func(a html.Attribute) bool { return a.Key == name })
	if at < 0 {
		return "", false
	}
	return token.Attr[at].Val, true
}

func TestPageStandsAlone(t *testing.T) {
	m := fixture()
	text := write(t, m, m.runs()...)
	if !strings.HasPrefix(text, mark) {
		t.Errorf("the page begins with %.40q", text)
	}
	ids := map[string]bool{}
	scripts, targets := 0, []string(nil)
	for _, e := range elements(t, text) {
		if e.Data == "script" {
			scripts++
		}
		if slices.Contains([]string{"img", "link", "iframe", "object", "embed", "base", "image", "use"}, e.Data) {
			t.Errorf("the page has an element <%s>", e.Data)
		}
		for _, a := range e.Attr {
			switch {
			case a.Key == "id" && ids[a.Val]:
				t.Errorf("the id %q is there twice", a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			case a.Key == "href":
				targets = append(targets, a.Val)
			case a.Key == "src" || a.Key == "style" || strings.HasPrefix(a.Key, "on"):
				t.Errorf("<%s> has an attribute %s, which the page's policy forbids", e.Data, a.Key)
			}
		}
	}
	if scripts != 1 {
		t.Errorf("%d script elements, want the page's own", scripts)
	}
	for _, target := range targets {
		if id, inner := strings.CutPrefix(target, "#"); !inner || !ids[id] {
			t.Errorf("a link leads to %q, which is not on the page", target)
		}
	}
	if strings.Contains(text, "http:") || strings.Contains(text, "https:") || strings.Contains(text, "@import") {
		t.Error("the page names something outside of it")
	}
}

// TestPolicyAllowsOurOwn compares the policy's digests with the text between the tags.
func TestPolicyAllowsOurOwn(t *testing.T) {
	m := memory{}
	m.add(simulatedRun("sa", 1, 10))
	text := write(t, m, m.runs()...)
	policy := ""
	for _, e := range elements(t, text) {
		if v, _ := attribute(e, "http-equiv"); v == "Content-Security-Policy" {
			policy, _ = attribute(e, "content")
		}
	}
	for _, tag := range []string{"style", "script"} {
		_, rest, _ := strings.Cut(text, "<"+tag+">")
		body, _, _ := strings.Cut(rest, "</"+tag+">")
		if want := tag + "-src '" + digest(body) + "'"; !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %s", policy, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("policy %q allows by default", policy)
	}
}

// All tables are report's, which one template writes.
func TestOneTemplateWritesTables(t *testing.T) {
	files, err := fs.Glob(assets, "assets/*.tmpl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := fs.ReadFile(assets, name)
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(text, []byte("<table")); has != (name == "assets/table.tmpl") {
			t.Errorf("%s has a table: %v", name, has)
		}
	}
}

func TestHostileTextIsText(t *testing.T) {
	m := memory{}
	m.add(liveRun())
	text := write(t, m, m.runs()...)
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	scripts := 0
	for n := range doc.Descendants() {
		switch {
		case n.Type == html.ElementNode && n.Data == "script":
			scripts++
		case n.Type == html.TextNode:
			shown.WriteString(n.Data)
		}
	}
	if scripts != 1 {
		t.Errorf("%d script elements: text of a job became one", scripts)
	}
	for _, where := range []string{"0 " + hostile, "x " + hostile, "error 700 " + hostile, "own " + hostile, `\x1b[31m\u202e` + hostile} {
		if !strings.Contains(shown.String(), where) {
			t.Errorf("the page does not show %q as it is", where)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("a control character reached the page")
	}
}

// Simulated numbers are called so by a banner, in each card by a badge, and in each figure by a watermark, so that a
// part of the page says it too. Tables and headings inside of a card do not repeat it.
func TestSimulatedIsSaid(t *testing.T) {
	m := memory{}
	m.add(simulatedRun("sa", 1, 10))
	m.add(simulatedRun("cg", 1, 10))
	m.add(liveRun())
	for runs, all := range map[int]bool{2: true, 3: false} {
		text := write(t, m, m.runs()[:runs]...)
		banner := map[bool]string{true: ">SIMULATED</strong>", false: ">Partly SIMULATED</strong>"}[all]
		if !strings.Contains(text, banner) {
			t.Errorf("%d runs: the page has no banner %s", runs, banner)
		}
		doc, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		cards, figures := map[bool]int{}, map[bool]int{}
		for n := range doc.Descendants() {
			class := classOfNode(n)
			switch {
			case strings.Contains(class, "card"):
				said := strings.Contains(words(n), "SIMULATED")
				cards[said]++
				if all && !said {
					t.Errorf("%d runs: the card %.60q says SIMULATED: %v", runs, words(n), said)
				}
			case strings.Contains(class, "marked") || strings.HasPrefix(class, "figure"):
				figures[strings.Contains(words(n), "SIMULATED")]++
			case n.Type == html.ElementNode && slices.Contains([]string{"caption", "h4", "th"}, n.Data) && class != "" && !strings.Contains(classOfNode(n.Parent), "tile"):
				if strings.Contains(words(n), "SIMULATED") {
					t.Errorf("<%s> %q repeats it", n.Data, words(n))
				}
			}
		}
		if all && (cards[false] > 0 || figures[false] > 0 || cards[true] < 6 || figures[true] < 8) || !all && (cards[false] == 0 || figures[false] == 0) {
			t.Errorf("%d runs: cards %v, figures %v say it", runs, cards, figures)
		}
	}
}

func classOfNode(n *html.Node) string {
	for _, a := range n.Attr {
		if a.Key == "class" {
			return a.Val
		}
	}
	return ""
}

// words is the text of an element.
func words(n *html.Node) string {
	var out strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			out.WriteString(c.Data)
		}
	}
	return strings.TrimSpace(out.String())
}

func TestDoubtsAreSaid(t *testing.T) {
	m := memory{}
	m.add(liveRun())
	text := write(t, m, m.runs()...)
	for _, say := range []string{"Traced:", "3 kernels and copies ran but have no record", "missed 1000 of 10000 deadlines (10.0 %), its longest gap being 250 ms",
		"2 NVML calls failed, the first with: GPU is lost", "GPU 1: others used 1 GiB", "GPU 0: its clocks were held down (sw-power-cap).", "+dirty"} {
		if !strings.Contains(html.UnescapeString(text), say) {
			t.Errorf("the page does not say %q", say)
		}
	}
	r := liveRun()
	r.run.Status, r.run.Warmup, r.run.Traced = results.Interrupted, true, false
	m.add(r)
	text = write(t, m, m.runs()[1:]...)
	for _, say := range []string{"Interrupted:", "Warm-up run"} {
		if !strings.Contains(text, say) {
			t.Errorf("the page does not say %q", say)
		}
	}
	doubtful := liveRun()
	doubtful.run.Doubts = "the harness stood still for 3.0 s"
	m.add(doubtful)
	if doubts := write(t, m, m.runs()[2:]...); !strings.Contains(doubts, "Doubtful, and left out of comparisons: the harness stood still for 3.0 s.") {
		t.Error("the page does not say that a run is doubtful")
	}
	if strings.Contains(text, `id="comparison"`) || strings.Contains(write(t, m, m.runs()[1:]...), `id="comparison"`) {
		t.Error("an interrupted warm-up run, or a doubtful one, is compared")
	}
}

func TestSeveralMachinesAreSaid(t *testing.T) {
	m := memory{}
	for _, uuid := range []string{"GPU-0", "GPU-0", "GPU-9"} {
		r := liveRun()
		r.devices[0].UUID = uuid
		m.add(r)
	}
	const say = "runs of this page are of several machines (host names: 1, sets of GPUs: 2)"
	if text := write(t, m, m.runs()...); !strings.Contains(text, say) {
		t.Errorf("the page does not say %q", say)
	}
	if text := write(t, m, m.runs()[:2]...); strings.Contains(text, "several machines") {
		t.Error("runs of one machine are said to be of several")
	}
}

// Power has a scale of its own in watts, the energy counter no curve, and energy its facts. The power of GPU 0 is its counter's.
func TestPageShowsPower(t *testing.T) {
	r := liveRun()
	for d := range r.devices {
		r.segments = append(r.segments, results.Segment{Device: d, Series: results.SeriesEnergy, FirstS: 0, LastS: 0, Samples: 1, Value: new(5e6)},
			results.Segment{Device: d, Series: results.SeriesEnergy, FirstS: 1, LastS: 1, Samples: 1, Value: new(5e6 + 612.34)})
		if d > 0 {
			r.segments = append(r.segments, results.Segment{Device: d, Series: results.SeriesPower, FirstS: 0, LastS: 1, Samples: 10, Value: new(433.21)})
		}
	}
	m := memory{}
	m.add(r)
	r = m[1]
	r.run.Metrics.Energy = results.Energy{UsedJ: new(2400.0), IdleJ: new(300.0), PerOK: new(1200.0), Source: new(results.EnergyPower)}
	m[1] = r
	text := write(t, m, m.runs()...)
	for _, want := range []string{"Power (NVML)", "GPU 0: 612 W to 612 W", "GPU 1: 433 W to 433 W", "<dt>Energy</dt><dd>2.40 kJ</dd>", "<dt>Energy per ok job</dt><dd>1.20 kJ</dd>", "integral of power samples"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(text, "MJ") || strings.Contains(strings.ToLower(text), "energy since") {
		t.Error("the page has a curve of the energy counter")
	}
}

// Other programs fill stores too, and may know a total without its parts.
func TestPageOfPartlyKnownFigures(t *testing.T) {
	r := liveRun()
	r.run.Tracer = results.Tracer{Kernels: new(int64(9))}
	m := memory{}
	m.add(r)
	r = m[1]
	r.run.Metrics.Energy, r.run.Metrics.Swapping = results.Energy{UsedJ: new(2400.0)}, results.Swapping{Swaps: new(int64(2))}
	m[1] = r
	text := write(t, m, m.runs()...)
	for _, want := range []string{"<dt>Energy</dt><dd>2.40 kJ</dd>", "<dt>Swaps</dt><dd>2</dd>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// The page begins with the schedulers, not with the list of runs.
func TestPageBeginsWithTheSchedulers(t *testing.T) {
	m := fixture()
	text := write(t, m, m.runs()...)
	last := -1
	for _, id := range []string{"schedulers", "comparison", "detail", "runs", "provenance"} {
		at := strings.Index(text, `<section id="`+id+`">`)
		if at <= last {
			t.Errorf("section %s is at %d, behind a section at %d", id, at, last)
		}
		last = at
	}
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "table" {
			continue
		}
		if heads := headings(n); slices.Contains(heads, "Scheduler") && !strings.HasPrefix(heads[1], "Crashed") {
			t.Errorf("crashes are not in the second column: %q", heads)
		}
	}
}

// headings are the texts of a table's column headings.
func headings(table *html.Node) []string {
	var out []string
	for n := range table.Descendants() {
		if n.Type == html.ElementNode && n.Data == "th" && n.Parent.Parent.Data == "thead" {
			out = append(out, n.FirstChild.Data)
		}
	}
	return out
}

// The figures of a scheduler that lost jobs are marked, and the ratios of another only if the base lost
// jobs. Where the side that looks better lost more, they are not comparable, and there is no verdict.
func TestSurvivorsAreMarked(t *testing.T) {
	m := fixture()
	lostMore := map[string]string{"": "cg", "cg": "sa"} // by base, the row that cg looks better in
	for base, want := range map[string]map[string]bool{
		"":   {"sa": false, "case-alg3": false, "cg": true},
		"cg": {"sa": true, "case-alg3": true, "cg": true},
	} {
		v, err := build(t.Context(), m, m.runs(), Options{Base: base})
		if err != nil || len(v.Places) != 2 {
			t.Fatalf("base %q: %d places, %v", base, len(v.Places), err)
		}
		compared := v.Places[slices.IndexFunc(v.Places, func(p place) bool { return p.Simulated })]
		shown := slices.DeleteFunc(results.OnPages(false), func(m results.Metric) bool {
			return !slices.ContainsFunc(compared.ByMix, func(t *report.Table) bool { return strings.HasPrefix(t.Title, m.Title()+" by mix") })
		})
		for i, row := range compared.Over.HTML() {
			name, _, _ := strings.Cut(row.Cells[0].Text, ":")
			for i, l := range row.Cells[2 : len(row.Cells)-1] {
				doubt := map[bool]string{true: "survivors only"}[want[name] && shown[i].OfSurvivors]
				if lostMore[base] == name && (!shown[i].Absolute || shown[i].OfSurvivors) {
					doubt += ", not comparable"
				}
				if l.Doubt != doubt {
					t.Errorf("base %q: %s of %s: doubt %q, want %q", base, shown[i].Name, name, l.Doubt, doubt)
				}
			}
			if (row.Cells[0].Small == "(base)") != (i == 0) {
				t.Errorf("base %q: row %d, %s, is the base: %v", base, i, name, i != 0)
			}
		}
		arms := v.Groups[0].Arms.HTML()
		for _, row := range arms {
			arm, _, _ := strings.Cut(row.Cells[0].Text, ":")
			for i, marked := range []bool{arm == "cg", want[arm], arm == "cg", want[arm], arm == "cg", false} {
				if got := row.Cells[3+i].Text; strings.HasSuffix(got, "†") != marked {
					t.Errorf("base %q: cell %d of %s: %q, marked: want %v", base, i, arm, got, marked)
				}
			}
		}
		if !slices.Contains(v.Groups[0].Notes, report.SurvivorsNote("here or under the base")) {
			t.Errorf("base %q: the mark is not explained: %q", base, v.Groups[0].Notes)
		}
		for j, table := range compared.ByMix { // throughput names what crashed, where jobs of its own did
			if j == len(shown) {
				break // crashed jobs
			}
			for _, l := range table.HTML()[0].Cells[1:] {
				name, _, _ := strings.Cut(l.Of, ":")
				want := map[bool]string{true: "survivors only"}[want[name] && shown[j].OfSurvivors]
				if name == "cg" && shown[j].Name == "throughput" {
					want = "✕ 25.0 % crashed"
				}
				if lostMore[base] == name && (!shown[j].Absolute || shown[j].OfSurvivors) {
					want += ", not comparable"
				}
				if l.Doubt != want {
					t.Errorf("base %q: %s of %s by mix: doubt %q, want %q", base, shown[j].Name, l.Of, l.Doubt, want)
				}
			}
		}
		for _, row := range arms {
			for _, factor := range []report.HTMLCell{row.Cells[4], row.Cells[6]} {
				if arm, _, _ := strings.Cut(row.Cells[0].Text, ":"); arm == lostMore[base] && factor.Verdict != stats.Inconclusive {
					t.Errorf("base %q: %s: %+v, though cg lost more jobs", base, arm, factor)
				}
			}
		}
		if why := "Inconclusive: not comparable: cg:queue=fifo lost more jobs."; !slices.Contains(v.Groups[0].Notes, why) {
			t.Errorf("base %q: notes %q lack %q", base, v.Groups[0].Notes, why)
		}
		if first := arms[0].Cells[0]; first.Small != "(base)" || base == "cg" && first.Text != "cg:queue=fifo" {
			t.Errorf("base %q: the arms of %s begin with %+v", base, v.Groups[0].Title, first)
		}
	}
	if _, err := build(t.Context(), m, m.runs(), Options{Base: "zero"}); err == nil || !strings.Contains(err.Error(), "--base zero") {
		t.Errorf("a base that nobody ran: %v", err)
	}
}

// A base in which no job ended ok has no factors: 0/0 is not 1.
func TestDeadBase(t *testing.T) {
	m := memory{}
	for i := 1; i <= 3; i++ {
		for n, scheduler := range []string{"case-alg3", "sa"} {
			r := simulatedRun(scheduler, i, 10+float64(n)+float64(i)/10)
			for j := range r.jobs {
				r.jobs[j].Outcome = new(results.OOM)
			}
			m.add(r)
		}
	}
	v, err := build(t.Context(), m, m.runs(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range v.Groups[0].Arms.HTML() {
		for i, c := range row.Cells[4:8] { // both factors, turnaround, makespan
			if c.Text != "–" {
				t.Errorf("cell %d of %s: %q, want –", i, row.Cells[0].Text, c.Text)
			}
		}
	}
}

// The caption does not speak of intervals where there are none.
func TestIntervalsTakeRepetitions(t *testing.T) {
	for runs, want := range map[int]string{1: "too few repetitions for confidence intervals", 7: "with 95 % confidence intervals"} {
		m := memory{}
		for i := 1; i <= runs; i++ {
			for n, scheduler := range []string{"case-alg3", "sa"} {
				m.add(simulatedRun(scheduler, i, 10+float64(n)+float64(i)/10))
			}
		}
		v, err := build(t.Context(), m, m.runs(), Options{})
		if err != nil || len(v.Places) != 1 {
			t.Fatalf("%d places, %v", len(v.Places), err)
		}
		if got := v.Places[0].Over.Page.Caption; !strings.Contains(got, want) {
			t.Errorf("%d repetitions: %q, want %q", runs, got, want)
		}
	}
}

// Every run can be linked to, whether it has a section or only a row.
func TestEveryRunHasAPlace(t *testing.T) {
	m := memory{}
	for i := range 100 {
		m.add(simulatedRun("sa", i+1, 10))
	}
	ids := map[string]int{}
	for _, e := range elements(t, write(t, m, m.runs()...)) {
		if id, _ := attribute(e, "id"); strings.HasPrefix(id, "run-") {
			ids[id]++
		}
	}
	for i := 1; i <= 100; i++ {
		if id := fmt.Sprintf("run-%d", i); ids[id] != 1 {
			t.Errorf("%d elements are called %s", ids[id], id)
		}
	}
}

// TestLargePage tests the bound on size with ten minutes of changing samples of eight devices,
// and with many runs.
func TestLargePage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := liveRun()
	r.devices, r.segments = devices(8, "NVIDIA H200"), nil
	r.jobs[2].EndS, r.jobs[3].EndS = new(600.0), new(600.0)
	for d := range 8 {
		for _, series := range []results.Series{results.SeriesGPU, results.SeriesMemory, results.SeriesMemoryActivity, results.SeriesGPUDriver, results.SeriesGPM, results.SeriesPower} {
			for i := range 3000 {
				at := float64(i) / 5
				r.segments = append(r.segments, results.Segment{Device: d, Series: series, FirstS: at, LastS: at + 0.199, Samples: 200, Value: new(random.Float64())})
			}
		}
	}
	m := memory{}
	m.add(r)
	n := len(write(t, m, m.runs()...))
	if n > 2_000_000 {
		t.Errorf("ten minutes of eight devices give a page of %d bytes", n)
	}

	m = memory{}
	for i := range 300 {
		r := simulatedRun(fmt.Sprintf("s%d", i%5), i, 10+random.Float64())
		for j := 4; j < 32; j++ {
			more := r.jobs[j%4]
			more.Index, more.StderrTail = j, strings.Repeat("x", 5000)
			r.jobs = append(r.jobs, more)
		}
		m.add(r)
	}
	text := write(t, m, m.runs()...)
	t.Logf("%d and %d bytes", n, len(text))
	if len(text) > 2_000_000 {
		t.Errorf("300 runs give a page of %d bytes", len(text))
	}
	if !strings.Contains(text, "of the 300 runs have a section of their own") {
		t.Error("the page does not say that it leaves runs out")
	}
}

// Swaps have bars with words, a legend and facts. What a live run does not know is not 0.
func TestPageShowsSwaps(t *testing.T) {
	swaps := []results.Swap{
		{Job: 0, Direction: schedulers.Out, Action: "stop", Outcome: schedulers.Done, StartS: 3, EndS: 4, Bytes: 6 << 30, DrainS: 0.25, CopyS: 0.5, BookkeepingS: 0.125, LostS: new(2.5)},
		{Job: 0, Direction: schedulers.In, Outcome: schedulers.Done, StartS: 5, EndS: 6, Bytes: 6 << 30, CopyS: 0.5, BookkeepingS: 0.125},
	}
	m := memory{}
	for _, r := range []records{simulatedRun("vgpu", 1, 10), liveRun()} {
		r.swaps, r.jobs[0].LostS = swaps, new(2.5)
		m.add(r)
	}
	shown := []string{"above: its memory moves to the host", "below: it comes back", "2 swaps (6 GiB to the host, 6 GiB back), 0 unsuccessful",
		`<rect class="out" x="30%" width="10%" y="2" height="7"><title>6 GiB to the host, 3.00 s to 4.00 s</title></rect>`,
		`<rect class="in" x="50%" width="10%" y="9" height="7"><title>6 GiB back from the host, 5.00 s to 6.00 s</title></rect>`,
		"<dt>Swaps</dt><dd>2, and 0 unsuccessful</dd>", "<dt>Moved to the host</dt><dd>6 GiB</dd>", "<dt>Drain</dt><dd>250 ms</dd>", "<dt>Copies</dt><dd>1.00 s</dd>",
		"<dt>Bookkeeping</dt><dd>250 ms</dd>", "<dt>Most on the host</dt><dd>6 GiB</dd>", "<dt>Lost by stops</dt><dd>2.50 s</dd>", ">2.50 s</td>"}
	for i, slowdown := range []string{"0 s", "–"} {
		text := write(t, m, m.runs()[i])
		elements(t, text)
		for _, want := range append(shown, "<dt>Slowdown by host access</dt><dd>"+slowdown+"</dd>") {
			if !strings.Contains(text, want) {
				t.Errorf("run %d: the page lacks %q", i+1, want)
			}
		}
	}
	none := memory{}
	none.add(simulatedRun("vgpu", 1, 10))
	if text := write(t, none, none.runs()...); strings.Contains(text, "its memory moves") || strings.Contains(text, "<dt>Swaps") {
		t.Error("a run without swaps has a legend or facts of them")
	}
}

// Deadlines are a fact of the run and two columns of its jobs, where any job has one.
func TestPageShowsDeadlines(t *testing.T) {
	r := simulatedRun("sa", 1, 10)
	r.jobs[0].DeadlineS, r.jobs[2].DeadlineS = new(10.0), new(10.0)
	m, none := memory{}, memory{}
	m.add(r)
	none.add(simulatedRun("sa", 1, 10))
	text := write(t, m, m.runs()...)
	for _, want := range []string{"<dt>Deadlines met</dt><dd>50.0 %</dd>", ">Deadline met<", ">yes<", ">no<"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if text := write(t, none, none.runs()...); strings.Contains(text, "eadline") {
		t.Error("the page of a run without deadlines names them")
	}
}
