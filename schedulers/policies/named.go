package policies

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caserun/caserun/schedulers"
)

// maxArm bounds a user's name for a scheduler, which is a column of tables.
const maxArm = 40

// NamesHelp says what a user's name for a scheduler may be.
const NamesHelp = "letters, digits and any of . _ + -, a letter or a digit first"

// checkArm refuses a name for a scheduler that could not be told from another text where runs are selected.
func checkArm(name, scheduler string) error {
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._+-", r)
	}
	first, _ := utf8.DecodeRuneInString(name)
	isScheduler := slices.ContainsFunc(Listed(), func(s Info) bool { return strings.EqualFold(s.Name, name) }) // CG is read as cg
	switch {
	case name == "":
		return errors.New("a name stands before :=, as in fifo:=case-alg3:queue=fifo")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, odd) || strings.ContainsRune("._+-", first):
		return fmt.Errorf("the name %q: want %s", name, NamesHelp)
	case utf8.RuneCountInString(name) > maxArm:
		return fmt.Errorf("the name is of %d characters: want %d at most", utf8.RuneCountInString(name), maxArm)
	case scheduler == "":
		return fmt.Errorf("a scheduler follows :=, as in %s:=case-alg3:queue=fifo", name)
	case isScheduler && name != scheduler:
		return fmt.Errorf("%s is the name of a scheduler: choose another name, such as my-%[1]s", name)
	}
	if _, _, twice := schedulers.CutName(scheduler); twice {
		return errors.New("it has two names: leave one out")
	}
	return nil
}

// NameMeant is a hint for a text NAME=SCHEDULER or NAME=SCHEDULER:key=value, which lacks the colon of a name; empty for another text.
func NameMeant(text string) string {
	name, scheduler, assigned := strings.Cut(text, "=")
	registered, _, _ := strings.Cut(scheduler, ":")
	if _, is := registry[registered]; !assigned || !is || checkArm(name, scheduler) != nil {
		return ""
	}
	return fmt.Sprintf("a name takes :=, as in %s:=%s", name, scheduler)
}
