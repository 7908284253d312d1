//go:build llvm

package lazytest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/native/nativetest"
)

// The tests named TestCompiled run programs that CASE's compiler pass (native/pass) has changed,
// on the fake CUDA runtime, with the test as the scheduler.
//
// clang is the compiler, and pass the plugin that native/pass builds for it.
func llvm(t *testing.T) (clang, pass string) {
	t.Helper()
	for _, version := range []string{"16", "19"} { // as native/pass/Makefile
		dir := "/usr/lib/llvm-" + version
		if _, err := os.Stat(filepath.Join(dir, "include/llvm/IR/Module.h")); err == nil {
			if _, err := os.Stat(filepath.Join(dir, "bin/clang++")); err == nil {
				return filepath.Join(dir, "bin/clang++"), filepath.Join("../../pass/build", version, "case.so")
			}
		}
	}
	t.Fatal("no LLVM: install clang-16 and llvm-16-dev")
	return "", ""
}

// made is a program that is made up from a seed.
type made struct {
	seed  int
	text  string
	tidy  bool // whatever it allocates it frees, on every path, without asking whether to
	fails int  // the cudaMalloc that fails; 0: none
}

// maker writes a program. A variable is in one of the states none (not allocated), some, and
// maybe: the program asks before it uses the memory.
type maker struct {
	r     *rand.Rand
	b     strings.Builder
	state []string // of d0, d1, ...
	name  []string // how the program calls them
	depth int
	apart bool // no two variables are an argument of the same kernel
	m     made
	other bool // elsewhere() may be called
	calm  bool // nothing that the pass leaves to the lazy runtime, as a rule
	seed  int
	uses  map[string]bool
}

func (k *maker) say(format string, args ...any) {
	fmt.Fprintf(&k.b, "%s%s\n", strings.Repeat("\t", k.depth+1), fmt.Sprintf(format, args...))
}

func (k *maker) one(of ...string) string { return of[k.r.IntN(len(of))] }

func (k *maker) in(states ...string) []int {
	var out []int
	for v, s := range k.state {
		if strings.Contains(strings.Join(states, " "), s) {
			out = append(out, v)
		}
	}
	return out
}

func (k *maker) pick(of []int) int { return of[k.r.IntN(len(of))] }

func (k *maker) frees() {
	for _, v := range k.in("some", "maybe") {
		k.free(v)
	}
}

func (k *maker) free(v int) {
	if k.state[v] == "maybe" || k.r.IntN(8) == 0 {
		k.m.tidy = false
		k.say("if (%s) cudaFree(%s);", k.name[v], k.name[v])
	} else {
		k.say("cudaFree(%s);", k.name[v])
	}
}

func (k *maker) allocate(v int) {
	n := fmt.Sprintf("n%d", v)
	size := k.one(fmt.Sprint(20+k.r.IntN(2000)), fmt.Sprint(20+k.r.IntN(2000)), fmt.Sprintf("x * %d + 30", k.r.IntN(40)),
		fmt.Sprintf("early%d * 3", k.r.IntN(2)), fmt.Sprintf("sizes[%d] + 7", k.r.IntN(16)))
	if k.calm {
		size = k.one(fmt.Sprint(20+k.r.IntN(2000)), fmt.Sprintf("x * %d + 30", k.r.IntN(40)), fmt.Sprintf("early%d * 3", k.r.IntN(2)))
	} else if k.r.IntN(12) == 0 {
		size = "unknown(x)"
	}
	k.say("%s = %s;", n, size)
	d := k.name[v]
	way := k.r.IntN(8)
	if k.calm && way == 2 {
		way = 3
	}
	switch way {
	case 0:
		k.say("if (device_malloc(&%s, %s * sizeof(int)) != cudaSuccess) {", d, n)
	case 1:
		k.say("if (cudaMalloc((void **)&%s, %s * sizeof(int)) != cudaSuccess) {", d, n)
	case 2:
		k.say("%s = make(%s);", d, n)
		k.say("if (%s == nullptr) {", d)
	default:
		k.say("cudaMalloc((void **)&%s, %s * sizeof(int));", d, n)
		k.state[v] = "some"
		k.fill(v)
		return
	}
	k.depth++
	if k.r.IntN(3) > 0 {
		k.frees()
	} else if len(k.in("some", "maybe")) > 0 {
		k.m.tidy = false
	}
	k.say("return %d;", 100+v)
	k.depth--
	k.say("}")
	k.state[v] = "some"
	k.fill(v)
}

