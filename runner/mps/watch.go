package mps

import (
	"bufio"
	"io"
	"os"
	"regexp"
	"strconv"
	"time"
)

// tornDown is the server's line for each client that a fault takes down. The server
// writes it within 3 ms of the fault, and before any client is told (H200, driver
// 580). The processes that it names are not those that did the harm.
var tornDown = regexp.MustCompile(`^\[(\S+ \S+) .*\} on device (\d+) to be torn down`)

// logTime is how the servers write a line's time, in the machine's time zone.
const logTime = "2006-01-02 15:04:05.000"

// WatchFaults calls seen with the number, in the order of Config.Devices, of each
// device on which the server handles a fatal fault, and when it wrote so, once for each
// fault and device, until done is closed.
func (d *Daemon) WatchFaults(done <-chan struct{}, seen func(device int, at time.Time)) error {
	log, err := os.Open(d.logFile("output"))
	if err != nil {
		return err
	}
	defer log.Close()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	lines := bufio.NewReader(log)
	part := "" // of a line that is being written
	for {
		told := map[int]bool{} // the lines of one fault come together
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
					seen(device, wroteAt(m[1]))
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

// wroteAt is the time of a line that has just been read; now where it cannot be that.
func wroteAt(text string) time.Time {
	const longest = time.Second // from writing to reading
	now := time.Now()
	at, err := time.ParseInLocation(logTime, text, time.Local)
	if ago := now.Sub(at); err != nil || ago < 0 || ago > longest {
		return now
	}
	return now.Add(-now.Sub(at)) // with a monotonic reading
}
