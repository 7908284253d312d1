package mixes

import (
	"strings"
	"testing"
)

// A number of a mix has one spelling, names are text that can be seen, and those that look the same are the same.
func TestSpellingsInMixes(t *testing.T) {
	parse := func(job string) (Mix, error) {
		return parseYAML(newLines("f.yaml", strings.NewReader("jobs:\n  - {job: needle-16384, "+job+"}\n")), builtin().jobs, nil)
	}
	for _, number := range []string{"010", "+1", "0x10", "1_0", "0b1", "0o7", "' 1'", "1.0", "1e1", "''"} {
		for _, key := range []string{"count", "blocks", "threads_per_block", "memory", "priority", "group", "timeout", "wait", "max_wait", "deadline"} {
			unit := ""
			if key == "timeout" || strings.HasSuffix(key, "wait") || key == "deadline" {
				unit = "s"
			}
			if number == "1.0" && (unit != "" || key == "memory") {
				continue // which may have a fraction
			}
			value := strings.TrimSuffix(number, "'") + unit + strings.Repeat("'", strings.Count(number, "'")/2)
			if m, err := parse(key + ": " + value); err == nil {
				t.Errorf("%s: %s is read as %+v", key, value, m.Jobs[0])
			}
		}
	}
	for _, name := range []string{`"a\0"`, `"a\x1b[2J"`, `"a\u200b"`, `"a\u202eb"`, `"a\u0085"`, `"\ta"`, `''`, `' '`} {
		if _, err := parse("name: " + name); err == nil {
			t.Errorf("name %s is read", name)
		}
	}
	m, err := parse(`name: "nu\u0308t"`)
	if err != nil || m.Jobs[0].Name != "n\u00fct" {
		t.Errorf("the name is %+q (%v)", m.Jobs[0].Name, err)
	}
	for _, ratio := range []string{"03:1", "+3:1", "3:0x1", "3: 1", "3:1_0"} {
		if r, err := ParseRatio(ratio); err == nil {
			t.Errorf("ratio %q is read as %v", ratio, r)
		}
	}
}

// A program cannot have a NUL, and a path with another control character is a mistake.
func TestControlCharactersInMixes(t *testing.T) {
	for _, job := range []string{`program: "./a\0b"`, `program: "./a\nb"`, `program: "./a\x1b"`, `program: ./a, args: ["a\0"]`, `program: ./a, args: "a\0"`, `program: ./a, env: ["A=\0"]`,
		`program: ./a, env: ["A\0=b"]`, `program: ./a, dir: "a\0"`, `program: ./a, dir: "a\n"`, `program: ./a, stdin: "a\x7f"`, `steps: "a\0"`} {
		m, err := parseYAML(newLines("f.yaml", strings.NewReader("jobs:\n  - {"+job+"}\n")), builtin().jobs, nil)
		if err == nil {
			t.Errorf("%s is read as %+v", job, m.Jobs)
		}
	}
}
