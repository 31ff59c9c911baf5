// Package typo finds what somebody meant who misspelt a name.
package suggest

import "strings"

// tooFar is the number of changes from which on two names have nothing to do with each other, and so have
// those of which more than a half is changed.
const tooFar = 3

// longest is the length beyond which a name is no slip of a finger, and not looked at.
const longest = 64

// Nearest is the name that was most likely meant, "" when none is near. The beginning of exactly one name means
// that name.
func Nearest(typed string, names []string) string {
	if name := onlyOne(typed, names); name != "" {
		return name
	}
	best, changes := "", tooFar
	for _, name := range names {
		if len(typed) > longest || len(name) > longest {
			continue
		}
		if d := distance(typed, name); d < changes && 2*d <= len(name) {
			best, changes = name, d
		}
	}
	return best
}

// shortest is the length from which on the beginning of a name says which one is meant.
const shortest = 2

func onlyOne(typed string, names []string) (found string) {
	if len(typed) < shortest {
		return ""
	}
	for _, name := range names {
		if strings.HasPrefix(name, typed) {
			if found != "" && found != name {
				return ""
			}
			found = name
		}
	}
	return found
}

// distance counts the letters to insert, remove, change or swap with their neighbour to make b of a.
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
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
