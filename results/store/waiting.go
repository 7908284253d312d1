package store

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a program waits for another one before somebody is told.
const patience = time.Second

// whileWaiting tells which process keeps this one from writing to the store at path, unless stop is called soon. tell may
// be nil.
func whileWaiting(path string, tell func(what string)) (stop func()) {
	return unlessSoon(tell, func() string {
		return fmt.Sprintf("store %s: waiting for %s, which writes to it, for %v at most", path, writerOf(path), lockPatience)
	})
}

func unlessSoon(tell func(what string), what func() string) (stop func()) {
	if tell == nil {
		return func() {}
	}
	timer := time.AfterFunc(patience, func() { tell(what()) })
	return func() { timer.Stop() }
}

// The bytes that SQLite locks to write: of the file beside a store with a write-ahead log
// (https://www.sqlite.org/walformat.html#wal_locks), and of a store without one.
const (
	walWriteByte = 120
	reservedByte = 0x40000000 + 1
)

// writerOf names the process that writes to the store at path, if the kernel tells.
func writerOf(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return anotherProgram
	}
	defer locks.Close()
	wal, file := inodeOf(path+"-shm"), inodeOf(path)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: POSIX  ADVISORY  WRITE 4711 08:02:1234 120 120
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[3] != "WRITE" {
			continue
		}
		inode := f[5][strings.LastIndex(f[5], ":")+1:]
		if inode == wal && covers(f[6], f[7], walWriteByte) || inode == file && covers(f[6], f[7], reservedByte) {
			return processNamed(f[4])
		}
	}
	return anotherProgram
}

const anotherProgram = "another program"

// inodeOf is a file's number as /proc/locks has it; "" without a file.
func inodeOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(s.Ino, 10)
}

// covers reports whether a lock from first to last is on a byte.
func covers(first, last string, at int64) bool {
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil || from > at {
		return false
	}
	to, err := strconv.ParseInt(last, 10, 64)
	return last == "EOF" || err == nil && to >= at
}

// processNamed is "process 4711 (caserun, which is stopped)".
func processNamed(pid string) string {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return anotherProgram
	}
	var name, stopped string
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch {
		case key == "Name":
			name = value
		case key == "State" && strings.HasPrefix(value, "T"):
			stopped = ", which is stopped"
		}
	}
	return fmt.Sprintf("process %s (%s%s)", pid, name, stopped)
}
