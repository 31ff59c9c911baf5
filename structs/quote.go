package structs

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// JoinFaults makes one text with a line for each of the first MaxFaults faults, and the number of the others.
func JoinFaults(faults []string) string {
	var f Faults
	for _, line := range faults {
		f.Add(line)
	}
	return f.String()
}

// Faults keeps the first MaxFaults faults and counts the others.
type Faults struct {
	lines []string
	more  int
}

// Full reports whether further faults are only counted.
func (f *Faults) Full() bool {
	return len(f.lines) >= MaxFaults
}

// Add adds a fault. It shows control characters as escapes.
func (f *Faults) Add(line string) {
	if f.Full() {
		f.more++
		return
	}
	f.lines = append(f.lines, Printable(line))
}

// Lines returns the faults, followed by the number of faults that are only counted; nil for none.
func (f *Faults) Lines() []string {
	if f.more == 0 {
		return slices.Clone(f.lines)
	}
	return append(slices.Clone(f.lines), "and "+strconv.Itoa(f.more)+" more")
}

// String returns the lines of Lines; "" for none.
func (f *Faults) String() string {
	return strings.Join(f.Lines(), "\n")
}

// Err returns nil without faults, else one error of kind invalid with the lines of Lines.
func (f *Faults) Err() error {
	if len(f.lines) == 0 {
		return nil
	}
	return Invalidf("%s", f.String())
}

// Cut returns a text, or at most its first max bytes with an ellipsis.
func Cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max] + "…"
}

// Printable shows as escapes every character that a terminal could take for a command, or that hides the
// order in which a text reads. Line ends and tabs stay.
func Printable(s string) string {
	if !strings.ContainsFunc(s, unprintable) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for at, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[at:], "\uFFFD"):
			b.WriteString("\\x" + strconv.FormatUint(uint64(s[at]), 16))
		case unprintable(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool {
	return r != '\n' && r != '\t' &&
		(unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}