func (k *maker) fill(v int) {
	if k.r.IntN(2) == 0 {
		k.say("cudaMemset(%s, %d, n%d * sizeof(int));", k.name[v], k.r.IntN(3), v)
	} else {
		k.say("cudaMemcpy(%s, host, n%d * sizeof(int), 1);", k.name[v], v)
	}
}

func (k *maker) launch(guard bool) {
	from := k.in("some")
	if guard {
		from = k.in("some", "maybe")
	}
	if len(from) == 0 {
		return
	}
	a, b := k.pick(from), k.pick(from)
	if k.apart {
		b = a
	}
	grid := k.one("(dim3{4, 1, 1})", "(dim3{4, 1, 1})", "(dim3{(unsigned)x + 1, 2, 1})", "(dim3{(unsigned)sizes[2], 1, 1})",
		fmt.Sprintf("(dim3{(unsigned)n%d / 32 + 1, 1, 1})", a))
	block := k.one("(dim3{32, 1, 1})", "(dim3{16, 4, 1})", "(dim3{128, 1, 1})")
	stream := "nullptr"
	if k.uses["stream"] {
		stream = k.one("nullptr", "stream")
	}
	condition := ""
	if k.state[a] == "maybe" || k.state[b] == "maybe" {
		condition = fmt.Sprintf("if (%s && %s) ", k.name[a], k.name[b])
	}
	if k.r.IntN(2) == 0 {
		k.say("%sRUN(add, %s, %s, %s, %s, n%d, %d);", condition, grid, block, stream, k.name[a], a, k.r.IntN(9))
	} else {
		k.say("%sRUN(both, %s, %s, %s, %s, %s, n%d < n%d ? n%d : n%d);", condition, grid, block, stream, k.name[a], k.name[b], a, b, a, b)
	}
}

func (k *maker) read() {
	from := k.in("some")
	if len(from) == 0 {
		return
	}
	v := k.pick(from)
	k.say("cudaMemcpy(host, %s, n%d * sizeof(int), 2);", k.name[v], v)
	k.say("*sum = mix(*sum, host, n%d);", v)
}

// block writes statements in braces that leave the variables as they are. Variables that are
// allocated in it are freed in it.
func (k *maker) block(count int) {
	before := append([]string(nil), k.state...)
	k.depth++
	k.statements(count)
	for v := range k.state {
		if before[v] == "none" && k.state[v] != "none" {
			k.free(v)
			k.say("%s = nullptr;", k.name[v])
		}
	}
	k.depth--
	k.say("}")
	k.state = before
}

func (k *maker) statements(count int) {
	for range count {
		k.statement()
	}
}

