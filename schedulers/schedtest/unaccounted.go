package schedtest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// looks is what looks at the devices have shown of processes, by device. Nodes of tests have contexts that are so small that
// engine.Slack is 0.
type looks []map[schedulers.Process]*looked

// looked is what the latest two looks have shown of a process.
type looked struct {
	used, above int64 // the latest
	tasks       int64 // that it was charged then
	charged     int64
	entered     bool    // only looks have shown that it has a context
	may         []int64 // what it may be charged since the latest look
}

func newLooks(devices int) looks {
	l := make(looks, devices)
	for i := range l {
		l[i] = map[schedulers.Process]*looked{}
	}
	return l
}

// account is what the books know of a process on the device of a look.
type processAccount struct {
	here      bool  // it has a context
	elsewhere bool  // and one on another device
	tasks     int64 // bytes
	moving    bool  // some of them may be on their way there, or to the host
}

// take enters a look at a device, at which processes that are not in uses have nothing. It returns the processes that have a context
// there since, and those that have none any more. The books do not know of each byte that a process gave back between two looks;
// after a look that comes at once it gave nothing back.
func (l looks) take(device int, context int64, uses []engine.Use, atOnce bool, of func(schedulers.Process) processAccount) (enters, leaves []schedulers.Process) {
	all := slices.Clone(uses)
	for _, p := range slices.SortedFunc(maps.Keys(l[device]), byProcess) {
		if !slices.ContainsFunc(uses, func(u engine.Use) bool { return u.Process == p }) {
			all = append(all, engine.Use{Process: p})
		}
	}
	for _, u := range all {
		x := l[device][u.Process]
		if x == nil {
			x = &looked{}
			l[device][u.Process] = x
		}
		a := of(u.Process)
		above := max(0, u.Bytes-sum(context, a.tasks))
		if a.moving {
			above = max(above, x.charged)
		}
		if !a.here && min(x.used, u.Bytes) > 0 {
			x.entered = true
			enters = append(enters, u.Process)
		}
		if x.entered && x.used == 0 && u.Bytes == 0 {
			leaves = append(leaves, u.Process)
			delete(l[device], u.Process)
			continue
		}
		switch low := min(x.above, above); {
		case !a.here || x.entered || a.elsewhere || a.tasks < x.tasks:
			x.may = []int64{low}
		case atOnce:
			x.may = []int64{above}
		default:
			x.may = []int64{low, above}
		}
		x.used, x.above, x.tasks = u.Bytes, above, a.tasks
	}
	return enters, leaves
}

// enter tells the engine of a look at a device, and takes over what it charges.
func (l looks) enter(rt *rapid.T, e *engine.Engine, device int, uses []engine.Use, now time.Duration) ([]schedulers.Decision, error) {
	decisions, err := e.Used(device, uses, now)
	charges := e.Unaccounted(device)
	for p, x := range l[device] {
		if x.charged = charges[p]; !slices.Contains(x.may, x.charged) {
			rt.Fatalf("a look at device %d charges process %d of job %d %d bytes, want one of %d", device, p.Serial, p.Job, x.charged, x.may)
		}
	}
	return decisions, err
}

func byProcess(a, b schedulers.Process) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Serial, b.Serial))
}

// granted notes that a process has a task on a device.
func (l looks) granted(device int, p schedulers.Process) {
	if x := l[device][p]; x != nil {
		x.entered = false
	}
}

func (l looks) forget(gone func(schedulers.Process) bool) {
	for _, of := range l {
		maps.DeleteFunc(of, func(p schedulers.Process, _ *looked) bool { return gone(p) })
	}
}

// charged is the unaccounted memory on a device of the jobs in beside.
func (l looks) charged(device int, beside func(schedulers.JobID) bool) (bytes int64) {
	for p, x := range l[device] {
		if beside(p.Job) {
			bytes += x.charged
		}
	}
	return bytes
}

// contexts is the number of contexts on a device that only looks have shown.
func (l looks) contexts(device int) (n int64) {
	for _, x := range l[device] {
		if x.entered {
			n++
		}
	}
	return n
}

// drawUses draws what a look shows of some of the processes. Many use nothing that is not accounted.
func drawUses(rt *rapid.T, processes []schedulers.Process, context int64, of func(schedulers.Process) processAccount) (uses []engine.Use) {
	for _, p := range processes {
		if rapid.IntRange(0, 3).Draw(rt, "is seen") == 0 {
			continue
		}
		u := engine.Use{Process: p, Bytes: rapid.Int64Range(0, 60).Draw(rt, "uses")}
		if a := of(p); a.tasks < math.MaxInt32 && a.here && rapid.Bool().Draw(rt, "beside what is charged") {
			u.Bytes += context + a.tasks
		}
		uses = append(uses, u)
	}
	return uses
}

