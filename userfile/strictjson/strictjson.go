// Package strictjson finds keys that encoding/json takes and that its reader does not mean. encoding/json takes a key
// twice, of which the last counts, and in any case. It also says plainly what encoding/json refuses.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// CheckKeys refuses a text with a key twice in one object, and with a key of the value's type in another case. The value is
// a pointer that encoding/json has read the text into.
func CheckKeys(text []byte, value any) error {
	return check(json.NewDecoder(bytes.NewReader(text)), reflect.TypeOf(value))
}

// check reads one value. The type is nil where nothing is known of it.
func check(d *json.Decoder, t reflect.Type) error {
	begin, err := d.Token()
	if err != nil {
		return err
	}
	for t != nil && t.Kind() == reflect.Pointer && !reads(t) {
		t = t.Elem()
	}
	switch begin {
	case json.Delim('['):
		for d.More() {
			if err := check(d, element(t)); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := object(d, t); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err = d.Token() // the end
	return err
}

func object(d *json.Decoder, t reflect.Type) error {
	var fields map[string]reflect.Type
	if t != nil && t.Kind() == reflect.Struct && !reads(t) && !reads(reflect.PointerTo(t)) {
		fields = map[string]reflect.Type{}
		fieldsOf(t, fields)
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // it is one in an object
		if seen[key] {
			return fmt.Errorf("the key %.100q is there twice: remove one", key)
		}
		seen[key] = true
		of, known := fields[key]
		for name := range fields {
			if !known && strings.EqualFold(name, key) {
				return fmt.Errorf("the key %.100q must be written %q", key, name)
			}
		}
		if fields == nil {
			of = element(t)
		}
		if err := check(d, of); err != nil {
			return err
		}
	}
	return nil
}

// element is the type of a list's or a map's values.
func element(t reflect.Type) reflect.Type {
	if t != nil && !reads(t) && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map) {
		return t.Elem()
	}
	return nil
}

// reads reports whether a type reads its own JSON.
func reads(t reflect.Type) bool { return t.Implements(reflect.TypeFor[json.Unmarshaler]()) }

// fieldsOf adds the names that encoding/json knows of a structure. An outer field hides an embedded one.
func fieldsOf(t reflect.Type, into map[string]reflect.Type) {
	var embedded []reflect.Type
	for f := range t.Fields() {
		tag, tagged := f.Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
		case f.Anonymous && name == "":
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				embedded = append(embedded, inner)
			}
		case !f.IsExported():
		case !tagged || name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
	for _, t := range embedded {
		inner := map[string]reflect.Type{}
		fieldsOf(t, inner)
		for name, of := range inner {
			if _, hidden := into[name]; !hidden {
				into[name] = of
			}
		}
	}
}

// Plainly returns an error of encoding/json without the names of Go's types: "blocks is an array: want a whole number".
func Plainly(err error) error {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	field := kind.Field
	if field == "" {
		field = "it"
	}
	if strings.HasPrefix(kind.Value, "number ") && (kind.Type.Kind() == reflect.Float64 || kind.Type.Kind() == reflect.Float32) {
		return fmt.Errorf("%s is the %s: want a smaller number", field, kind.Value)
	}
	return fmt.Errorf("%s is %s: want %s", field, found(kind.Value), wanted(kind.Type))
}

// found names a value as encoding/json calls it, such as "array" or "number 1.5".
func found(value string) string {
	switch {
	case value == "array" || value == "object":
		return "an " + value
	case value == "bool":
		return "true or false"
	case strings.HasPrefix(value, "number "):
		return "the " + value
	}
	return "a " + value
}

func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case kind == reflect.Bool:
		return "true or false"
	case kind >= reflect.Int && kind <= reflect.Uint64:
		low, high := bounds(t)
		return "a whole number from " + low + " to " + high
	case kind == reflect.Float32 || kind == reflect.Float64:
		return "a number"
	case kind == reflect.String:
		return "a string"
	case kind == reflect.Slice || kind == reflect.Array:
		return "an array"
	}
	return "an object"
}

// bounds are the least and the greatest whole number of a type.
func bounds(t reflect.Type) (low, high string) {
	if t.Kind() >= reflect.Uint {
		return "0", fmt.Sprint(uint64(1)<<t.Bits() - 1)
	}
	most := uint64(1)<<(t.Bits()-1) - 1
	return fmt.Sprint(-int64(most) - 1), fmt.Sprint(most)
}
