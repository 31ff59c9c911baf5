// Package spelling compares names as people write them: it finds the intended one for a misspelt or
// shortened one, and matches names with patterns. It is apart: the supervisor of tasks needs it, so it
// imports little.
package spelling

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
)

const (
	// maxLength bounds the text that Closest compares with the names.
	maxLength = 64
	// minPrefix is the least length at which the beginning of a name selects that name.
	minPrefix = 2
	// tooFar is the distance from which on two names are unrelated.
	tooFar = 3
)

// Closest returns the most likely intended name for typed, or "" if no name is close. A prefix of only one
// name selects that name. Otherwise the name of the least distance is returned, if at most half of it
// differs, or if it begins with the same letter.
func Closest(typed string, names []string) string {
	if name := onlyWithPrefix(typed, names); name != "" {
		return name
	}

	if len(typed) > maxLength {
		return ""
	}

	best := ""
	changes := tooFar
	for _, name := range names {
		d := levenshtein.Distance(typed, name, nil)
		if d < changes && (2*d <= len(name) || typed != "" && typed[0] == name[0]) {
			best = name
			changes = d
		}
	}

	return best
}

// Hint returns the remedy for a name that is none of the names: the intended one, or all.
func Hint(typed string, names []string) string {
	if near := Closest(typed, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "expected " + strings.Join(names, ", ")
}

func onlyWithPrefix(prefix string, names []string) (found string) {
	if len(prefix) < minPrefix {
		return ""
	}

	for _, name := range names {
		switch {
		case !strings.HasPrefix(name, prefix) || name == found:
		case found != "":
			return ""
		default:
			found = name
		}
	}

	return found
}
