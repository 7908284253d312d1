// Package external has a program of the user's decide where tasks go. The program reads one
// question on standard input and answers on standard output before it gets the next
// (docs/reference/policy-protocol.md). It ends with this process, however that ends.
//
// A program that is late, ends early or answers what cannot be is killed. Its policy has then
// failed (schedulers.Fallible), which ends the run.
package external

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/userfile"
)

const (
	// startLimit is the longest time until the greeting: interpreters take long to start on a busy
	// machine.
	startLimit = 10 * time.Second
	// endLimit is how long a program may take to end after the end of its input. Tests set another.
	endLimit = time.Second
	// longest answer, in bytes. Blocks for 1,000 SMs take a tenth of it.
	longest = 64 << 10
	// quoted is how much of an answer an error has, in bytes, and of standard error.
	quoted, tailBytes = 200, 2 << 10
)

// Policy is a program that decides. It is not safe for concurrent use.
type Policy struct {
	program  policies.Program
	proc     *child.Process
	in, out  *os.File
	answers  *bufio.Reader
	stderr   *tail
	greeting greeting
	asked    uint64
	places   int    // questions where something may go
	waits    int    // of these, how many it answered with: it waits
	latest   []byte // its latest answer
	err      error
	closed   bool
	endLimit time.Duration
	now      time.Duration // since the batch's arrival
	tick     time.Duration // when the program wants to act next; 0: it has not said
	ticked   time.Duration // when its latest tick was; 0: there was none
}

// Start starts the program and exchanges greetings. Close must follow a success. If the program starts and fails at its
// greeting, the policy has failed: Start returns it with its error, a schedulers.PolicyError, and Close does nothing.
func Start(program policies.Program) (*Policy, error) { return startWith(program, greeting.check) }

// startWith is Start of a program whose greeting is held to a check.
func startWith(program policies.Program, check func(greeting) error) (*Policy, error) {
	p := &Policy{program: program, stderr: &tail{}, endLimit: endLimit}
	if err := CheckFile(program.Path); err != nil {
		return nil, err
	}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start policy %s: %w", program.Path, unwrapped(userfile.NotStarted(program.Path, "", err)))
	}
	p.greeting = ask[greeting](p, startLimit, "greet", func(id uint64) any {
		return hello{id, "hello", first, schedulers.SlotsPerWarp}
	}, check)
	if p.err != nil {
		return p, p.err
	}
	if p.greeting.Promises == nil {
		p.greeting.Promises = []string{memoryHard}
	}
	return p, nil
}

// CheckFile refuses a file that cannot be a program.
func CheckFile(path string) error {
	if err := userfile.Check(path, 0); err != nil {
		return fmt.Errorf("policy %s: %w", path, unwrapped(err))
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return fmt.Errorf("policy %s: it is not executable (%w): run chmod +x on it, and let a script begin with a line such as #!/usr/bin/env python3", path, err)
	}
	return nil
}

