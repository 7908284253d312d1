//go:build chromium

package html

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is a tab of a headless Chromium. It records what a page must not do: log errors or use
// the network.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	wrongs []string
}

func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium to look at the page with (apt-get install chromium fonts-liberation)")
	return ""
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(findBrowser(t)),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("close the browser: %v", err)
		}
	})
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, runtime.Enable, cdp.Empty{})
	call(b, log.Enable, cdp.Empty{})
	return b
}

func (b *browser) note(event any) {
	wrong := ""
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "file://") || !strings.HasSuffix(e.Request.URL, ".html") {
			wrong = "request of " + e.Request.URL
		}
	case *runtime.EventExceptionThrown:
		wrong = "exception: " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		wrong = fmt.Sprintf("console.%s: %v", e.Type, e.Args)
	case *log.EventEntryAdded:
		wrong = "log: " + e.Entry.Text
	}
	if wrong != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrongs = append(b.wrongs, wrong)
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// eval returns the value of a JavaScript expression on the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// texts returns the texts of the selected elements that are visible.
func (b *browser) texts(selector string) []string {
	b.t.Helper()
	quoted, err := json.Marshal(selector)
	if err != nil {
		b.t.Fatal(err)
	}
	return eval[[]string](b, fmt.Sprintf("[...document.querySelectorAll(%s)].filter(e => e.checkVisibility()).map(e => e.textContent.trim())", quoted))
}

// open shows a page in a window of the given width.
func (b *browser) open(path string, width int64, scheme string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.do(chromedp.EmulateViewport(width, 800), chromedp.Navigate("file://"+path))
}

// waitFor waits until a JavaScript expression is true, until the browser's context ends.
func (b *browser) waitFor(expression string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("new Promise(done => { const look = () => %s ? done() : requestAnimationFrame(look); look(); })", expression), chromedp.EvalAwaitPromise))
}

// shoot writes a picture of the page to the directory in CASERUN_SCREENSHOTS, if it is set, for
// a human to look at.
func (b *browser) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("CASERUN_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) nothingWrong() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range b.wrongs {
		b.t.Error(wrong)
	}
	b.wrongs = nil
}

func TestInBrowser(t *testing.T) {
	b := openBrowser(t)
	m := fixture()
	path := filepath.Join(t.TempDir(), "page.html")
	var out bytes.Buffer
	if err := Write(t.Context(), &out, m, m.runs(), Options{Store: "caserun.db", Generator: "1.0.0", Trend: overTime(t, 20)}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, *browser)
	}{
		{"choose a run", testChoose}, {"sort a table", testSort}, {"hide an arm", testHide}, {"details of a job", testDetails}, {"without a mouse", testKeyboard},
		{"numbers of a mark", testTip}, {"zoom", testZoom},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			b.open(path, 1280, "light")
			c.test(t, b)
			b.nothingWrong()
		})
	}
	t.Run("schedulers", func(t *testing.T) {
		b.t = t
		testFirst(t, b, path)
	})
	t.Run("widths and colours", func(t *testing.T) {
		b.t = t
		testLooks(t, b, path)
	})
	t.Run("without JavaScript", func(t *testing.T) {
		b.t = t
		call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		b.open(path, 1280, "light")
		call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false})
		if n := len(b.texts("article.run > h3")); n != len(m) {
			t.Errorf("%d of %d runs can be read", n, len(m))
		}
		if shown := b.texts("#arms, #chooser, .details"); len(shown) > 0 {
			t.Errorf("controls that do nothing are shown: %q", shown)
		}
	})
}

