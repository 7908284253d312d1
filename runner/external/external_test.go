package external

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// script writes an executable shell script.
func script(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// greets is the begin of a script that greets with the given fields.
func greets(fields string) string {
	return `read hello; echo '{"id":0,"protocol":1` + fields + `}'` + "\n"
}

func start(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := Start(policies.Program{Path: script(t, text), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// node is an engine with the policy: two devices of 100 bytes, 2 SMs of 4 blocks and 8 warps.
func node(t testing.TB, p schedulers.Policy) *engine.Engine {
	t.Helper()
	d := schedulers.Device{Name: "small", CapacityBytes: 100, ContextBytes: 10, SMs: 2, WarpsPerSM: 8, BlocksPerSM: 4}
	e, err := engine.New([]schedulers.Device{d, d}, p, engine.Config{Queue: engine.FIFO})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Each question is on a line of its own and says all that the engine knows. The engine asks twice
// where a new task may go: whether it must wait, and when its turn has come.
func TestQuestions(t *testing.T) {
	p := start(t, `log="$0.log"; exec 3>"$log"
read q; echo "$q" >&3; echo '{"id":0,"protocol":1,"promises":["memory-hard"],"asks":["grow","reshape"],"sms":true}'
read q; echo '{"id":1,"device":1}'
read q; echo "$q" >&3; echo '{"id":2,"device":1,"blocks":[2,1],"warp_slots":2048,"next_sm":1}'
read q; echo "$q" >&3; echo '{"id":3,"grow":true}'
read q; echo "$q" >&3; echo '{"id":4,"grow":false}'
read q; echo "$q" >&3; echo '{"id":5,"device":1,"exclusive":true}'
cat >/dev/null`)
	e := node(t, p)
	task := schedulers.Task{ID: 7, Job: 3, Serial: 2, Bytes: 40, Blocks: 3, ThreadsPerBlock: 33, BlocksPerSM: 3, Managed: true, Priority: -1}
	ds, err := e.Submit(task, 0)
	if err != nil || len(ds) != 1 || ds[0].Kind != schedulers.Granted || ds[0].Device != 1 {
		t.Fatalf("submit: %+v, %v", ds, err)
	}
	d := e.View().Device(1)
	if sm := d.SM(0); sm.FreeBlocks != 2 || sm.FreeSlots != 8*schedulers.SlotsPerWarp-2*2048 || d.NextSM() != 1 {
		t.Errorf("SM 0 has %+v, the next is %d", sm, d.NextSM())
	}
	if !p.CanGrow(30, d) || p.CanGrow(20, d) {
		t.Error("growth is not as the policy says")
	}
	if _, err := e.Shape(7, 100, 32, 0); err != nil || !d.Saturated() || d.SM(0).FreeBlocks != 4 {
		t.Errorf("the new shape does not count: %v", err)
	}
	if err := errors.Join(p.Err(), p.Close()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(p.program.Path + ".log")
	if err != nil {
		t.Fatal(err)
	}
	limits := `"name":"small","capacity_bytes":100,"context_reserve_bytes":10,"sms":2,"warps_per_sm":8,"blocks_per_sm":4,`
	said := `"id":7,"job":3,"process":2,"bytes":40,"blocks":%d,"threads_per_block":%d,"blocks_per_sm":%d,"warps_per_block":%d,"warps":%d,` +
		`"grid_unknown":false,"managed":true,"on_device":null,"priority":-1,"isolate":false`
	empty := limits + `"free_bytes":100,"used_warps":0,"tasks":0,"jobs":0,"saturated":false,"free_blocks":[4,4],"free_slots":[8192,8192],"next_sm":0,"context_bytes":10,"tasks_of_job":0,"open":true}`
	used := limits + `"free_bytes":50,"used_warps":6,"tasks":1,"jobs":1,"saturated":false,"free_blocks":[2,3],"free_slots":[4096,6144],"next_sm":1}}`
	want := strings.Join([]string{
		`{"id":0,"kind":"hello","protocol":1,"slots_per_warp":1024}`,
		`{"id":2,"kind":"place","task":{` + fmt.Sprintf(said, 3, 33, 3, 2, 6) + `},"latest":null,"devices":[{"device":0,` + empty + `,{"device":1,` + empty + `]}`,
		`{"id":3,"kind":"grow","bytes":30,"device":{` + used,
		`{"id":4,"kind":"grow","bytes":20,"device":{` + used,
		`{"id":5,"kind":"reshape","task":{` + fmt.Sprintf(said, 100, 32, 0, 1, 100) + `},"at":{"device":1,"blocks":[2,1],"warp_slots":2048,"next_sm":1},"device":{` +
			strings.NewReplacer(`"used_warps":6`, `"used_warps":100`, "[2,3]", "[4,4]", "[4096,6144]", "[8192,8192]").Replace(used),
		"",
	}, "\n")
	if diff := cmp.Diff(want, string(log)); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

// What the greeting leaves out has a default.
func TestWhatAPolicyNeedNotDecide(t *testing.T) {
	for _, c := range []struct {
		greeting string
		beyond   bool // it may grow beyond what is free
		want     Promises
	}{
		{``, false, Promises{MemoryHard: true}},
		{`,"promises":["memory-hard","places-what-fits","one-job-per-device"]`, false, Promises{true, true, true}},
		{`,"promises":[]`, true, Promises{}},
		{`,"promises":["one-job-per-device"],"asks":[],"sms":false`, true, Promises{OneJobPerDevice: true}},
	} {
		p := start(t, greets(c.greeting)+`cat >/dev/null`)
		d := node(t, p).View().Device(0)
		if !p.CanGrow(100, d) || p.CanGrow(101, d) != c.beyond {
			t.Errorf("%s: growth", c.greeting)
		}
		at := schedulers.Placement{Device: 1, Exclusive: true}
		if got := p.Reshape(schedulers.Task{}, at, d); !cmp.Equal(got, at) {
			t.Errorf("%s: reshaped to %+v", c.greeting, got)
		}
		if got := p.Promises(); got != c.want {
			t.Errorf("%s: promises %+v, want %+v", c.greeting, got, c.want)
		}
		if err := errors.Join(p.Err(), p.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A program that does not answer as it should fails its policy. The error quotes the answer and the
// end of its standard error, on one line.
func TestAnswersThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ says, want string }{
		"no JSON":             {`echo hello`, `its answer "hello" is not valid: invalid character 'h'`},
		"nothing on the line": {`echo`, `its answer "" is not valid: the line is empty: want one JSON object`},
		"two objects":         {`echo '{"id":1} {}'`, `more follows on the line`},
		"no id":               {`echo '{"device":0}'`, `it has no id: want that of the question, 1`},
		"an old id":           {`echo '{"id":0,"device":0}'`, `it has the id 0: want that of the question, 1`},
		"no device":           {`echo '{"id":1}'`, `its answer "{\"id\":1}" is not valid: it has no device: want a number, or null if the task must wait`},
		"an unknown field":    {`echo '{"id":1,"devise":0}'`, `unknown field "devise"`},
		"a key twice":         {`echo '{"id":1,"device":0,"device":1}'`, `the key "device" is there twice`},
		"another case":        {`echo '{"id":1,"device":null,"Device":0}'`, `the key "Device" must be written "device"`},
		"another type":        {`echo '{"id":1,"device":"0"}'`, `is not valid: device is a string: want a whole number`},
		"null blocks":         {`echo '{"id":1,"device":0,"blocks":null}'`, `blocks is null or has null in it`},
		"null in blocks":      {`echo '{"id":1,"device":0,"blocks":[null,1]}'`, `blocks is null or has null in it`},
		"a null flag":         {`echo '{"id":1,"device":0,"exclusive":null}'`, `exclusive is null`},
		"a null id":           {`echo '{"id":null,"device":0}'`, `id is null`},
		"null":                {`echo null`, `it has no id`},
		"a list":              {`echo '[]'`, `is not valid: `},
		"a fraction":          {`echo '{"id":1,"device":0.0}'`, `is not valid: `},
		"a truth":             {`echo '{"id":1,"device":true}'`, `is not valid: `},
		"a huge device":       {`echo '{"id":1,"device":99999999999999999999}'`, `is not valid: `},
		"a key twice as null": {`echo '{"id":1,"device":0,"device":null}'`, `the key "device" is there twice`},
		"no UTF-8":            {`printf '{"id":1,"device":0,"\377":0}\n'`, `is not valid: `},
		"no UTF-8 at the end": {`printf '{"id":1,"device":0}\377\n'`, `more follows on the line`},
		"NUL":                 {`printf '{"id":1,"device":0}\0\n'`, `more follows on the line`},
		"NUL in a key":        {`printf '{"id":1,"device\0":0}\n'`, `is not valid: `},
		"nested":              {`printf '{"id":1,"device":'; head -c 30000 /dev/zero | tr '\0' '['; echo`, `exceeded max depth`},
		"no such device":      {`echo '{"id":1,"device":2}'`, `device 2: the node has devices 0 to 1`},
		"a negative device":   {`echo '{"id":1,"device":-1}'`, `device -1: the node has devices 0 to 1`},
		"no room":             {`echo '{"id":1,"device":0}'`, `device 0, which has 90 bytes free beside the task's context, and it promises memory-hard`},
		"whole memory":        {`echo '{"id":1,"device":0,"exclusive":true,"whole_memory":true}'`, `whole_memory without exclusive, or for a task without unified memory`},
		"unseen blocks":       {`echo '{"id":1,"device":1,"blocks":[1,1]}'`, `blocks without sms in the greeting`},
		"it ends":             {`echo oh >&2; echo 'no more' >&2; exit 7`, `it gave no answer and ended (exit status 7); its stderr: "oh\nno more"`},
		"it ends well":        {`exit 0`, `it gave no answer and ended; it wrote nothing to stderr`},
		"half an answer":      {`printf '{"id"'; exit 1`, `it gave no answer and ended; it had said "{\"id\"" (exit status 1)`},
		"a signal":            {`kill -9 $$`, `it gave no answer and ended (signal: killed)`},
		"it closes its pipe":  {`exec 1>&-; sleep 1000`, `it gave no answer and closed its standard output; it wrote nothing`},
		"a long answer":       {`head -c 70000 /dev/zero | tr '\0' x; sleep 1000`, `xxx"... is longer than 64 KiB`},
		"much on stderr":      {`head -c 5000 /dev/zero | tr '\0' x >&2; echo end >&2; exit 1`, `its stderr ends with "xxx`},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, greets("")+`read question; `+c.says)
			if name == "it closes its pipe" {
				p.endLimit = 0
			}
			bytes := int64(91)
			if name == "unseen blocks" {
				bytes = 0
			}
			_, ok := p.Place(schedulers.Task{ID: 5, Job: 2, Bytes: bytes}, node(t, p).View())
			if ok || p.Err() == nil {
				t.Fatalf("placed: %v, error %v", ok, p.Err())
			}
			text := p.Err().Error()
			if !strings.Contains(text, c.want) || !strings.HasPrefix(text, "policy "+p.program.Path+": asked to place task 5 of job 2: ") || strings.Contains(text, "\n") {
				t.Errorf("error %s\nwant %s", text, c.want)
			}
			if len(text) > 3*tailBytes {
				t.Errorf("an error of %d bytes", len(text))
			}
			first := p.Err()
			if _, ok := p.Place(schedulers.Task{}, node(t, p).View()); ok || p.CanGrow(0, node(t, p).View().Device(0)) || p.Err() != first {
				t.Error("it goes on after its failure")
			}
			if err := p.Close(); err != nil {
				t.Errorf("close reports what is known: %v", err)
			}
			<-p.proc.Done()
		})
	}
}

// The engine's accounting does not take blocks that are not there.
func TestBlocksThatCannotBe(t *testing.T) {
	for answer, want := range map[string]string{
		`"blocks":[1]`:                     `blocks for 1 SMs: the device has 2`,
		`"blocks":[5,0]`:                   `5 blocks of 0 slots on SM 0, which has 4 blocks and 8192 slots free`,
		`"blocks":[0,-1]`:                  `-1 blocks of 0 slots on SM 1`,
		`"blocks":[0,3],"warp_slots":2731`: `3 blocks of 2731 slots on SM 1`,
		`"blocks":[0,3],"warp_slots":9223372036854775807`: `3 blocks of 9223372036854775807 slots on SM 1`,
		`"blocks":[0,0],"warp_slots":-1`:                  `warp_slots -1 and next_sm 0: want 0 or more`,
		`"next_sm":-5`:                                    `warp_slots 0 and next_sm -5: want 0 or more`,
		`"next_sm":999999`:                                `warp_slots 0 and next_sm 999999: want 0 or more`,
		`"warp_slots":-7`:                                 `warp_slots -7 and next_sm 0: want 0 or more`,
		`"blocks":[0,0],"next_sm":2`:                      `next_sm 2: want 0 or more, and an SM from 0 to 1`,
	} {
		p := start(t, greets(`,"sms":true`)+`read question; echo '{"id":1,"device":1,`+answer+`}'; read more`)
		if at, ok := p.Place(schedulers.Task{}, node(t, p).View()); ok || !strings.Contains(fmt.Sprint(p.Err()), want) {
			t.Errorf("%s: %+v, %v, want %s", answer, at, p.Err(), want)
		}
	}
}

func TestADeviceMustBeOpen(t *testing.T) {
	p := start(t, greets("")+`read q; echo '{"id":1,"device":0,"exclusive":true}'; read q; echo '{"id":2,"device":0,"exclusive":true}'; read q; echo '{"id":3,"device":0}'; read more`)
	e := node(t, p)
	if ds, err := e.Submit(schedulers.Task{ID: 1, Job: 1}, 0); err != nil || len(ds) != 1 {
		t.Fatalf("%v, %v", ds, err)
	}
	if _, ok := p.Place(schedulers.Task{ID: 2, Job: 2}, e.View()); ok || !strings.Contains(fmt.Sprint(p.Err()), "device 0, which is not open to the task") {
		t.Errorf("placed: %v, %v", ok, p.Err())
	}
}

func TestGrowthAndShapesThatCannotBe(t *testing.T) {
	for answer, c := range map[string]struct {
		ask  func(p *Policy, d schedulers.DeviceView)
		want string
	}{
		`{"id":1}`:             {func(p *Policy, d schedulers.DeviceView) { p.CanGrow(1, d) }, "it has no grow: want true or false"},
		`{"id":1,"grow":true}`: {func(p *Policy, d schedulers.DeviceView) { p.CanGrow(101, d) }, "grow, where 100 bytes are free, and it promises memory-hard"},
		`{"id":1,"device":1}`:  {func(p *Policy, d schedulers.DeviceView) { p.Reshape(schedulers.Task{}, schedulers.Placement{}, d) }, "the task must stay on device 0"},
		`{"id":1,"device":null}`: {func(p *Policy, d schedulers.DeviceView) { p.Reshape(schedulers.Task{}, schedulers.Placement{}, d) },
			"the task must stay on device 0"},
		`{"id":1,"device":0,"exclusive":true,"whole_memory":true}`: {func(p *Policy, d schedulers.DeviceView) {
			p.Reshape(schedulers.Task{Managed: true}, schedulers.Placement{}, d)
		}, "whole_memory must stay false"},
	} {
		p := start(t, greets(`,"asks":["grow","reshape"]`)+`read question; echo '`+answer+`'; read more`)
		c.ask(p, node(t, p).View().Device(0))
		if !strings.Contains(fmt.Sprint(p.Err()), c.want) {
			t.Errorf("%s: %v, want %s", answer, p.Err(), c.want)
		}
	}
}

func TestALatePolicyFails(t *testing.T) {
	for name, text := range map[string]string{
		"it thinks":     `read question; printf '{"id":1,'; echo so long >&2; sleep 1000`,
		"it reads none": `sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, greets("")+text)
			p.program.Timeout = time.Millisecond
			if name == "it thinks" { // the time is over when the policy has said two words, which have been read
				p.program.Timeout = time.Hour
				go func() {
					for !strings.Contains(p.stderr.String(), "so long") || unread(t, p.out) > 0 {
						runtime.Gosched()
					}
					_ = p.out.SetReadDeadline(time.Now())
				}()
			}
			task, e := schedulers.Task{}, node(t, p)
			_, ok := p.Place(task, e.View())
			if ok || !strings.Contains(fmt.Sprint(p.Err()), "it gave no answer within "+p.program.Timeout.String()) {
				t.Errorf("placed: %v, %v", ok, p.Err())
			}
			if name == "it thinks" && !strings.Contains(p.Err().Error(), `it had said "{\"id\":1,"; its stderr: "so long"`) {
				t.Error(p.Err())
			}
			if p.proc.Err() == nil {
				t.Error("it was not killed")
			}
		})
	}
}

// unread is how many bytes wait in a pipe.
func unread(t *testing.T, pipe *os.File) (n int) {
	raw, err := pipe.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }), err)
	}
	if err != nil {
		t.Error(err)
	}
	return n
}

// An error says how much the program had answered. A policy that contradicts itself fails with the same words.
func TestAnswersBeforeAFailure(t *testing.T) {
	const answers = `read q; echo '{"id":1,"device":null}'; read q; echo '{"id":2,"device":0}'; read q; `
	p := start(t, greets("")+answers+`exit 3`)
	for range 3 {
		p.Place(schedulers.Task{Job: 4}, node(t, p).View())
	}
	if want := `asked to place task 0 of job 4: it gave no answer and ended (exit status 3); it had answered 2 questions, the last with "{\"id\":2,\"device\":0}"; it wrote nothing`; p.Err() == nil || !strings.Contains(p.Err().Error(), want) {
		t.Errorf("%v, want %s", p.Err(), want)
	}
	p = start(t, greets("")+answers+`sleep 1000`)
	for range 2 {
		p.Place(schedulers.Task{Job: 4}, node(t, p).View())
	}
	err := p.Stuck(3)
	if want := `of 2 questions where a task may go it answered 1 with null, which is to wait; its last answer was "{\"id\":2,\"device\":0}"; requests that wait although nothing is on the node`; err == nil || err != p.Err() || !strings.Contains(err.Error(), want) || !errors.As(err, new(schedulers.PolicyError)) {
		t.Errorf("%v, want %s", err, want)
	}
	<-p.proc.Done()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestGreetingsThatCannotBe(t *testing.T) {
	for says, want := range map[string]string{
		`echo '{"id":0,"protocol":1,"promises":null}'`:                        `promises is null`,
		`echo '{"id":0,"protocol":1,"asks":[null]}'`:                          `asks is null or has null in it`,
		`echo '{"id":0,"protocol":null}'`:                                     `protocol is null`,
		`echo '{"id":0,"protocol":1,"sms":null}'`:                             `sms is null`,
		`echo '{"id":0,"protocol":1,"device":null}'`:                          `unknown field "device"`,
		`echo '{"id":0,"protocol":3}'`:                                        `asked to greet: its answer "{\"id\":0,\"protocol\":3}" is not valid: it speaks protocol 3, and this caserun speaks protocols 1 and 2: let it answer with one of these`,
		`echo '{"id":0,"protocol":1,"takes_back":true}'`:                      `takes_back, look_every_ns and bursts are of protocol 2`,
		`echo '{"id":0,"protocol":1,"asks":["tick"]}'`:                        `asks has "tick": want some of ["grow" "reshape"]`,
		`echo '{"id":0,"protocol":2,"asks":["tick"]}'`:                        `asks has tick without takes_back`,
		`echo '{"id":0,"protocol":2,"bursts":true}'`:                          `look_every_ns and bursts without takes_back`,
		`echo '{"id":0,"protocol":2,"look_every_ns":1000000}'`:                `look_every_ns and bursts without takes_back`,
		`echo '{"id":0,"protocol":2,"takes_back":true,"look_every_ns":1000}'`: `look_every_ns is 1000: want nanoseconds from 1000000 to 3600000000000, or 0`,
		`echo '{"id":0,"protocol":2,"takes_back":true,"look_every_ns":-1}'`:   `look_every_ns is -1`,
		`echo '{"id":0,"protocol":2,"takes_back":null}'`:                      `takes_back is null`,
		`echo '{"id":0}'`: `it speaks protocol 0`,
		`echo '{"id":0,"protocol":1,"Protocol":1}'`:                    `the key "Protocol" must be written "protocol"`,
		`echo '{"id":0,"protocol":1,"promises":["speed"]}'`:            `promises has "speed": want some of ["memory-hard" "places-what-fits" "one-job-per-device"]`,
		`echo '{"id":0,"protocol":1,"promises":["places-what-fits"]}'`: `"places-what-fits" without "memory-hard"`,
		`echo '{"id":0,"protocol":1,"asks":["place"]}'`:                `asks has "place": want some of ["grow" "reshape"]`,
		`echo Traceback >&2; exit 1`:                                   `it gave no answer and ended (exit status 1); its stderr: "Traceback"`,
	} {
		p, err := Start(policies.Program{Path: script(t, says), Timeout: time.Minute})
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(schedulers.PolicyError)) {
			t.Errorf("%s: %v, want %s", says, err, want)
		}
		if p == nil || p.Err() == nil || p.Close() != nil { // so that a run of it can be recorded
			t.Errorf("%s: it is not a policy that has failed", says)
		}
	}
}

func TestFilesThatAreNoProgram(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "policy.py")
	if err := os.WriteFile(text, []byte("print()\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	interpreter := filepath.Join(dir, "interpreter")
	if err := os.WriteFile(interpreter, []byte("#!/nowhere/python\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "none: no such file",
		dir:                        "it is a directory",
		text:                       "it is not executable (permission denied): run chmod +x on it",
		empty:                      "start policy " + empty + ": exec format error: let a script begin with a line such as #!",
		interpreter:                "start policy " + interpreter + ": its interpreter /nowhere/python, which its first line names, cannot be found: install it",
	} {
		if os.Getuid() == 0 && path == text {
			// root too needs an executable bit: access(2) says so
			if err := unix.Access(path, unix.X_OK); err == nil {
				t.Fatal("access(2) calls a file executable that is not")
			}
		}
		if _, err := Start(policies.Program{Path: path, Timeout: time.Second}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// Close ends the program's input. How a program ends then counts, unless it has to be killed.
func TestClose(t *testing.T) {
	for text, want := range map[string]string{
		`cat >/dev/null`:                      "",
		`exit 0`:                              "",
		`cat >/dev/null; echo no >&2; exit 3`: `it ended with an error after its last answer (exit status 3); its stderr: "no"`,
		`exit 3`:                              "it ended with an error after its last answer (exit status 3)",
		`sleep 1000`:                          "",
	} {
		p := start(t, greets("")+text)
		if text == `sleep 1000` {
			p.endLimit = 0
		}
		err := p.Close()
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		<-p.proc.Done()
		if err := p.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	}
}

// A program's children do not outlive a failure.
func TestFailureEndsTheGroup(t *testing.T) {
	p := start(t, greets("")+`sleep 1000 & echo $! >"$0.pid"; read question; echo nonsense; wait`)
	p.Place(schedulers.Task{}, node(t, p).View())
	text, err := os.ReadFile(p.program.Path + ".pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n == 0 || err != nil {
			t.Errorf("process %d still runs: %v", pid, err)
		}
		return
	}
}

// thinking makes this test binary a policy that is Alg. 3.
const thinking = "EXTERNAL_TEST_POLICY"

func TestMain(m *testing.M) {
	switch os.Getenv(thinking) {
	case "":
	case "idle":
		giveWay(os.Stdin, os.Stdout)
		os.Exit(0)
	default:
		think(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func think(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q struct {
			ID      uint64
			Kind    string
			Task    task
			Devices []device
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		if q.Kind == "hello" {
			fmt.Fprintln(out, `{"id":0,"protocol":1}`)
			continue
		}
		fits := slices.DeleteFunc(q.Devices, func(d device) bool { return !d.Open || q.Task.Bytes+d.ContextBytes > d.FreeBytes })
		if len(fits) == 0 {
			fmt.Fprintf(out, "{\"id\":%d}\n", q.ID)
			continue
		}
		best := slices.MinFunc(fits, func(a, b device) int { return int(int64(a.UsedWarps) - int64(b.UsedWarps)) })
		fmt.Fprintf(out, "{\"id\":%d,\"device\":%d}\n", q.ID, best.Device)
	}
}

func thinker(t testing.TB) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return script(t, thinking+`=1 exec "`+self+`"`)
}

// BenchmarkDecision is the time from a question to the answer of a compiled program.
func BenchmarkDecision(b *testing.B) { benchmarkDecision(b, thinker(b)) }

func benchmarkDecision(b *testing.B, path string) {
	for _, devices := range []int{4, 64} {
		b.Run(fmt.Sprintf("devices=%d", devices), func(b *testing.B) {
			p, err := Start(policies.Program{Path: path, Timeout: 10 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			e, err := engine.New(slices.Repeat([]schedulers.Device{{Name: "V100", CapacityBytes: 16 << 30, ContextBytes: 1 << 29, SMs: 80, WarpsPerSM: 64, BlocksPerSM: 32}}, devices), p, engine.Config{})
			if err != nil {
				b.Fatal(err)
			}
			t := schedulers.Task{ID: 1, Bytes: 1 << 30, Blocks: 1000, ThreadsPerBlock: 256}
			for b.Loop() {
				if _, ok := p.Place(t, e.View()); !ok {
					b.Fatal(p.Err())
				}
			}
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