// unwrapped is a file's error without its path.
func unwrapped(err error) error {
	if of := (*os.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

func (p *Policy) start() (err error) {
	path, err := filepath.Abs(p.program.Path) // a name without a slash would be looked for in PATH
	if err != nil {
		return err
	}
	cmd := exec.Command(path)
	cmd.Stderr = p.stderr
	cmd.WaitDelay = endLimit // for a child of its own that keeps standard error
	stdin, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	defer stdout.Close()
	cmd.Stdin, cmd.Stdout = stdin, stdout
	p.in, p.out, p.answers = in, out, bufio.NewReaderSize(out, longest)
	if p.proc, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	return nil
}

func (p *Policy) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	a := ask[placeAnswer](p, p.program.Timeout, about("place", t), func(id uint64) any {
		return placeQuestion{ID: id, Kind: "place", Now: p.time(), Task: p.taskOf(t), Latest: latestOf(v), Devices: p.devicesOf(v, &t)}
	}, func(a placeAnswer) error {
		switch {
		case !a.Device.there:
			return errors.New("it has no device: want a number, or null if the task must wait")
		case a.Device.number == nil:
			return nil
		}
		return p.checkPlace(t, a.at(), v)
	})
	if p.err != nil {
		return schedulers.Placement{}, false
	}
	p.places++
	if a.Device.number == nil {
		p.waits++
		return schedulers.Placement{}, false
	}
	return a.at().placement(), true
}

// latestOf is the device of the latest grant; nil before the first.
func latestOf(v schedulers.View) *int {
	if latest := v.Latest(); latest >= 0 {
		return &latest
	}
	return nil
}

// needs is what must be on the device for the task to start.
func (p *Policy) needs(t schedulers.Task) int64 {
	if p.greeting.TakesBack {
		return t.Needs()
	}
	return t.Bytes
}

// Tell tells the time.
func (p *Policy) Tell(now time.Duration) { p.now = max(p.now, now) }

// time is the time for questions of version 2.
func (p *Policy) time() *int64 {
	if p.greeting.Protocol < second {
		return nil
	}
	return new(p.now.Nanoseconds())
}

func (p *Policy) Stuck(waiting int) error {
	p.kill()
	p.err = schedulers.PolicyError{Err: fmt.Errorf("%s; requests that wait although nothing is on the node, where it said that it would place them: %d; an answer must depend on the question alone; %s",
		p.Answers(), waiting, p.stderr)}
	return p.err
}

// Answers says how often the program was asked and let a task wait.
func (p *Policy) Answers() string { return p.tally("where a task may go", "null") }

// tally says how often the program was asked something, and with what it lets wait.
func (p *Policy) tally(asked, wait string) string {
	text := fmt.Sprintf("policy %s: of %d questions %s it answered %d with %s, which is to wait", p.program.Path, p.places, asked, p.waits, wait)
	if p.latest != nil {
		text += "; its last answer was " + quote(p.latest)
	}
	return text
}

func (p *Policy) CanGrow(bytes int64, d schedulers.DeviceView) bool {
	if !slices.Contains(p.greeting.Asks, asksGrow) {
		return p.err == nil && (!p.promises(memoryHard) || bytes <= d.FreeBytes())
	}
	a := ask[growAnswer](p, p.program.Timeout, "grow a task by "+size.Text(bytes), func(id uint64) any {
		return growQuestion{id, "grow", p.time(), bytes, p.usageOf(d)}
	}, func(a growAnswer) error {
		switch {
		case a.Grow == nil:
			return errors.New("it has no grow: want true or false")
		case *a.Grow && p.promises(memoryHard) && bytes > d.FreeBytes():
			return fmt.Errorf("grow, where %s are free, and it promises %s", size.Text(d.FreeBytes()), memoryHard)
		}
		return nil
	})
	return p.err == nil && *a.Grow
}

func (p *Policy) Reshape(t schedulers.Task, at schedulers.Placement, d schedulers.DeviceView) schedulers.Placement {
	if !slices.Contains(p.greeting.Asks, asksReshape) {
		return at
	}
	a := ask[placeAnswer](p, p.program.Timeout, about("reshape", t), func(id uint64) any {
		return reshapeQuestion{id, "reshape", p.time(), p.taskOf(t), placementOf(at), p.usageOf(d)}
	}, func(a placeAnswer) error {
		switch {
		case a.Device.number == nil || *a.Device.number != at.Device:
			return fmt.Errorf("the task must stay on device %d", at.Device)
		case a.WholeMemory != at.WholeMemory:
			return fmt.Errorf("whole_memory must stay %t", at.WholeMemory)
		}
		return p.checkPlacement(t, a.at(), d)
	})
	if p.err != nil {
		return at
	}
	return a.at().placement()
}

func (p *Policy) Err() error { return p.err }

// Promises are what the program said in its greeting that it keeps to.
type Promises struct {
	MemoryHard      bool // it puts no more on a device than fits
	PlacesWhatFits  bool // a task goes if its memory fits on an open device
	OneJobPerDevice bool
}

// Promises are the program's.
func (p *Policy) Promises() Promises {
	return Promises{p.promises(memoryHard), p.promises(placesWhatFits), p.promises(oneJobPerDevice)}
}

func (p *Policy) promises(what string) bool { return slices.Contains(p.greeting.Promises, what) }

func about(what string, t schedulers.Task) string {
	return fmt.Sprintf("%s task %d of job %d", what, t.ID, t.Job)
}

// ask asks the program and waits for its answer, no longer than limit. If there is none, or if
// check refuses it, the policy fails. what says in an error what the program was asked to do.
func ask[Answer interface{ id() *uint64 }](p *Policy, limit time.Duration, what string, question func(id uint64) any, check func(Answer) error) (a Answer) {
	if p.err != nil {
		return a
	}
	id := p.asked
	p.asked++
	line, err := p.exchange(question(id), limit)
	if err == nil {
		if a, err = read[Answer](line, id); err == nil {
			err = check(a)
		}
		if err != nil {
			err = fmt.Errorf("its answer %s is not valid: %w", quote(line), err)
		}
	}
	if err != nil {
		p.fail(what, err)
		return a
	}
	if id > 0 { // not the greeting
		p.latest = append(p.latest[:0], line[:min(len(line), quoted+1)]...)
	}
	return a
}

// exchange writes a question and reads the line that answers it.
func (p *Policy) exchange(question any, limit time.Duration) ([]byte, error) {
	text, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(limit)
	err = errors.Join(p.in.SetWriteDeadline(until), p.out.SetReadDeadline(until))
	if err != nil {
		return nil, err
	}
	if _, err = p.in.Write(append(text, '\n')); err != nil && !errors.Is(err, syscall.EPIPE) {
		return nil, tooLate(err, limit, nil)
	}
	// After EPIPE too: the program may have said why it ended.
	line, err := p.answers.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("its answer %s is longer than %s", quote(line), size.Text(longest))
	case err != nil:
		return nil, tooLate(err, limit, line)
	}
	return line, nil
}