func testChoose(t *testing.T, b *browser) {
	if got := b.texts("article.run > h3"); len(got) != 1 || !strings.Contains(got[0], "Run 1:") {
		t.Fatalf("shown at first: %q", got)
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#choose"), "5"))
	if got := b.texts("article.run > h3"); len(got) != 1 || !strings.HasPrefix(got[0], "Run 5:") || !strings.HasSuffix(got[0], "SIMULATED") {
		t.Errorf("shown after choosing run 5: %q", got)
	}
	b.click("#runs a[href='#run-22']")
	if got := b.texts("article.run > h3"); len(got) != 1 || !strings.Contains(got[0], "Run 22:") {
		t.Errorf("shown after following the link to run 22: %q", got)
	}
	if got := eval[string](b, "document.getElementById('choose').value"); got != "run-22" {
		t.Errorf("the chooser says %s", got)
	}
}

func testSort(t *testing.T, b *browser) {
	const column = "#runs thead th:nth-child(10) button" // makespan
	values := func() []float64 {
		return eval[[]float64](b, "[...document.querySelectorAll('#runs tbody tr')].map(r => Number(r.cells[9].dataset.v))")
	}
	b.click(column)
	if got := values(); len(got) != 22 || !slices.IsSorted(got) {
		t.Errorf("sorted by makespan: %v", got)
	}
	b.click(column)
	got := values()
	slices.Reverse(got)
	if !slices.IsSorted(got) {
		t.Errorf("sorted by makespan, again: not descending: %v", got)
	}
	if got := eval[string](b, "document.querySelector('#runs thead th:nth-child(10)').ariaSort"); got != "descending" {
		t.Errorf("aria-sort is %q", got)
	}
}

func testHide(t *testing.T, b *browser) {
	const arms = "#mix1 table tbody tr th"
	b.click("#mix1 summary")
	if got := b.texts(arms); !slices.Equal(got, []string{"sa (base)", "case-alg3", "cg:queue=fifo"}) {
		t.Fatalf("arms: %q", got)
	}
	rows := len(b.texts("#runs tbody tr"))
	b.click("#arms label:nth-of-type(2) input")
	if got := b.texts(arms); !slices.Equal(got, []string{"sa (base)", "cg:queue=fifo"}) {
		t.Errorf("arms without the second: %q", got)
	}
	if got := len(b.texts("#runs tbody tr")); got != rows-7 {
		t.Errorf("%d runs are listed, want %d without the seven of the arm", got, rows-7)
	}
	b.click("#arms label:nth-of-type(2) input")
	if got := len(b.texts("#runs tbody tr")); got != rows {
		t.Errorf("%d of %d runs are listed again", got, rows)
	}
}

// TestRunsWithoutASection opens runs of a page that has sections for some of its runs only.
func TestRunsWithoutASection(t *testing.T) {
	b := openBrowser(t)
	m := memory{}
	for i := range 324 {
		m.add(simulatedRun([]string{"sa", "cg", "case-alg3"}[i%3], i/3+1, 10+float64(i%7)))
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(write(t, m, m.runs()...)), 0o644); err != nil {
		t.Fatal(err)
	}
	const shown = "article.run > h3"
	b.open(path+"#run-324", 1400, "light")
	if got := b.texts(shown); len(got) != 1 || got[0] != "Run 324: W1 under case-alg3 on sim:2xV100 SIMULATED" {
		t.Fatalf("#run-324 shows %q", got)
	}
	if facts := strings.Join(b.texts("article.brief dd"), "\n"); !strings.Contains(facts, "jobs/s") || !strings.Contains(facts, "complete") {
		t.Errorf("its facts are\n%s", facts)
	}
	if top := eval[float64](b, "document.querySelector('article.brief').getBoundingClientRect().top"); top < -1 || top > 800 {
		t.Errorf("it is %g px below the window's top", top)
	}
	for _, hash := range []string{"run-1", "run-323", "run-2"} { // of which 323 has no section
		b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = '%s'", hash)))
		b.waitFor(fmt.Sprintf("[...document.querySelectorAll(%q)].filter(e => e.checkVisibility()).map(e => e.textContent).join().includes('Run %s:')", shown, strings.TrimPrefix(hash, "run-")))
		if got := b.texts(shown); len(got) != 1 {
			t.Errorf("#%s shows %q", hash, got)
		}
	}
	b.nothingWrong()
}

// testFirst holds what the page begins with to every width, colour scheme and paper.
func testFirst(t *testing.T, b *browser, path string) {
	const opened = "for (const d of document.querySelectorAll('details')) d.open = true"
	check := func(name string, width int64) {
		t.Helper()
		if head := b.texts(".place thead th:nth-child(2)"); len(head) < 1 || head[0] != "Crashed jobs" {
			t.Errorf("%s: second column: %q", name, head)
		}
		parts := ".tile, .tile *, .result *" // narrow tables scroll in their boxes
		if width > 900 {
			parts += ", .place .matrix, .place .matrix td, .place .matrix th, .place caption"
		}
		clipped := eval[[]string](b, `[...document.querySelectorAll("`+parts+`")].filter(e => e.checkVisibility() && !e.closest("svg") &&
			(e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline" || e.getBoundingClientRect().right > innerWidth + 1)).map(e => e.outerHTML.slice(0, 120))`)
		if len(clipped) > 0 {
			t.Errorf("%s: clipped: %q", name, clipped)
		}
		if n := eval[int64](b, "document.documentElement.scrollWidth"); n > width {
			t.Errorf("%s: the page is %d wide in %d", name, n, width)
		}
		if got := b.texts(".place .matrix:not(.bymix) .doubt"); !slices.Contains(got, "survivors only"+", "+"not comparable") {
			t.Errorf("%s: turnaround of a scheduler that lost jobs: %q", name, got)
		}
	}
	looks := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1400} {
			name := fmt.Sprintf("first-%s-%d", scheme, width)
			b.open(path, width, scheme)
			b.shoot(name)
			if width > 1000 {
				testOneScreen(t, b)
			}
			b.do(chromedp.Evaluate[chromedp.Void](opened), chromedp.Evaluate[chromedp.Void]("for (const e of document.querySelectorAll('article.run')) e.hidden = false"))
			check(name, width)
			cut := eval[[]string](b, "[...document.querySelectorAll('.scroll, .scroll-x')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel + e.innerHTML.slice(0, 80))")
			if width > 1000 && len(cut) > 0 {
				t.Errorf("%s: wider than their boxes: %q", name, cut)
			}
		}
		looks[scheme] = eval[string](b, "[...document.querySelectorAll('.figure .paper, .figure .ink, .jobs .lane')].map(e => getComputedStyle(e).fill).join()")
	}
	if looks["light"] == looks["dark"] {
		t.Error("figures have the same colours in light and dark")
	}
	// Paper of 11 by 8.5 inches has 980 px between its margins.
	const paper = 980
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	b.do(chromedp.EmulateViewport(paper, 700), chromedp.Navigate("file://"+path))
	check("print", paper)
	wide := eval[[]string](b, `[...document.querySelectorAll("main table, main pre, main svg.figure, main p")].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 200))`)
	if len(wide) > 0 {
		t.Errorf("wider than the paper: %q", wide)
	}
	if folded := len(b.texts(".more svg, .more table td")); folded == 0 {
		t.Error("what is folded is not printed")
	}
	if n := len(b.texts("#mix1 table td")); n > 0 {
		t.Errorf("a folded mix is printed with %d cells", n)
	}
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('#mix1').open = true"))
	if n := len(b.texts("#mix1 table td")); n == 0 {
		t.Error("a mix that is unfolded is not printed")
	}
	if got := b.texts("thead button"); len(got) > 0 {
		t.Errorf("buttons are printed: %q", got)
	}
	b.shoot("print")
	b.nothingWrong()
}

