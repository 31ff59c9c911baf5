package structs

import (
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// JoinFaults makes one text with a line for each of the first MaxFaults faults, and the number of the others.
func JoinFaults(faults []string) string {
	var l errorLines
	for _, f := range faults {
		l.addLine(f)
	}
	return l.String()
}

// errorLines keeps the first MaxFaults lines and counts the others.
type errorLines struct {
	lines []string
	more  int
}

// full reports whether further lines are only counted.
func (l *errorLines) full() bool {
	return len(l.lines) >= MaxFaults
}

// addLine adds a line. It shows control characters as escapes.
func (l *errorLines) addLine(line string) {
	if l.full() {
		l.more++
		return
	}
	l.lines = append(l.lines, Printable(line))
}

// String returns the lines, followed by the number of the others; "" for none.
func (l *errorLines) String() string {
	text := strings.Join(l.lines, "\n")
	if l.more > 0 {
		text += "\nand " + strconv.Itoa(l.more) + " more"
	}
	return text
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

// quotable cuts the texts among the arguments of a fault, which come from outside.
func quotable(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case ownText:
			out[i] = v
		case error:
			out[i] = Cut(v.Error(), 2*MaxQuoted)
		default:
			out[i] = arg
			if r := reflect.ValueOf(arg); r.Kind() == reflect.String {
				out[i] = Cut(r.String(), MaxQuoted)
			}
		}
	}
	return out
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
