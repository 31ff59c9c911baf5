package spelling

import (
	"strings"
	"testing"
)

func TestClosest_FindsAMisspeltName(t *testing.T) {
	names := []string{"job", "node", "volume", "system", "id"}
	for typed, want := range map[string]string{
		"jbo":                     "job",
		"jobs":                    "job",
		"volum":                   "volume",
		"nodes":                   "node",
		"sytsem":                  "system",
		"job":                     "job",
		"zzz":                     "",
		"":                        "",
		"xy":                      "",
		"foo":                     "", // two changes turn "job" into it, which is more than half
		strings.Repeat("job", 40): "",
	} {
		if got := Closest(typed, names); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
	if got := Closest("x", nil); got != "" {
		t.Errorf("without names: got %q, want nothing", got)
	}
}

func TestClosest_CompletesAPrefixOfOneName(t *testing.T) {
	names := []string{"volume", "version", "eval"}
	for typed, want := range map[string]string{"vol": "volume", "ve": "version", "v": "", "vo": "volume"} {
		if got := Closest(typed, names); got != want {
			t.Errorf("prefix %q: got %q, want %q", typed, got, want)
		}
	}
}

func TestHint_NamesTheIntendedNameOrAll(t *testing.T) {
	for typed, want := range map[string]string{
		"comand": `did you mean "command"?`,
		"image":  "expected command, args",
	} {
		if got := Hint(typed, []string{"command", "args"}); got != want {
			t.Errorf("%s: got %s, want %s", typed, got, want)
		}
	}
}