// testOneScreen looks for what a stranger must find without scrolling on a screen of 1400 by 900: which scheduler is
// best, by how much, and why.
func testOneScreen(t *testing.T, b *browser) {
	t.Helper()
	for what, selector := range map[string]string{"the result": ".place h3", "the tiles": ".tiles", "the bars": ".bars svg", "the jobs over time": ".why .jobs > svg"} {
		bottom := eval[float64](b, fmt.Sprintf("document.querySelector(%q).getBoundingClientRect().bottom", selector))
		if bottom <= 0 || bottom > 900 {
			t.Errorf("%s end at %g px", what, bottom)
		}
	}
	beside := eval[bool](b, "document.querySelector('.why .jobs').getBoundingClientRect().left > document.querySelector('.bars svg').getBoundingClientRect().right")
	if !beside {
		t.Error("the jobs over time are not beside the bars")
	}
	// One time axis: where a run of the same length ends is the same place in each panel.
	widths := eval[[]float64](b, "[...document.querySelector('.why .jobs').querySelectorAll('.grid')].map(e => Math.round(e.ownerSVGElement.getBoundingClientRect().left))")
	slices.Sort(widths)
	if n := len(slices.Compact(widths)); n != 1 {
		t.Errorf("the panels begin at %v", widths)
	}
	colours := eval[[]string](b, "[...document.querySelectorAll('.bars g.mark[data-arm=\"1\"] path, .why .jobs svg[data-arm=\"1\"] g[data-job] rect:not(.bad), .tile .arm1')].map(e => getComputedStyle(e).fill).filter(f => f != 'none')")
	slices.Sort(colours)
	if n := len(slices.Compact(colours)); n != 1 {
		t.Errorf("an arm has several colours: %q", colours)
	}
	if marks := eval[int](b, "[...document.querySelectorAll('.bars g.mark, .why .jobs g[data-job]')].filter(e => !e.querySelector('title')).length"); marks > 0 {
		t.Errorf("%d marks do not say their numbers", marks)
	}
}

