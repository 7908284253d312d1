package sweep

import "testing"

// An item is checked once, so a file of 10,000 schedulers is read in linear time.
func TestDistinctChecksWhatIsNew(t *testing.T) {
	var d Distinct
	o := Options{Mixes: []string{"W1"}, Scheds: []string{"sa", "a:=cg"}}
	for range 2 {
		if key, err := d.Check(o); err != nil {
			t.Fatal(key, err)
		}
	}
	for item, want := range map[string]string{
		"sa":              "sa is named twice, which would be one arm: leave one out",
		"a:=cg:workers=2": "a is the name of cg and of cg:workers=2: give each a name of its own",
	} {
		again := o
		again.Scheds = append([]string{}, append(o.Scheds, item)...)
		for what, check := range map[string]*Distinct{"at once": {}, "later": {checked: d.checked, seen: d.seen, named: d.named}} {
			if key, err := check.Check(again); key != "scheds" || err == nil || err.Error() != want {
				t.Errorf("%s %s: %s: %v", item, what, key, err)
			}
		}
	}
}
