package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// failing is an output that fails while broken is set.
type failing struct {
	text   strings.Builder
	broken bool
}

func (f *failing) Write(p []byte) (int, error) {
	if f.broken {
		return 0, errors.New("broken pipe")
	}
	return f.text.Write(p)
}

func TestLogger_SaysHowManyLinesAreLost(t *testing.T) {
	synctest.Test(t, losesLines) // so that no line waits for the scheduler
}

func losesLines(t *testing.T) {
	cfg := DefaultConfig()
	out := &failing{}
	logger, closeLog, err := newLogger(&cfg, out)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog()
	logger.Info("first")
	out.broken = true
	logger.Info("second")
	logger.Info("third")
	out.broken = false
	logger.Info("fourth")
	if text := out.text.String(); !strings.Contains(text, "log: 2 lines are lost, they could not be written: broken pipe\n") ||
		!strings.Contains(text, "fourth") {
		t.Errorf("got the log %q", text)
	}
}
