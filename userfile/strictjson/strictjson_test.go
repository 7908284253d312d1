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