// errEnded is the end of a program's output, which is closed if the program runs on.
var errEnded = errors.New("it gave no answer and ended")

const closed = "it gave no answer and closed its standard output"

// tooLate says what the error of a pipe means, and what the program had said by then.
func tooLate(err error, limit time.Duration, said []byte) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it gave no answer within %v", limit)
	default:
		err = errEnded
	}
	if len(said) > 0 {
		err = fmt.Errorf("%w; it had said %s", err, quote(said))
	}
	return err
}

// quote is the begin of a text, on one line.
func quote(text []byte) string {
	text = []byte(strings.TrimSuffix(string(text), "\n"))
	if len(text) > quoted {
		return fmt.Sprintf("%q...", text[:quoted])
	}
	return fmt.Sprintf("%q", text)
}

// fail ends the program and keeps why.
func (p *Policy) fail(what string, why error) {
	status := ""
	if errors.Is(why, errEnded) { // it closed its output, and may be about to exit
		p.awaitEnd()
	}
	killed := p.kill()
	if err := p.proc.Err(); !killed && err != nil {
		status = fmt.Sprintf(" (%v)", err)
	}
	if killed && errors.Is(why, errEnded) {
		why = errors.New(strings.Replace(why.Error(), errEnded.Error(), closed, 1))
	}
	before := ""
	if p.latest != nil {
		before = fmt.Sprintf("; it had answered %d questions, the last with %s", p.asked-2, quote(p.latest))
	}
	p.err = schedulers.PolicyError{Err: fmt.Errorf("policy %s: asked to %s: %w%s%s; %s", p.program.Path, what, why, status, before, p.stderr)}
}

// awaitEnd gives the program time to end, and reports whether it did.
func (p *Policy) awaitEnd() bool {
	limit := time.NewTimer(p.endLimit)
	defer limit.Stop()
	select {
	case <-p.proc.Done():
		return true
	case <-limit.C:
		return false
	}
}

// kill ends the program if it runs, and reports whether it did.
func (p *Policy) kill() (running bool) {
	select {
	case <-p.proc.Done():
	default:
		running = true
		_ = p.proc.Kill() // it is gone if this fails
	}
	p.closed = true
	_, _ = p.in.Close(), p.out.Close()
	return running
}

// Close ends the program's input and waits for its end. A program that does not end soon is killed.
// It is an error if the program fails after its last answer; not if Err has one already.
func (p *Policy) Close() error {
	if p.closed {
		return nil
	}
	_ = p.in.Close()
	ended := p.awaitEnd()
	p.kill()
	if err := p.proc.Err(); ended && err != nil {
		return fmt.Errorf("policy %s: it ended with an error after its last answer (%w); %s", p.program.Path, err, p.stderr)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
	cut  bool
}

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text, t.cut = append(t.text[:0], t.text[over:]...), true
	}
	return len(text), nil
}

// String says what is kept, on one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch text := strings.TrimSpace(string(t.text)); {
	case text == "":
		return "it wrote nothing to stderr"
	case t.cut:
		return fmt.Sprintf("its stderr ends with %q", text)
	default:
		return fmt.Sprintf("its stderr: %q", text)
	}
}

var (
	_ schedulers.Fallible = (*Policy)(nil)
	_ schedulers.Timed    = (*Policy)(nil)
)
