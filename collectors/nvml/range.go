package nvml

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/caserun/caserun/internal/size"
)

// Drivers answer numbers that cannot be while a GPU is reset or falls off the bus, such as 4294967295 percent. A reading outside of
// the range that is physically possible is unknown, and counts as a failed call.

const (
	// maxPowerW is more than any GPU draws: modules of 2025 draw up to 1.4 kW.
	maxPowerW = 5000
	// maxEnergyJ is maxPowerW for 30 years, longer than any driver stays loaded.
	maxEnergyJ = maxPowerW * 30 * 365 * 24 * 3600.0
	// maxClockMHz is more than any GPU's clock.
	maxClockMHz = 20_000
	// maxCores is more than any GPU has: modules of 2025 have 20,480.
	maxCores = 1 << 20
	// memoryTries is how often a device's memory is read, because nothing can be done without it.
	memoryTries = 3
	// maxMemory is more than any GPU has, 1 PiB.
	maxMemory = 1 << 50
	// counterRefresh is more than the time between two refreshes of an energy counter, which step by what was used meanwhile.
	counterRefresh = time.Second
	// ratioSlack is what a ratio that is computed from floating-point numbers may exceed 1 by.
	ratioSlack = 0.005
	// clockSlack is how far ahead of this program's clock the driver may stamp a sample.
	clockSlack = time.Second
)

// errOutOfRange is wrapped if a driver answered a number that cannot be.
var errOutOfRange = errors.New("out of the physical range")

func outOfRange(what string, value any) error {
	return fmt.Errorf("the driver answered %s of %v: %w", what, value, errOutOfRange)
}

func capabilityInRange(major, minor int) error {
	if major < 1 || major > 99 || minor < 0 || minor > 9 {
		return outOfRange("a compute capability", fmt.Sprintf("%d.%d", major, minor))
	}
	return nil
}

func percentInRange(what string, percents ...int) error {
	for _, p := range percents {
		if p < 0 || p > 100 {
			return outOfRange(what, fmt.Sprintf("%d %%", p))
		}
	}
	return nil
}

func ratioInRange(what string, ratio float64) error {
	if !(ratio >= 0 && ratio <= 1+ratioSlack) { // NaN too
		return outOfRange(what, ratio)
	}
	return nil
}

func powerInRange(milliwatts uint64) error {
	if milliwatts > maxPowerW*1000 {
		return outOfRange("a power", fmt.Sprintf("%.0f W", float64(milliwatts)/1000))
	}
	return nil
}

// usedInRange compares with the device's memory; 0: it is unknown.
func usedInRange(bytes, total uint64) error {
	if total == 0 {
		total = maxMemory
	}
	if bytes > total {
		used, has := size.Apart(bytes, total)
		return outOfRange("memory in use", fmt.Sprintf("%s, more than the device has (%s)", used, has))
	}
	return nil
}

// CheckUse returns an error if one of the device's processes has more memory than the device.
func (d Device) CheckUse(found []Process) error {
	for _, p := range found {
		if p.UsedBytes == nil {
			continue
		}
		if err := usedInRange(*p.UsedBytes, d.Memory.Total); err != nil {
			return fmt.Errorf("look at process %d on GPU %s: %w", p.PID, d.ID, err)
		}
	}
	return nil
}

func (m Memory) inRange() error {
	if m.Total == 0 || m.Total > maxMemory || m.Used > m.Total || m.Free > m.Total {
		return outOfRange("memory", fmt.Sprintf("%s in all, %s in use, %s free", size.Text(m.Total), size.Text(m.Used), size.Text(m.Free)))
	}
	return nil
}

// completed computes what is in use, or what is free, from the other two numbers if it cannot be as it was answered.
func (m Memory) completed() Memory {
	switch {
	case m.Total == 0 || m.Total > maxMemory:
	case m.Used > m.Total && m.Free <= m.Total:
		m.Used = m.Total - m.Free
	case m.Free > m.Total && m.Used <= m.Total:
		m.Free = m.Total - m.Used
	}
	return m
}

// counter looks at an energy counter's readings. It cannot rise faster than a GPU draws power. It does not look for a fall, because a
// driver that is loaded again begins at 0 (results.CounterFalls).
type counter struct {
	read    bool
	at      time.Duration
	mJ      uint64
	odd     bool // the last reading was refused, and was oddMJ
	oddMJ   uint64
	oddAt   time.Duration
	unknown bool          // the readings do not continue each other: none counts any more
	since   time.Duration // when mJ was read first
	stopped bool          // it stands still, and the device draws power: no reading counts any more
}

// stands reports whether the counter has stood still for longer than its refresh takes.
func (c *counter) stands() bool { return c.read && c.at-c.since > counterRefresh }

// inRange takes a reading.
func (c *counter) inRange(at time.Duration, mJ uint64) error {
	if c.stopped {
		return fmt.Errorf("the driver's energy counter stands still at %.2f J while the device draws power", float64(mJ)/1000)
	}
	continues := func(fromAt time.Duration, from uint64) bool {
		return mJ <= from || float64(mJ-from) <= 1000*maxPowerW*(at-fromAt+counterRefresh).Seconds()
	}
	if float64(mJ) <= 1000*maxEnergyJ && !c.unknown && (!c.read || continues(c.at, c.mJ)) {
		if !c.read || mJ != c.mJ {
			c.since = at
		}
		c.read, c.at, c.mJ, c.odd = true, at, mJ, false
		return nil
	}
	// A second reading that continues the refused one says that the reading before them was the wrong one.
	c.unknown = c.unknown || c.read && c.odd && mJ >= c.oddMJ && continues(c.oddAt, c.oddMJ)
	c.odd, c.oddAt, c.oddMJ = true, at, mJ
	return outOfRange("an energy counter", fmt.Sprintf("%.0f J", math.Round(float64(mJ)/1000)))
}
