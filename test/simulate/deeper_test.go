package simulate

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// deeper are sequences beyond the depth of TestInterleavings, by plot. Whether a short one finds the same
// depends on the delays.
var deeper = map[string][]string{
	"lease": {"cut n0, time, time, cut n1, leader, time, back n0"}, // a renewal that shortens a lease
}

func TestSequences_BeyondTheDepth(t *testing.T) {
	for i, p := range plots {
		for _, names := range deeper[p.name] {
			x := &exploration{t: t, plot: i, log: io.Discard}
			s := x.run(movesOf(t, names))
			if s.w.violations > 0 || s.idle {
				t.Errorf("%s: %s: without effect: %v; %s", p.name, names, s.idle, strings.Join(s.w.texts, "\n"))
			}
		}
	}
}

// movesOf reads a sequence of events.
func movesOf(t *testing.T, names string) (moves []move) {
	t.Helper()
	for name := range strings.SplitSeq(names, ", ") {
		i := slices.IndexFunc(allMoves, func(m move) bool { return m.String() == name })
		if i < 0 {
			t.Fatalf("there is no event %q; they are %v", name, allMoves)
		}
		moves = append(moves, allMoves[i])
	}
	return moves
}
