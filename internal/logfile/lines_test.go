package logfile

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lastLines is the plain model: the last n lines of a text.
func lastLines(text string, n int) string {
	parts := strings.SplitAfter(text, "\n")
	if parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return strings.Join(parts[max(0, len(parts)-n):], "")
}

func TestSearch_FindsTheLastLines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("a\n")), 1, 40, -1).Draw(rt, "text")
		// Long lines go over the border of a chunk.
		text = strings.ReplaceAll(text, "a", strings.Repeat("a", rapid.IntRange(1, chunk/8).Draw(rt, "long")))
		n := rapid.IntRange(1, 20).Draw(rt, "lines")
		cut := rapid.IntRange(0, len(text)-1).Draw(rt, "cut")
		s := LineSearch{Lines: n, Budget: 1 << 30}
		later, earlier := text[cut:], text[:cut]
		at, done, err := s.Back(strings.NewReader(later), int64(len(later)-1))
		got := later[at:]
		if err == nil && !done {
			at, _, err = s.Back(strings.NewReader(earlier), int64(len(earlier)))
			got = earlier[at:] + later
		}
		if want := lastLines(text, n); err != nil || got != want {
			rt.Fatalf("%d lines: got %d bytes, %v, want %d", n, len(got), err, len(want))
		}
	})
}

func TestSearch_StopsAtItsBudget(t *testing.T) {
	text := strings.Repeat("a", 3*chunk)
	s := LineSearch{Lines: 2, Budget: chunk + 5}
	at, done, err := s.Back(strings.NewReader(text), int64(len(text)))
	if want := int64(2*chunk - 5); at != want || !done || err != nil {
		t.Errorf("got %d, %t, %v, want the offset %d", at, done, err, want)
	}
	if s.Budget != 0 {
		t.Errorf("%d bytes are left of the budget", s.Budget)
	}
}