func testDetails(t *testing.T, b *browser) {
	b.click("#runs a[href='#run-22']")
	b.click("#run-22 .by-job svg[data-job='1']")
	panel := strings.Join(b.texts("#run-22 .details dd"), "\n")
	for _, want := range []string{"srad_v2-16384", "✕ fault", "SIGABRT", "error 700 " + hostile} {
		if !strings.Contains(panel, want) {
			t.Errorf("the details lack %q:\n%s", want, panel)
		}
	}
	b.click("#run-22 details.jobs summary")
	if got := len(b.texts("#run-22 details.jobs tbody tr")); got != 4 {
		t.Errorf("%d jobs are listed", got)
	}
}

// tip is what the page says of the mark under the pointer or the focus; empty: it says nothing.
func (b *browser) tip() string { return strings.Join(b.texts("#tip"), "") }

// point moves the mouse to the middle of an element.
func (b *browser) point(selector string) (x, y float64) {
	b.t.Helper()
	at := eval[[]float64](b, fmt.Sprintf("(() => { const e = document.querySelector(%q); e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()", selector))
	b.mouse(input.DispatchMouseEventTypeMouseMoved, at[0], at[1])
	return at[0], at[1]
}

func (b *browser) mouse(kind input.DispatchMouseEventType, x, y float64) {
	b.t.Helper()
	call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1})
}

const picture = ".place .jobs"

