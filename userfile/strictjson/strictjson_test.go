package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

// own reads its JSON itself.
type own struct{ text string }

func (o *own) UnmarshalJSON(text []byte) error {
	o.text = string(text)
	return nil
}

type inner struct {
	Bytes int `json:"bytes"`
	Same  int `json:"same"`
}

type outer struct {
	inner
	ID     *int             `json:"id"`
	Plain  int              // its name is its key
	Same   string           `json:"same"`
	List   []inner          `json:"list"`
	ByName map[string]inner `json:"by_name"`
	Own    own              `json:"own"`
	Any    any              `json:"any"`
	Inner  *inner           `json:"inner,omitempty"`
}

func TestCheckKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:   "",
		`null`: "",
		`{"id": 1, "bytes": 2, "same": "x", "Plain": 3, "list": [{"bytes": 1}, {"bytes": 1}], "any": {"a": {"A": 1}, "A": [1, {}]}}`: "",
		`{"by_name": {"bytes": {"bytes": 1}, "Bytes": {"bytes": 1}}, "own": {"ID": 1, "id": 2}, "inner": {"bytes": 1}}`:              "",
		`{"unknown": 1, "other": {"id": 1, "ID": 2}}`: "",

		`{"id": 1, "id": 1}`: `"id" is there twice`,
		`{"id": 1, "ID": 2}`: `"ID" must be written "id"`,
		`{"Id": 1}`:          `"Id" must be written "id"`,
		`{"plain": 1}`:       `"plain" must be written "Plain"`,
		`{"BYTES": 1}`:       `"BYTES" must be written "bytes"`,
		`{"list": [{"bytes": 1}, {"bytes": 1, "bytes": 2}]}`: `"bytes" is there twice`,
		`{"list": [{"Bytes": 1}]}`:                           `"Bytes" must be written "bytes"`,
		`{"by_name": {"a": {}, "a": {}}}`:                    `"a" is there twice`,
		`{"by_name": {"a": {"Bytes": 1}}}`:                   `"Bytes" must be written "bytes"`,
		`{"inner": {"bytes": 1, "Bytes": 1}}`:                `"Bytes" must be written "bytes"`,
		`{"any": {"a": 1, "a": 2}}`:                          `"a" is there twice`,
		`{"own": {"a": [{"b": 1, "b": 2}]}}`:                 `"b" is there twice`,
		`{"\u0069d": 1, "id": 2}`:                            `"id" is there twice`,
		`{"ſame": 1}`:                                        `must be written "same"`, // EqualFold, as encoding/json does
	} {
		var o outer
		if err := json.Unmarshal([]byte(text), &o); err != nil && want == "" {
			t.Errorf("%s: %v", text, err)
		}
		if err := CheckKeys([]byte(text), &o); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What encoding/json refuses is said without Go's types, and with the right article.
func TestErrorsArePlain(t *testing.T) {
	var v struct {
		N     uint16
		Big   *int64
		Ratio float64
		On    bool
		Text  string
		List  []struct{ Bytes int }
		By    map[string]int
	}
	for text, want := range map[string]string{
		`[]`:                        "it is an array: want an object",
		`"x"`:                       "it is a string: want an object",
		`true`:                      "it is true or false: want an object",
		`{"N": []}`:                 "N is an array: want a whole number from 0 to 65535",
		`{"N": {}}`:                 "N is an object: want a whole number from 0 to 65535",
		`{"N": -1}`:                 "N is the number -1: want a whole number from 0 to 65535",
		`{"N": 1.5}`:                "N is the number 1.5: want a whole number from 0 to 65535",
		`{"Big": "7"}`:              "Big is a string: want a whole number from -9223372036854775808 to 9223372036854775807",
		`{"Ratio": "7"}`:            "Ratio is a string: want a number",
		`{"Ratio": 1e400}`:          "Ratio is the number 1e400: want a smaller number",
		`{"On": 1}`:                 "On is a number: want true or false",
		`{"Text": false}`:           "Text is true or false: want a string",
		`{"List": {}}`:              "List is an object: want an array",
		`{"List": [{"Bytes": []}]}`: "List.Bytes is an array: want a whole number from -9223372036854775808 to 9223372036854775807",
		`{"By": []}`:                "By is an array: want an object",
		`x`:                         "invalid character 'x' looking for beginning of value",
	} {
		if err := Plainly(json.Unmarshal([]byte(text), &v)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := Plainly(nil); err != nil {
		t.Error(err)
	}
}
