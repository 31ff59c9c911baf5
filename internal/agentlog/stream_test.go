package agentlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
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
	synctest.Test(t, countsLostLines) // so that no line waits for the scheduler
}

func countsLostLines(t *testing.T) {
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

// A reader that does not read, such as a stopped terminal, holds nothing up: each line but one returns at
// once.
func TestStream_GoesOnWhileNobodyReads(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	s := NewStream(writer)
	line := []byte(strings.Repeat("x", 1000) + "\n")
	lost := 0
	for lost < 3 { // a pipe takes some lines
		if _, err := s.Write(line); err != nil {
			lost++
		}
	}

	text := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(reader)
		text <- string(all)
	}()
	for { // until the line on its way has arrived
		if _, err := s.Write([]byte("last\n")); err == nil {
			break
		}
		lost++
	}
	if s.onItsWay { // on a busy machine
		<-s.pending
	}
	_ = writer.Close()
	want := fmt.Sprintf("x\nlog: %d lines are lost, they could not be written: nobody reads the log\nlast\n",
		lost)
	if got := <-text; !strings.HasSuffix(got, want) {
		t.Errorf("the log ends with\n%q\nwant\n%q", got[max(0, len(got)-len(want)):], want)
	}
}