func (k *maker) statement() {
	none, some := k.in("none"), k.in("some")
	kind := k.r.IntN(24)
	if k.calm && kind >= 17 && kind < 22 {
		kind = 4
	}
	switch kind {
	case 0, 1, 2, 3:
		if len(none) > 0 {
			k.allocate(k.pick(none))
		}
	case 4, 5, 6, 7, 8:
		k.launch(true)
	case 9, 10:
		k.read()
	case 11: // Memory of outside a block stays: the block may not run, or run again.
		if len(some) > 0 && k.depth == 0 {
			v := k.pick(some)
			k.free(v)
			k.say("%s = nullptr;", k.name[v])
			k.state[v] = "none"
		}
	case 12, 13:
		if k.depth < 2 {
			k.say("for (int i = 0; i < (x & 3) + %d; i++) {", k.r.IntN(2))
			k.block(1 + k.r.IntN(4))
		}
	case 14, 15:
		if k.depth < 2 {
			k.say("if (%s) {", k.one("x & 1", "x > 2", "sizes[1] > 35", "unknown(x) & 1"))
			k.block(1 + k.r.IntN(4))
		}
	case 16:
		k.say("if (x == %d) {", k.r.IntN(7))
		k.depth++
		if k.r.IntN(3) > 0 {
			k.frees()
		} else if len(k.in("some", "maybe")) > 0 {
			k.m.tidy = false
		}
		k.say("return %d;", k.r.IntN(90))
		k.depth--
		k.say("}")
	case 17:
		switch call := k.one("tick(x);", "tick(x);", "throw_if(x == 3);", "elsewhere(sum);", "inner_%d(sum, sizes[3]);", "launches_%d(%s, n%d);"); {
		case strings.HasPrefix(call, "throw"):
			k.m.tidy = false
			k.say("%s", call)
		case strings.HasPrefix(call, "else"):
			if k.other {
				k.say("%s", call)
			}
		case strings.HasPrefix(call, "inner"):
			k.uses["inner"] = true
			k.say(call, k.seed)
		case strings.HasPrefix(call, "launches"):
			if len(some) > 0 {
				v := k.pick(some)
				k.uses["launches"] = true
				k.say(call, k.seed, k.name[v], v)
			}
		default:
			k.say("%s", call)
		}
	case 18: // one that may or may not be allocated
		if len(none) > 0 && k.depth == 0 && k.r.IntN(2) == 0 {
			v := k.pick(none)
			k.say("if (%s) {", k.one("x & 1", "x > 1", "sizes[4] & 1"))
			k.depth++
			k.allocate(v)
			k.depth--
			k.say("}")
			k.state[v] = "maybe"
		}
	case 19: // allocated in the first round of a loop
		if len(none) > 0 && k.depth == 0 && k.r.IntN(3) == 0 {
			v := k.pick(none)
			k.say("for (int i = 0; i < (x & 1) + 1; i++) {")
			k.depth++
			k.say("if (i == 0) {")
			k.depth++
			k.allocate(v)
			k.depth--
			k.say("}")
			k.launch(false)
			k.depth--
			k.say("}")
		}
	case 22: // from the first round of a loop to its last
		if len(none) > 0 && k.depth == 0 && k.r.IntN(3) == 0 {
			v := k.pick(none)
			k.say("for (int i = 0; i < (x & 1) + 2; i++) {")
			k.depth++
			k.say("if (i == 0) {")
			k.depth++
			k.say("n%d = 40;", v)
			k.say("cudaMalloc((void **)&%s, n%d * sizeof(int));", k.name[v], v)
			k.say("cudaMemset(%s, 1, n%d * sizeof(int));", k.name[v], v)
			k.depth--
			k.say("}")
			k.say("RUN(add, (dim3{4, 1, 1}), (dim3{32, 1, 1}), nullptr, %s, n%d, 3);", k.name[v], v)
			k.say("if (i == (x & 1) + 1) {")
			k.depth++
			k.state[v] = "some"
			k.read()
			k.say("cudaFree(%s);", k.name[v])
			k.say("%s = nullptr;", k.name[v])
			k.state[v] = "none"
			k.m.tidy = false
			k.depth--
			k.say("}")
			k.depth--
			k.say("}")
		}
	case 23: // allocated again, and the former memory is lost
		if len(some) > 0 && k.depth == 0 && k.r.IntN(2) == 0 {
			k.m.tidy = false
			k.allocate(k.pick(some))
		}
	case 20: // from one device memory to another
		if len(some) > 1 && !k.apart {
			a, b := k.pick(some), k.pick(some)
			if a != b {
				k.say("cudaMemcpy(%s, %s, (n%d < n%d ? n%d : n%d) * sizeof(int), 3);", k.name[a], k.name[b], a, b, a, b)
			}
		}
	case 21: // two change places
		if len(some) > 1 && k.r.IntN(3) == 0 && k.depth == 0 {
			a, b := some[0], some[1]
			k.say("{ int *t = %s; %s = %s; %s = t; int n = n%d; n%d = n%d; n%d = n; }", k.name[a], k.name[a], k.name[b], k.name[b], a, a, b, b)
		}
	}
}

