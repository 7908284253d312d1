package store

import (
	"database/sql/driver"
	"reflect"
	"testing"

	"github.com/caserun/caserun/results"
)

// What goes without reflection becomes what database/sql makes of it.
func TestArgumentsAreThoseOfDatabaseSQL(t *testing.T) {
	number, large, real, text, outcome := 7, int64(1)<<40, 1.5, "text", results.OOM
	var noNumber *int
	var noLarge *int64
	var noReal *float64
	var noText *string
	var noOutcome *results.Outcome
	atNumber, atLarge, atReal, atText, atOutcome := &number, &large, &real, &text, &outcome
	unsigned, truth := uint64(3), true
	for _, field := range []any{&number, &large, &real, &text, &outcome, &atNumber, &atLarge, &atReal, &atText, &atOutcome,
		&noNumber, &noLarge, &noReal, &noText, &noOutcome, &unsigned, &truth, count{&number, true}, count{&number, false}} {
		got, err := argument(field)
		want, wantErr := driver.DefaultParameterConverter.ConvertValue(field)
		if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: %#v (%v), want %#v (%v)", field, got, err, want, wantErr)
		}
	}
	tooLarge := uint64(1) << 63
	if _, err := argument(&tooLarge); err == nil {
		t.Error("a number that SQLite does not have is taken")
	}
}
