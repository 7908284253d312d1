package mps

import (
	"bufio"
	"io"
	"os"
	"regexp"
	"strconv"
	"time"
)

// tornDown matches the server's line for each client that a fault takes down. The server writes
// the line within 3 ms of the fault, before any client gets an error (H200, driver 580). The
// processes that it names did not cause the fault.
var tornDown = regexp.MustCompile(`^\[(\S+ \S+) .*\} on device (\d+) to be torn down`)

// logTime is the servers' format of a line's time, which is in the machine's time zone.
const logTime = "2006-01-02 15:04:05.000"

// WatchFaults calls seen once for each fatal fault and each of its devices, until done is closed.
// device is the number in the order of Config.Devices, at the time at which the server logged the
// fault.
func (d *Daemon) WatchFaults(done <-chan struct{}, seen func(device int, at time.Time)) error {
	return d.watchFaults(done, time.Now, seen)
}

func (d *Daemon) watchFaults(done <-chan struct{}, now func() time.Time, seen func(device int, at time.Time)) error {
	log, err := os.Open(d.logFile("output"))
	if err != nil {
		return err
	}
	defer log.Close()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	lines := bufio.NewReader(log)
	part := "" // the beginning of a line that is still being written
	for {
		told := map[int]bool{} // by device: the lines of one fault come together
		for {
			text, err := lines.ReadString('\n')
			part += text
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			if m := tornDown.FindStringSubmatch(part); m != nil {
				if device, err := strconv.Atoi(m[2]); err == nil && !told[device] {
					told[device] = true
					seen(device, wroteAt(m[1], now()))
				}
			}
			part = ""
		}
		select {
		case <-poll.C:
		case <-done:
			return nil
		}
	}
}

// wroteAt returns the time of a line that was read now; now if the line's time is implausible.
func wroteAt(text string, now time.Time) time.Time {
	const longest = time.Second // from writing to reading
	at, err := time.ParseInLocation(logTime, text, time.Local)
	if ago := now.Sub(at); err != nil || ago < 0 || ago > longest {
		return now
	}
	return now.Add(-now.Sub(at)) // with a monotonic reading
}
