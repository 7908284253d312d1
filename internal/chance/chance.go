// Package chance has the seeds of tests that draw what they try. They draw the same in the gate and in
// the full tier, so that a rare defect does not meet whoever submits next. In the soak they draw from
// the seed that CASERUN_SOAK is set to: with the same seed a round of the soak is made again.
package chance

import (
	"flag"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Variable is the environment variable that a round of the soak sets to its seed, a number above 0.
const Variable = "CASERUN_SOAK"

// Seed is 0, and in the soak the round's seed. Tests add it to seeds of their own.
func Seed() uint64 {
	text := os.Getenv(Variable)
	if text == "" {
		return 0
	}
	seed, err := strconv.ParseUint(text, 10, 32)
	if err != nil || seed == 0 {
		panic(fmt.Sprintf("%s=%s: give a number from 1 to 4294967295", Variable, text))
	}
	return seed
}

// Count is how often a test draws: few times, and many times in the soak.
func Count(few, many int) int {
	if Seed() == 0 {
		return few
	}
	return many
}

// Seeds are seeds 0, 1, 2 and so on for a test: a few of them, and in the soak many others.
func Seeds(t *testing.T, few, many int) iter.Seq[uint64] {
	t.Helper()
	first := Seed() << 32
	t.Cleanup(func() {
		if t.Failed() && first != 0 {
			t.Logf("repeat with %s=%d", Variable, Seed())
		}
	})
	return func(yield func(uint64) bool) {
		for i := range uint64(Count(few, many)) {
			if !yield(first + i) {
				return
			}
		}
	}
}

// Check is rapid.Check with the seed of this package, and ten times as many draws in the soak. The
// flags of rapid, and its environment variables, go before both.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	CheckTimes(t, 100, 1000, property)
}

// CheckTimes is Check for properties that take long: it draws few times, and many times in the soak. Tests that
// run at the same time draw as often as one of them.
func CheckTimes(t *testing.T, few, many int, property func(*rapid.T)) {
	t.Helper()
	for name, value := range map[string]uint64{"seed": Seed() + 1, "checks": uint64(Count(few, many))} {
		if given()[name] {
			continue
		}
		if err := flag.Set("rapid."+name, strconv.FormatUint(value, 10)); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, property)
}

// given has the settings of rapid that the user has made.
var given = sync.OnceValue(func() map[string]bool {
	made := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { made[strings.TrimPrefix(f.Name, "rapid.")] = true })
	for _, name := range []string{"seed", "checks"} {
		if _, set := os.LookupEnv("RAPID_" + strings.ToUpper(name)); set {
			made[name] = true
		}
	}
	return made
})
