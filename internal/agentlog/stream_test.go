package agentlog

import (
	"errors"
	"strings"
	"testing"
)

// disk is a writer that takes some more bytes.
type disk struct {
	text strings.Builder
	free int
}

var errFull = errors.New("no space left")

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.free)
	d.free -= n
	d.text.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestStream_CountsLostLinesAndSaysSoWhenItCanAgain(t *testing.T) {
	d := &disk{free: 1000}
	s := NewStream(d)
	write := func(line string, want error) {
		t.Helper()
		_, err := s.Write([]byte(line + "\n"))
		if !errors.Is(err, want) {
			t.Errorf("writing %q: got %v, want %v", line, err, want)
		}
	}

	write("one", nil)
	d.free = 2
	write("two", errFull) // in part
	write("three", errFull)
	d.free = 9 // the sentence of the loss is there in part
	write("four", errFull)
	d.free = 1000
	write("five", nil)
	write("six", nil)

	want := "one\ntw\nlog: 2 l\nlog: 3 lines are lost, they could not be written: no space left\nfive\nsix\n"
	if got := d.text.String(); got != want {
		t.Errorf("got the log\n%s\nwant\n%s", got, want)
	}

	d.free = 0
	write("seven", errFull)
	d.free = 1000
	write("eight", nil)
	if want := "six\nlog: 1 lines are lost"; !strings.Contains(d.text.String(), want) {
		t.Errorf("got the log\n%s\nwithout %q", d.text.String(), want)
	}
}
