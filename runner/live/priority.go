package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/schedulers"
)

// priorities is how jobs get host priorities.
type priorities struct {
	base int // nice value of this process, which is that of level 0
	// autogroup: the kernel shares cores among sessions first, and each job is one. The nice
	// values of processes count only within their session then, and its own is in
	// /proc/PID/autogroup. In a cgroup that limits cores it is the other way round (sched(7)), so jobs get both.
	autogroup bool
}

// CanPrioritize tries what the jobs will need: to raise a priority
// again that was lowered.
func (x *Executor) CanPrioritize() error {
	var err error
	x.priorities, err = probePriorities()
	return err
}

func probePriorities() (p priorities, err error) {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return p, fmt.Errorf("read this process's priority: %w", err)
	}
	p.base = 20 - raw // getpriority(2): the system call itself returns 20 - nice
	s := startSpawner()
	s.do(func() { // on a thread that ends here, because its priority may stay as it is
		thread := unix.Gettid()
		if err = unix.Setpriority(unix.PRIO_PROCESS, thread, p.value(1)); err == nil {
			err = unix.Setpriority(unix.PRIO_PROCESS, thread, p.base)
		}
	})
	s.close()
	if err != nil {
		return p, fmt.Errorf("raise a priority that was lowered: %w: it takes CAP_SYS_NICE, or a limit for nice (ulimit -e) of %d", err, raw)
	}
	enabled, err := os.ReadFile("/proc/sys/kernel/sched_autogroup_enabled")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if p.autogroup = strings.TrimSpace(string(enabled)) == "1"; p.autogroup {
		return p, probeAutogroup()
	}
	return p, nil
}

// probeAutogroup sets what is set, twice: without CAP_SYS_ADMIN the kernel takes only ten changes a second, of all users.
func probeAutogroup() error {
	text, err := os.ReadFile("/proc/self/autogroup")
	if err != nil {
		return err
	}
	var group, nice int
	if _, err := fmt.Sscanf(string(text), "/autogroup-%d nice %d", &group, &nice); err != nil {
		return fmt.Errorf("read /proc/self/autogroup: %q: %w", text, err)
	}
	for range 2 {
		if err := writeAutogroup("self", nice); err != nil {
			return fmt.Errorf("set an autogroup's priority as often as jobs need: %w: it takes CAP_SYS_ADMIN", err)
		}
	}
	return nil
}

func writeAutogroup(process string, nice int) error {
	f, err := os.OpenFile("/proc/"+process+"/autogroup", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(nice))
	return errors.Join(err, f.Close())
}

// value is the nice value of a level.
func (p priorities) value(level int) int { return min(p.base+level, schedulers.NiceLevels-1) }

// give gives a level to the processes of a job's group, and to those that they will start.
func (p priorities) give(to *process, level int) error {
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.gone {
		return nil
	}
	err := unix.Setpriority(unix.PRIO_PGRP, to.pid, p.value(level))
	if p.autogroup {
		err = errors.Join(err, writeAutogroup(strconv.Itoa(to.pid), level))
	}
	return err
}

// Prioritize carries out runner.Prioritize.
func (x *Executor) Prioritize(job, nice int) {
	x.spawn.do(func() { // after the job's start
		x.mu.Lock()
		ranks := x.procs[job]
		x.mu.Unlock()
		for _, p := range ranks { // those that started
			if err := x.priorities.give(p, nice); err != nil && !p.over() {
				x.config.Warn("job %d does not get host priority %d: %v", x.number(job), nice, err)
			}
		}
	})
}
