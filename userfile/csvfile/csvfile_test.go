package csvfile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type record struct {
	name  string
	s     float64
	bytes int64
	part  *float64
}

var format = Format[record]{Record: "thing", Earlier: 2, Key: func(r record) string { return fmt.Sprintf("name %q", r.name) }, Columns: []Column[record]{
	Text("name", func(r *record) *string { return &r.name }, true),
	Duration("length_s", func(r *record) *float64 { return &r.s }),
	Number("bytes", func(r *record) *int64 { return &r.bytes }),
	Fraction("part", func(r *record) **float64 { return &r.part }),
}}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	third, none := 1.0/3, 0.0
	want := []record{{"a, \"b\"\nc", 1e-9, 1 << 62, &third}, {"d", third, 0, &none}, {name: "e"}}
	var text bytes.Buffer
	w := format.NewWriter(&text)
	for _, r := range want {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := format.Read("f.csv", &text)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	got, err = format.Read("f.csv", strings.NewReader("name,length_s\na,2\n"))
	if diff := cmp.Diff([]record{{name: "a", s: 2}}, got, cmp.AllowUnexported(record{})); err != nil || diff != "" {
		t.Errorf("an earlier file: %v\n%s", err, diff)
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	head := strings.Join(format.Header(), ",") + "\n"
	for text, want := range map[string]string{
		"":                                   "f.csv:1: want the header name,length_s,bytes,part",
		"name\n":                             "f.csv:1: want the header",
		"name,length_s,bytes\n":              "f.csv:1: want the header",
		head + "a,1,,\nb,1\n":                "f.csv:3: 2 fields, want 4",
		head + "a,1,,\nb,1,,\na,2,,\n":       `f.csv:4: duplicate name "a" (first in line 2): remove one`,
		head + ",1,,\n":                      `f.csv:2: name is "": want a value`,
		head + "a,-1,,\n":                    `f.csv:2: length_s is "-1": want seconds`,
		head + "a,NaN,,\n":                   `f.csv:2: length_s is "NaN": want seconds`,
		head + "a,1_0,,\n":                   `f.csv:2: length_s is "1_0": want seconds`,
		head + "a,0x1p3,,\n":                 `f.csv:2: length_s is "0x1p3": want seconds`,
		head + "a,1e8,,\n":                   `f.csv:2: length_s is "1e8": want seconds`,
		head + "a,1,1e9,\n":                  `f.csv:2: bytes is "1e9": want a whole number`,
		head + "a,1,,1.5\n":                  `f.csv:2: part is "1.5": want a number from 0 to 1, or nothing`,
		head + "\"a\nb\",1,,\n\"c\nd\",1,x,": `f.csv:5: bytes is "x"`,
		head + "a,\"b\n":                     "f.csv:2: not CSV",
	} {
		if _, err := format.Read("f.csv", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
