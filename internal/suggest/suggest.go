// Package suggest finds the intended name for a misspelt or shortened one.
package suggest

import "strings"

const (
	// maxLength bounds the names that Closest compares.
	maxLength = 64
	// minPrefix is the least length at which the beginning of a name selects that name.
	minPrefix = 2
	// tooFar is the distance from which on two names are unrelated.
	tooFar = 3
)

// Closest returns the most likely intended name for typed, or "" if no name is close. A prefix of only one
// name selects that name. Otherwise the name of the least distance is returned, if at most half of it
// differs.
func Closest(typed string, names []string) string {
	if name := onlyWithPrefix(typed, names); name != "" {
		return name
	}
	best := ""
	changes := tooFar
	for _, name := range names {
		if len(typed) > maxLength || len(name) > maxLength {
			continue
		}
		d := distance(typed, name)
		if d < changes && 2*d <= len(name) {
			best = name
			changes = d
		}
	}
	return best
}

func onlyWithPrefix(prefix string, names []string) (found string) {
	if len(prefix) < minPrefix {
		return ""
	}
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if found != "" && found != name {
			return ""
		}
		found = name
	}
	return found
}

// distance counts the insertions, deletions, changes and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1,
				rows[i][j-1]+1,
				rows[i-1][j-1]+cost)
			if i > 1 && j > 1 &&
				a[i-1] == b[j-2] &&
				a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
