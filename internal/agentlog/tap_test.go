package agentlog

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
)

func newLogger(level hclog.Level) (hclog.InterceptLogger, *bytes.Buffer) {
	var out bytes.Buffer
	return hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "berth", Level: level, Output: &out}), &out
}

func follow(t *testing.T, l hclog.Logger, o TapOptions) *Tap {
	t.Helper()
	tap, err := OpenTap(l, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tap.Close)
	return tap
}

// next returns lines that are there already.
func next(t *testing.T, tap *Tap) string { return string(tap.Next(t.Context(), time.Minute)) }

func TestTap_HasALevelOfItsOwn(t *testing.T) {
	l, out := newLogger(hclog.Error)
	before := l.Named("before")
	l.Error("earlier")
	tap := follow(t, l, TapOptions{Level: hclog.Debug})
	before.With("node", "n1").Debug("staging")
	l.Trace("too fine")
	got := next(t, tap)
	if !strings.Contains(got, "[DEBUG] berth.before: staging: node=n1") || strings.Count(got, "\n") != 1 {
		t.Errorf("the lines are %q, want the one of level debug since the start", got)
	}
	if strings.Contains(out.String(), "staging") {
		t.Error("the log has the line below its level")
	}
}

func TestTap_TellsASlowReaderOfItsLoss(t *testing.T) {
	for _, isJSON := range []bool{false, true} {
		l, _ := newLogger(hclog.Info)
		tap := follow(t, l, TapOptions{Level: hclog.Info, JSON: isJSON})
		big := strings.Repeat("x", maxWaiting/3)
		for range 5 { // two fit
			l.Info(big)
		}
		l.Info("small")
		got := next(t, tap)
		lines := strings.Split(strings.TrimSpace(got), "\n")
		if len(lines) != 4 {
			t.Fatalf("got %d lines, want two, a note and the last one", len(lines))
		}
		if !strings.Contains(lines[2], "reader was too slow") || !strings.Contains(lines[3], "small") {
			t.Errorf("the last lines are %q", lines[2:])
		}
		if isJSON {
			var note struct{ Lines int }
			if err := json.Unmarshal([]byte(lines[2]), &note); err != nil || note.Lines != 3 {
				t.Errorf("the note is %s (%v), want 3 lines", lines[2], err)
			}
		}
		if len(got) > maxWaiting+1000 {
			t.Errorf("%d bytes waited, want at most %d", len(got), maxWaiting)
		}
	}
}

func TestTap_EndsWithTheContextAndTheTime(t *testing.T) {
	l, _ := newLogger(hclog.Info)
	tap := follow(t, l, TapOptions{Level: hclog.Info})
	if got := tap.Next(t.Context(), time.Millisecond); got != nil {
		t.Errorf("without a line: %q", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := tap.Next(ended, time.Hour); got != nil {
		t.Errorf("after the end: %q", got)
	}
	if !Following() {
		t.Error("nobody follows the log, want one reader")
	}
	tap.Close()
	tap.Close()
	if Following() {
		t.Error("somebody follows the log after Close")
	}
	l.Info("late")
	if got := tap.Next(t.Context(), time.Millisecond); got != nil {
		t.Errorf("after Close: %q", got)
	}
}

func TestOpen_RejectsALoggerWithoutTaps(t *testing.T) {
	_, err := OpenTap(hclog.New(&hclog.LoggerOptions{Output: io.Discard}), TapOptions{})
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v, want a failed precondition", err)
	}
}