func makeProgram(seed int, other bool) made {
	k := &maker{r: rand.New(rand.NewPCG(uint64(seed), 17)), m: made{seed: seed, tidy: true}, other: other, seed: seed, uses: map[string]bool{}}
	k.calm = k.r.IntN(2) == 0
	k.apart = k.r.IntN(3) == 0
	structure := !k.calm && k.r.IntN(10) == 0
	variables := 2 + k.r.IntN(3)
	var head strings.Builder
	for v := range variables {
		name := fmt.Sprintf("d%d", v)
		switch {
		case structure && v < 2:
			name = "s." + name
		case !k.calm && k.r.IntN(25) == 0:
			name = fmt.Sprintf("global_%d_%d", seed, v)
			fmt.Fprintf(&head, "static int *%s;\n", name)
		}
		k.name, k.state = append(k.name, name), append(k.state, "none")
	}
	if k.r.IntN(5) == 0 {
		k.uses["stream"] = true
		k.say("cudaStream_t stream;")
		k.say("cudaStreamCreate(&stream);")
	}
	if other && k.r.IntN(3) == 0 {
		k.say("cudaSetDevice(0);")
	}
	k.statements(4 + k.r.IntN(14))
	k.read()
	if k.r.IntN(8) > 0 {
		k.frees()
	} else if len(k.in("some", "maybe")) > 0 {
		k.m.tidy = false
	}
	if k.uses["stream"] {
		k.say("cudaStreamDestroy(stream);")
	}
	var text strings.Builder
	text.WriteString(head.String())
	if k.uses["launches"] {
		fmt.Fprintf(&text, "%sstatic void launches_%d(int *d, int n)\n{\n"+
			"\tRUN(add, (dim3{2, 1, 1}), (dim3{64, 1, 1}), nullptr, d, n, 5);\n}\n", k.one("__attribute__((noinline)) ", ""), seed)
	}
	if k.uses["inner"] {
		fmt.Fprintf(&text, "__attribute__((noinline)) static void inner_%d(unsigned long *sum, int n)\n{\n"+
			"\tint *d = nullptr, host[200] = {};\n\tcudaMalloc((void **)&d, n * sizeof *d);\n\tcudaMemset(d, 1, n * sizeof *d);\n"+
			"\tRUN(add, (dim3{2, 1, 1}), (dim3{64, 1, 1}), nullptr, d, n, 5);\n\tcudaMemcpy(host, d, n * sizeof *d, 2);\n"+
			"\t*sum = mix(*sum, host, n);\n\tcudaFree(d);\n}\n", seed)
	}
	fmt.Fprintf(&text, "static int program_%d(int x, int *host, const int *sizes, unsigned long *sum)\n{\n", seed)
	if structure {
		text.WriteString("\tstruct { int *d0, *d1; } s = {};\n")
	}
	for v, name := range k.name {
		switch {
		case strings.HasPrefix(name, "global"):
			fmt.Fprintf(&text, "\t%s = nullptr;\n", name)
		case !strings.HasPrefix(name, "s."):
			fmt.Fprintf(&text, "\tint *%s = nullptr;\n", name)
		}
		fmt.Fprintf(&text, "\tint n%d = 0;\n", v)
	}
	text.WriteString("\tconst int early0 = sizes[7], early1 = unknown(x);\n\t(void)early0, (void)early1, (void)host, (void)sum;\n")
	text.WriteString(k.b.String())
	fmt.Fprintf(&text, "\treturn 0;\n}\n\n")
	k.m.text = text.String()
	if k.r.IntN(3) == 0 {
		k.m.fails = 1 + k.r.IntN(8)
	}
	return k.m
}

