package live

import (
	"cmp"
	"errors"
	"maps"
	"time"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

const (
	// lookEvery is the time between two looks at the processes on the devices, where what they use is compared.
	lookEvery = 100 * time.Millisecond
	// lookShare is the most that NVML's calls for a device take of a core. On an H200 a call takes 0.2 ms of processor time with one
	// process on the device, 0.6 ms with 11 and 1.7 ms with 32. What the run does with a look takes less than a thirtieth of that
	// (BenchmarkLook), and both together stay below 0.2 %.
	lookShare = 0.0019
	// hurryEvery is the least time between two looks when a process is out of memory.
	hurryEvery = 20 * time.Millisecond
	// looksToLeave is how many looks without a process end the context that looks have shown (engine.Used).
	looksToLeave = 2
)

// looks is what looks at the devices have shown.
type looks struct {
	users  users
	owners map[int]owner // of PIDs that the latest look showed
	told   []int         // by device: how many more looks without a process of the run the batch is told of
	began  time.Duration // when the first look was
	last   time.Duration // when the latest look began
	took   time.Duration // processor time of a look at one device, as a moving mean; 0: not known
	warm   bool          // a look has been made
	ours   bool          // PIDs are those that NVML has
	warned bool          // it was said that NVML does not know how much memory processes have
}

// owner is whose process a PID is.
type owner struct {
	job  int // -1: not known
	ours bool
	at   time.Duration // when that was found out
}

// watchUsers looks which processes use the devices, until the batch has ended.
func (x *Executor) watchUsers() {
	if x.config.Users == nil {
		return
	}
	l := &looks{users: users{seen: map[[2]int]*sight{}}, told: make([]int, len(x.config.UUIDs)), ours: inInitialNamespace()}
	defer func() {
		x.settleUsers(&l.users, true)
		x.noteUntold(&l.users)
	}()
	timer := time.NewTimer(l.pause(x.config.Compares))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			x.look(l)
			timer.Reset(l.pause(x.config.Compares))
		case <-x.hurry:
			if x.config.Compares && x.now()-l.last >= hurryEvery {
				x.look(l)
				timer.Reset(hurryEvery)
			}
		case <-x.loop.Done():
			return
		}
	}
}

// pause is how long it is to the next look.
func (l *looks) pause(compares bool) time.Duration {
	if !compares {
		return usersPeriod
	}
	return max(lookEvery, time.Duration(float64(l.took)/lookShare))
}

// cost takes in how much processor time looks at so many devices took. The first does not count, because the driver may prepare
// itself: one took 40 ms or more (H200), and the next came after 20 s. For the same reason one that is long for once counts little.
func (l *looks) cost(took time.Duration, devices int) {
	took /= time.Duration(devices)
	switch {
	case !l.warm:
		l.warm = true
	case l.took == 0:
		l.took = took
	default:
		l.took += (min(took, 2*l.took) - l.took) / 8
	}
}

// look looks at each device once.
func (x *Executor) look(l *looks) {
	now, total := x.now(), time.Duration(0)
	if l.last = now; l.began == 0 {
		l.began = now
	}
	known, owners := x.server.Known(), map[int]owner{}
	found, answered := make([][]nvml.Process, len(x.config.UUIDs)), []int{}
	for device := range found {
		processes, took, err := x.config.Users(device)
		if total += took; err != nil {
			if !errors.Is(err, nvml.ErrLost) { // the sampler says that
				l.users.err = cmp.Or(l.users.err, err)
			}
			continue
		}
		found[device], answered = processes, append(answered, device)
		for _, p := range processes {
			owners[p.PID] = x.ownerOf(l, p.PID, known, now)
		}
	}
	l.cost(total, len(found))
	l.owners = owners
	for device := range found {
		for _, p := range found[device] {
			x.sees(l, p.PID, device, now)
		}
	}
	x.settleUsers(&l.users, false)
	had := x.server.Holders()
	l.ours = l.ours || l.showsAll(had)
	for pid := range had {
		l.users.sure = l.users.sure || l.users.had[pid]
	}
	l.users.had = had
	if x.config.Compares && l.ours {
		for _, device := range answered {
			x.compare(l, device, found[device], known)
		}
	}
}

// showsAll reports whether the look shows each process that had memory at the look before and has some now. In another PID namespace
// it would not.
func (l *looks) showsAll(had map[int]bool) bool {
	lasting := maps.Clone(had)
	maps.DeleteFunc(lasting, func(pid int, _ bool) bool { return !l.users.had[pid] })
	for pid := range lasting {
		if _, shown := l.owners[pid]; !shown {
			return false
		}
	}
	return len(lasting) > 0
}

// ownerOf says whose process a PID is. It is asked again after some time if it was nobody's of the run.
func (x *Executor) ownerOf(l *looks, pid int, known map[int][]schedulers.Process, now time.Duration) owner {
	if p := known[pid]; len(p) > 0 {
		return owner{int(p[0].Job), true, now}
	}
	if o, asked := l.owners[pid]; asked && (o.job >= 0 || now-o.at < usersPeriod) {
		return o
	}
	job, ours := x.jobOf(pid)
	return owner{job, ours, now}
}

// compare tells the batch what processes of its jobs have on a device. A process with several copies of libcase.so is charged as
// several processes, and left out.
func (x *Executor) compare(l *looks, device int, found []nvml.Process, known map[int][]schedulers.Process) {
	var uses []engine.Use
	for _, p := range found {
		o := l.owners[p.PID]
		if o.job < 0 || len(known[p.PID]) > 1 {
			continue
		}
		if p.UsedBytes == nil {
			x.noteUnknownUse(l)
			continue
		}
		process := schedulers.Process{Job: schedulers.JobID(o.job)}
		if of := known[p.PID]; len(of) == 1 {
			process = of[0]
		}
		uses = append(uses, engine.Use{Process: process, Bytes: int64(*p.UsedBytes)})
	}
	if l.tells(device, len(uses) > 0) {
		x.post(runner.Used{Device: device, Uses: uses})
	}
}

// tells reports whether the batch is told of a look that shows processes of the run on a device, or shows that they have left.
func (l *looks) tells(device int, shown bool) bool {
	if shown {
		l.told[device] = looksToLeave
		return true
	}
	l.told[device]--
	left := l.told[device] >= 0
	l.told[device] = max(l.told[device], 0)
	return left
}

// noteUnknownUse says once that nothing can be compared.
func (x *Executor) noteUnknownUse(l *looks) {
	if l.warned {
		return
	}
	l.warned = true
	e := results.Event{Kind: results.EventSampler, Detail: "memory that no call shows cannot be seen: NVML does not know how much processes use, as in some containers and under WSL"}
	x.config.Warn("%s", e.Detail)
	x.note(e)
}