func testTip(t *testing.T, b *browser) {
	b.point(picture + " g[data-job='1'] rect")
	got := b.tip()
	for _, want := range []string{"job 1 needle-1: ok", "GPU 1 from ", "waited 0 s, started at 0 s, ended at ", "declares 8 GiB"} {
		if !strings.Contains(got, want) {
			t.Errorf("the tip of job 1 lacks %q:\n%s", want, got)
		}
	}
	b.point(".place h3")
	if got := b.tip(); got != "" {
		t.Errorf("beside a mark the tip is %q", got)
	}
	b.do(chromedp.Focus(chromedp.CSS(picture)), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	if got := b.tip(); !strings.HasPrefix(got, "job ") {
		t.Errorf("two marks on, the tip is %q", got)
	}
	if focused := eval[string](b, "getComputedStyle(document.querySelector('"+picture+"')).outlineStyle"); focused != "solid" {
		t.Errorf("the focus is not visible: its outline is %s", focused)
	}
	b.do(chromedp.KeyEvent(kb.Escape))
	if got := b.tip(); got != "" {
		t.Errorf("after Escape the tip is %q", got)
	}
	b.point("#trend circle")
	if got := b.tip(); !strings.Contains(got, "jobs/s, 1 run\nrevision ") {
		t.Errorf("the tip of a night is %q", got)
	}
	b.shoot("tip")
}

func testZoom(t *testing.T, b *browser) {
	const width = "Math.round([...document.querySelectorAll('" + picture + " g[data-job=\"1\"] rect')][0].getBoundingClientRect().width)"
	ticks := func() string { return strings.Join(b.texts(picture+" .times text"), " ") }
	whole, wholeTicks := eval[int](b, width), ticks()
	check := func(how string, zoomed bool) {
		t.Helper()
		if got := eval[int](b, width); got > whole+5 != zoomed {
			t.Errorf("%s: the bar is %d wide, and %d of the whole time", how, got, whole)
		}
		if got := ticks(); (got != wholeTicks) != zoomed {
			t.Errorf("%s: the axis says %s, and %s of the whole time", how, got, wholeTicks)
		}
		if n := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); n > 0 {
			t.Errorf("%s: the page is %d px too wide", how, n)
		}
	}
	b.do(chromedp.Focus(chromedp.CSS(picture)), chromedp.KeyEvent("+"))
	check("+", true)
	b.shoot("zoomed")
	b.do(chromedp.KeyEvent("0"))
	check("0", false)
	x, y := b.point(picture + " .lane")
	b.mouse(input.DispatchMouseEventTypeMousePressed, x-50, y)
	b.mouse(input.DispatchMouseEventTypeMouseMoved, x+50, y)
	b.mouse(input.DispatchMouseEventTypeMouseReleased, x+50, y)
	check("drag", true)
	places := eval[[]string](b, "[...document.querySelector('"+picture+"').querySelectorAll('.time')].map(e => e.getAttribute('x') + ' ' + e.getAttribute('width'))")
	slices.Sort(places)
	if n := len(slices.Compact(places)); n != 1 {
		t.Errorf("the schedulers have several axes: %v", places)
	}
	b.click(".place .zoom button:last-child")
	check("the button", false)
	b.click("#runs a[href='#run-2']")
	b.do(chromedp.Focus(chromedp.CSS("#run-2 .by-job svg[tabindex='0']")), chromedp.KeyEvent("+"))
	if got := eval[[]string](b, "[...document.querySelectorAll('#run-2 [data-end]')].map(e => String(e.classList.contains('zoomed')))"); len(got) < 3 || slices.Contains(got, "false") {
		t.Errorf("the pictures of a run are zoomed: %v", got)
	}
	check("a run of its own", false)
}

func testKeyboard(t *testing.T, b *browser) {
	b.do(chromedp.Focus(chromedp.CSS("#run-1 .by-job svg[tabindex='0']")), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	if got := strings.Join(b.texts("#run-1 .details dd"), "\n"); !strings.Contains(got, "needle-2") {
		t.Errorf("two steps down, the details are those of\n%s", got)
	}
	b.do(chromedp.Focus(chromedp.CSS("#runs thead th:nth-child(7) button")), chromedp.KeyEvent(kb.Enter))
	if got := eval[string](b, "document.querySelector('#runs thead th:nth-child(7)').ariaSort"); got != "ascending" {
		t.Errorf("Enter on a heading: aria-sort is %q", got)
	}
}

func testLooks(t *testing.T, b *browser, path string) {
	background := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 1280} {
			b.open(path, width, scheme)
			b.do(chromedp.Evaluate[chromedp.Void]("for (const d of document.querySelectorAll('details')) d.open = true"))
			for _, run := range []int{2, 22} {
				b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = 'run-%d'", run)))
				wide := eval[[]string](b, `[...document.querySelectorAll("main *, header *")].filter(e => !e.closest(".scroll, .scroll-x, pre, svg, .skip") && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))`)
				if n := eval[int64](b, "document.documentElement.scrollWidth"); n > width || len(wide) > 0 {
					t.Errorf("%s, run %d: the page is %d wide in a window of %d: %q", scheme, run, n, width, wide)
				}
				b.shoot(fmt.Sprintf("%s-%d-run%d", scheme, width, run))
			}
		}
		background[scheme] = eval[string](b, "getComputedStyle(document.body).backgroundColor")
	}
	if background["light"] == background["dark"] {
		t.Errorf("light and dark have the same background %s", background["light"])
	}
	b.nothingWrong()
}