// Programs that are made up from a seed compute the same with and without the pass. At each
// launch the tasks hold what is in use, and a kernel runs where its memory is.
func TestCompiledKeepsResultsOfRandomPrograms(t *testing.T) {
	const each = 25 // programs of a translation unit
	clang, pass := llvm(t)
	buildLazy(t)
	nativetest.Build(t, "pass")
	seed, count := drawnFrom(1), chance.Count(100, 1000)
	b := builder{clang: clang, pass: pass, dir: t.TempDir()}
	sources := filepath.Join(passDir, "tests/compiled")
	b.compile(t, filepath.Join(sources, "harness.cc"), "harness", "plain")
	for _, kind := range []string{"plain", "pass"} {
		b.compile(t, filepath.Join(sources, "elsewhere.cc"), "elsewhere", kind)
	}
	static, lazy := make(chan tasks, count), make(chan tasks, count)
	t.Run("programs", func(t *testing.T) {
		for first := seed; first < seed+count; first += each {
			var all []made
			for s := first; s < min(first+each, seed+count); s++ {
				all = append(all, makeProgram(s, first/each%2 == 1))
			}
			t.Run(fmt.Sprintf("seed=%d", first), func(t *testing.T) {
				t.Parallel()
				plain, compiled := b.program(t, all, "plain"), b.program(t, all, "pass")
				for _, m := range all {
					alone, together := compareMade(t, plain, compiled, m)
					static <- alone
					lazy <- together
				}
			})
		}
	})
	close(static)
	close(lazy)
	var alone, together tasks
	with := 0
	for n := range static {
		alone.add(n)
		with += min(n.granted, 1)
	}
	for n := range lazy {
		together.add(n)
	}
	t.Logf("%d of %d programs had static tasks: %+v; with the lazy runtime: %+v", with, count, alone, together)
	if least := count / 20; with < least || alone.moved < least || together.moved < least || together.known < least {
		t.Errorf("only %d of %d programs had static tasks: %+v; with the lazy runtime: %+v", with, count, alone, together)
	}
}

// builder builds programs with one compiler, plainly and with the pass.
type builder struct {
	clang, pass, dir string // the compiler, its plugin, and where its output goes
}

func (b builder) run(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"-std=c++17", "-O2", "-w", "-I", filepath.Join(passDir, "tests/compiled"), "-I", filepath.Join(fakeDir, "build")}, args...)
	if text, err := exec.Command(b.clang, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", b.clang, strings.Join(args, " "), err, text)
	}
}

// compile makes an object of a source. kind is "plain" or "pass".
func (b builder) compile(t *testing.T, source, name, kind string) string {
	t.Helper()
	out := filepath.Join(b.dir, name+"."+kind+".o")
	args := []string{"-c", source, "-o", out}
	if kind == "pass" {
		args = append(args, "-fpass-plugin="+b.pass)
	}
	b.run(t, args...)
	return out
}

// program builds programs into one file, with what runs them.
func (b builder) program(t *testing.T, all []made, kind string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("#include \"program.h\"\n\n")
	for _, m := range all {
		text.WriteString(m.text)
	}
	text.WriteString("extern const named programs[] = {\n")
	for _, m := range all {
		fmt.Fprintf(&text, "\t{%d, program_%d},\n", m.seed, m.seed)
	}
	text.WriteString("\t{0, nullptr}};\n")
	name := fmt.Sprintf("programs%d", all[0].seed)
	source, out := filepath.Join(b.dir, name+".cc"), filepath.Join(b.dir, name+"."+kind)
	if err := os.WriteFile(source, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	link := []string{b.compile(t, source, name, kind), filepath.Join(b.dir, "harness.plain.o")}
	if strings.Contains(text.String(), "elsewhere(sum)") {
		link = append(link, filepath.Join(b.dir, "elsewhere."+kind+".o"))
	}
	for _, wrapped := range []string{"cudaMalloc", "cudaFree", "cudaLaunchKernel", "case_static_malloc", "case_task_ask", "case_task_free"} {
		link = append(link, "-Wl,--wrap="+wrapped)
	}
	b.run(t, append(link, filepath.Join(probeDir, "libcase.a"), filepath.Join(fakeDir, "build/11/libcudart.so.11.0"),
		"-lpthread", "-ldl", "-o", out)...)
	return out
}

func (m made) command(t *testing.T, file string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(file, fmt.Sprint(m.seed))
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+absolute(t, fakeDir, "build/11"), "FAKE_CUDA_DEVICES=2", "CASE_ROOM_GRACE_MS=0")
	if m.fails > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("FAKE_CUDA_FAIL=cudaMalloc:%d=2", m.fails))
	}
	return cmd
}

// tasks are how many tasks a program had.
type tasks struct {
	granted int
	moved   int // on another device than the first
	known   int // whose kernel's occupancy was known
}