// checkRoom checks that nothing was granted on a device that has less than it is charged. A task that has the whole device may grow.
func checkRoom(rt *rapid.T, decisions []schedulers.Decision, e *engine.Engine, whole func(schedulers.TaskID) bool) {
	for _, d := range decisions {
		grants := d.Kind == schedulers.Granted || d.Kind == schedulers.Resumed || d.Kind == schedulers.Grown && !whole(d.Task.ID)
		if grants && e.View().Device(d.Device).FreeBytes() < 0 {
			rt.Fatalf("%v of task %d on device %d, which is charged %d bytes more than it has", d.Kind, d.Task.ID, d.Device, -e.View().Device(d.Device).FreeBytes())
		}
	}
}

// sum is of sizes that are not negative; it stops at the largest integer.
func sum(a, b int64) int64 { return min(a, math.MaxInt64-b) + b }

// look looks at a device once or twice. Processes use more than they were granted, or use devices where they have no task.
func (m *machine) look(rt *rapid.T) {
	i := rapid.IntRange(0, len(m.devices)-1).Draw(rt, "device")
	of := func(p schedulers.Process) (a processAccount) {
		a.here = m.books.contexts[i][p]
		for o := range m.devices {
			a.elsewhere = a.elsewhere || o != i && m.books.contexts[o][p]
		}
		for _, e := range m.books.on(i) {
			if e.task.Process() == p {
				a.tasks = sum(a.tasks, e.bytes)
			}
		}
		return a
	}
	seen, alone := maps.Clone(m.books.contexts[i]), m.rules.OneJobPerDevice
	for job := range m.books.jobsOn(i) {
		alone = alone || m.books.isolates(job, i)
	}
	for _, e := range m.books.entries {
		if m.books.living[e.task.Job] && !alone && !e.task.Several() {
			seen[e.task.Process()] = true
		}
	}
	for n := range rapid.IntRange(1, 2).Draw(rt, "looks") {
		uses := drawUses(rt, slices.SortedFunc(maps.Keys(seen), byProcess), m.devices[i].ContextBytes, of)
		enters, leaves := m.books.looks.take(i, m.devices[i].ContextBytes, uses, n > 0, of)
		for _, p := range enters {
			m.books.contexts[i][p] = true
		}
		for _, p := range leaves {
			delete(m.books.contexts[i], p)
		}
		m.books.leave()
		m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) {
			return m.books.looks.enter(rt, e, i, uses, m.now)
		})
	}
}

// look looks at a device once or twice.
func (m *swapping) look(rt *rapid.T) {
	i := rapid.IntRange(0, len(m.devices)-1).Draw(rt, "device")
	of := func(p schedulers.Process) (a processAccount) {
		_, a.here = m.contexts[i][p]
		for o := range m.devices {
			_, there := m.contexts[o][p]
			a.elsewhere = a.elsewhere || o != i && there
		}
		for v := range m.engine.View().Device(i).TaskViews() {
			if v.Task.Process() == p {
				t := m.tasks[v.Task.ID]
				a.tasks += v.Resident
				a.moving = a.moving || t.revoked != nil || v.ResidentSince > t.gave && m.now < v.ResidentSince+time.Duration(v.Resident)*time.Second>>30
			}
		}
		for _, t := range m.movesTo(i) {
			if t.task.Process() == p {
				a.here, a.moving = true, true
				a.tasks += t.revoked.Revocation.Bytes
			}
		}
		return a
	}
	seen := map[schedulers.Process]bool{}
	for p := range m.contexts[i] {
		seen[p] = true
	}
	for _, t := range m.tasks {
		seen[t.task.Process()] = true
	}
	for n := range rapid.IntRange(1, 2).Draw(rt, "looks") {
		uses := drawUses(rt, slices.SortedFunc(maps.Keys(seen), byProcess), m.devices[i].ContextBytes, of)
		enters, leaves := m.looks.take(i, m.devices[i].ContextBytes, uses, n > 0, of)
		for _, p := range enters {
			m.contexts[i][p] = false
		}
		for _, p := range leaves {
			delete(m.contexts[i], p)
		}
		m.both(rt, func(e *engine.Engine) ([]schedulers.Decision, error) { return m.looks.enter(rt, e, i, uses, m.now) })
	}
}
