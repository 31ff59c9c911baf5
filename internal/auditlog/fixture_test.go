package auditlog

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/test/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the surroundings of a log.
type world struct {
	testing.TB
	dir    string
	stdout kit.Output
	log    kit.Output

	mu  sync.Mutex
	now time.Time
}

func newWorld(t testing.TB) *world {
	return &world{
		TB:  t,
		dir: t.TempDir(),
		now: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
	}
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// path returns the path of a file in the directory of the log.
func (w *world) path(name string) string { return filepath.Join(w.dir, "audit", name) }

// open opens a log with sinks, a file if there are none.
func (w *world) open(sinks ...*Sink) *Log {
	w.Helper()
	l, err := w.tryOpen(sinks...)
	kit.Must(w, err)
	return l
}

func (w *world) tryOpen(sinks ...*Sink) (*Log, error) {
	w.Helper()
	c := Config{Enabled: true, Sinks: sinks}
	c.Finish(w.dir)
	kit.Must(w, c.Validate())
	l, err := Open(c, w.deps())
	w.Cleanup(l.Close)
	return l, err
}

func (w *world) deps() Deps {
	return Deps{
		Agent:  "agent-1",
		Logger: hclog.New(&hclog.LoggerOptions{Output: &w.log}),
		Now:    w.time,
		Stdout: &w.stdout,
	}
}

// change writes both lines of a change.
func (w *world) change(l *Log, id string) {
	w.Helper()
	e := &Event{Kind: KindChange, RequestID: id}
	kit.Must(w, l.Begin(w.Context(), e))
	e.Result = "ok"
	l.End(w.Context(), e)
}

// lines returns the request IDs of a file, each with r for received and c for complete.
func (w *world) lines(path string) string {
	w.Helper()
	b, err := os.ReadFile(path)
	kit.Must(w, err)
	return idsOf(w, string(b))
}

func idsOf(t testing.TB, text string) string {
	t.Helper()
	if text != "" && !strings.HasSuffix(text, "\n") {
		t.Errorf("the last line has no end: %q", text)
	}
	var ids []string
	for line := range strings.Lines(text) {
		var e Event
		if json.Unmarshal([]byte(line), &e) != nil {
			ids = append(ids, "?")
			continue
		}
		ids = append(ids, e.RequestID+map[string]string{Received: "r", Complete: "c"}[e.Stage])
	}
	return strings.Join(ids, " ")
}

// files returns the names in the directory of the log.
func (w *world) files() (names []string) {
	w.Helper()
	entries, err := os.ReadDir(w.path(""))
	kit.Must(w, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// fakeSink notes the writes that it gets. Each waits for a turn.
type fakeSink struct {
	entered chan struct{} // a value for each write that begins
	turns   chan error    // its result

	mu     sync.Mutex
	writes []string

	opened, closed int   // after it has become the sink
	fault          error // of the opening
}

func newFakeSink() *fakeSink {
	return &fakeSink{entered: make(chan struct{}, 100), turns: make(chan error, 100)}
}

func (s *fakeSink) prepare() error {
	s.opened++
	return s.fault
}

func (s *fakeSink) close() { s.closed++ }

func (s *fakeSink) write(lines []byte) error {
	s.entered <- struct{}{}
	err := <-s.turns
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writes = append(s.writes, string(lines))
	}
	return err
}

func (s *fakeSink) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

var errFake = errors.New("the disk is away")

// withFake returns a log whose only sink is a fake.
func (w *world) withFake(guarantee string) (*Log, *fakeSink) {
	w.Helper()
	l := w.open(&Sink{Name: "fake", Type: TypeStdout, DeliveryGuarantee: guarantee})
	s := newFakeSink()
	l.sinks[0].sink = s
	return l, s
}