func (n *tasks) add(more tasks) {
	n.granted += more.granted
	n.moved += more.moved
	n.known += more.known
}

// scheduled runs a program with a scheduler that grants each task a device in turns.
func (m made) scheduled(t *testing.T, file string, env ...string) (p *lazyRun, all tasks) {
	t.Helper()
	s, r := start(t)
	p = &lazyRun{t: t, server: s, r: r, version: "11", program: fmt.Sprint(m.seed), cmd: m.command(t, file)}
	p.cmd.Env = append(append(p.cmd.Env, "CASE_SOCKET="+s.Path(), "CASE_TOKEN="+s.Register(1), "CASE_REQUIRED=1"), env...)
	p.cmd.Stderr = &p.stderr
	device := map[uint64]int{}
	p.start().finish(func(t *testing.T, e event) {
		switch e.Kind {
		case "begin":
			device[e.Task] = all.granted&1 ^ 1
			if e.Asks().OnDevice != nil {
				device[e.Task] = *e.Asks().OnDevice
			}
			all.granted++
			all.moved += device[e.Task]
			if e.Asks().BlocksPerSM > 0 {
				all.known++
			}
		case "grow":
		default:
			return
		}
		if err := e.grant(device[e.Task], fakeUUID(device[e.Task])); err != nil {
			t.Errorf("grant: %v", err)
		}
	})
	return p, all
}

// compareMade runs a program both ways, alone and with the lazy runtime. It returns the static
// tasks without the lazy runtime, and all tasks of the compiled program with it.
func compareMade(t *testing.T, plain, compiled string, m made) (static, all tasks) {
	t.Helper()
	var want, said bytes.Buffer
	cmd := m.command(t, plain)
	cmd.Stdout, cmd.Stderr = &want, &said
	wantErr := cmd.Run()
	if m.fails == 0 { // the lazy runtime does not call cudaMalloc
		for _, run := range [][]string{{plain, "ELSEWHERE=1"}, {compiled}} {
			file := run[0]
			p, had := m.scheduled(t, file, append(run[1:], "LD_PRELOAD="+absolute(t, lazyDir, "libcase.so"), "CASE_BINDING=task")...)
			if file == compiled {
				all = had
			}
			got, stderr := strings.Join(p.lines, "\n")+"\n", p.stderr.String()
			if got != want.String() || fmt.Sprint(p.err) != fmt.Sprint(wantErr) || strings.Contains(stderr, "VIOLATION") {
				t.Errorf("seed %d, %s, %s with the lazy runtime: %v\n%s\nwithout: %v\n%s\nstderr:\n%s\n%s", m.seed, repeated(), filepath.Ext(file), p.err,
					got, wantErr, want.String(), stderr, m.text)
			}
		}
	}
	p, static := m.scheduled(t, compiled)
	got := strings.Join(p.lines, "\n") + "\n"
	stderr := p.stderr.String()
	idle := 0
	if at := strings.LastIndex(stderr, "tasks: "); at >= 0 {
		if _, err := fmt.Sscanf(stderr[at:], "tasks: %d granted, %d idle", new(int), &idle); err != nil {
			t.Errorf("seed %d: %v", m.seed, err)
		}
	} else {
		t.Errorf("seed %d: the program does not say how many tasks it had", m.seed)
	}
	switch {
	case got != want.String() || fmt.Sprint(p.err) != fmt.Sprint(wantErr):
		t.Errorf("seed %d, %s: %v\n%s\nwithout the pass: %v\n%s\nstderr:\n%s\n%s", m.seed, repeated(), p.err, got, wantErr, want.String(), stderr, m.text)
	case strings.Contains(stderr, "VIOLATION"):
		t.Errorf("seed %d, %s:\n%s\n%s", m.seed, repeated(), stderr, m.text)
	case strings.Contains(said.String(), "VIOLATION"):
		t.Errorf("seed %d, %s, without the pass:\n%s\n%s", m.seed, repeated(), said.String(), m.text)
	case m.tidy && m.fails == 0 && idle > 0:
		t.Errorf("seed %d, %s: %d tasks are open when their memory is free\n%s", m.seed, repeated(), idle, m.text)
	}
	return static, all
}
