package auditlog

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"
	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/structs"
	"berth/structs/access"
	"berth/test/kit"
)

func TestLog_WritesALineForEachStage(t *testing.T) {
	w := newWorld(t)
	l := w.open()
	e := &Event{
		Kind:    KindChange,
		Caller:  Caller{Accessor: "a\nb"},
		Objects: []Object{{Type: "volume", ID: "v"}},
	}
	kit.Must(t, l.Begin(t.Context(), e))
	want := `{"time":"2026-05-04T03:02:01Z","stage":"OperationReceived","kind":"change","agent":"agent-1",` +
		`"caller":{"accessor":"a\nb"},"objects":[{"type":"volume","id":"v"}]}` + "\n"
	b, err := os.ReadFile(w.path("audit.log"))
	if err != nil || string(b) != want {
		t.Errorf("got %q, %v, want %q", b, err, want)
	}

	e.Result = "ok"
	e.Index = 7
	e.Before = []any{map[string]string{"text": strings.Repeat("x", MaxLine)}}
	l.End(t.Context(), e)
	b, err = os.ReadFile(w.path("audit.log"))
	kit.Must(t, err)
	_, end, _ := strings.Cut(string(b), "\n")
	for _, part := range []string{`"stage":"OperationComplete"`, `"result":"ok","raft_index":7,"truncated":true}`} {
		if !strings.Contains(end, part) || len(end) > MaxLine {
			t.Errorf("the second line lacks %s: %.500q", part, end)
		}
	}
}

func TestLog_IsNoneUnlessItIsEnabled(t *testing.T) {
	l, err := Open(Config{}, Deps{})
	if l != nil || err != nil {
		t.Errorf("got %v, %v", l, err)
	}
	l.Reopen()
	l.Close()
}

func TestLog_HasTheClockAndTheOutputOfItsProcess(t *testing.T) {
	w := newWorld(t)
	c := Config{Enabled: true}
	c.Finish(w.dir)
	l, err := Open(c, Deps{Logger: hclog.NewNullLogger()})
	kit.Must(t, err)
	defer l.Close()
	e := &Event{RequestID: "x"}
	kit.Must(t, l.Begin(t.Context(), e))
	if e.Time.IsZero() || l.Stdout != os.Stdout {
		t.Errorf("the time is %s, and the output %v", e.Time, l.Stdout)
	}
}

// TestLog_AnEventWithoutAFormStopsTheChange has a row that JSON cannot have. Another event
// is left out by a filter.
func TestLog_AnEventWithoutAFormStopsTheChange(t *testing.T) {
	w := newWorld(t)
	l, s := w.withFake(Enforced)
	broken := &Event{Before: []any{func() {}}}
	for range 6 {
		s.turns <- nil // for the lines that must not be
	}
	if err := l.Begin(t.Context(), broken); !structs.IsKind(err, structs.KindInternal) {
		t.Errorf("got %v", err)
	}
	l.End(t.Context(), broken)
	l.Deny(t.Context(), broken)

	l.filters = []*Filter{{Stages: []string{"*"}}}
	kit.Must(t, l.Begin(t.Context(), &Event{}))
	l.End(t.Context(), &Event{})
	l.Deny(t.Context(), &Event{})
	l.takeBack(t.Context(), &Event{}, l.sinks, errFake)
	if writes := s.written(); len(writes) > 0 {
		t.Errorf("got the writes %q", writes)
	}
}

func TestLog_AnEventOfTheMostBytesKeepsItsRows(t *testing.T) {
	e := &Event{Before: []any{""}, After: []any{"after"}}
	line, err := e.line()
	kit.Must(t, err)
	space := MaxLine - len(line)
	for more, whole := range map[int]bool{0: true, 1: false} {
		e.Before[0] = strings.Repeat("x", space+more)
		line, err := e.line()
		kit.Must(t, err)
		if strings.Contains(string(line), "after") != whole || len(line) > MaxLine {
			t.Errorf("%d bytes more than fit: got a line of %d bytes", more, len(line))
		}
	}
}

func TestCallerOf_NamesTheTokenAndTheWorkload(t *testing.T) {
	bare := CallerOf(access.Caller{AccessorID: "a", Name: "n\n", Type: access.TypeClient})
	if bare != (Caller{Accessor: "a", Name: "n ", Type: access.TypeClient}) {
		t.Errorf("got %+v", bare)
	}
	is := CallerOf(access.Caller{Identity: &access.Identity{
		AllocID: "a", Namespace: "ns", JobID: "j", Group: "g", Task: "t", Service: "s",
	}})
	want := Identity{Alloc: "a", Namespace: "ns", Job: "j", Group: "g", Task: "t", Service: "s"}
	if is.Identity == nil || *is.Identity != want {
		t.Errorf("got %+v", is.Identity)
	}
}

// TestLog_ConcurrentLinesShareAWrite holds a first write while others come. They are one write then, and one
// more for those beyond the bound of a write.
func TestLog_ConcurrentLinesShareAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := newWorld(t).withFake(Enforced)
		var all sync.WaitGroup
		begin := func(id string) {
			all.Go(func() {
				err := l.Begin(t.Context(), &Event{RequestID: id})
				if err != nil {
					t.Error(err)
				}
			})
		}
		begin("first")
		<-s.entered
		for i := range maxBatch + 10 {
			begin(fmt.Sprint(i))
		}
		synctest.Wait()
		for range 3 {
			s.turns <- nil
		}
		all.Wait()
		writes := s.written()
		if len(writes) != 3 || strings.Count(writes[1], "\n") != maxBatch || strings.Count(writes[2], "\n") != 10 {
			t.Errorf("%d lines are in %d writes: %.300q", maxBatch+11, len(writes), writes)
		}
	})
}

// TestLog_AnEnforcedSinkThatHangsStopsTheChange has a disk that never answers.
func TestLog_AnEnforcedSinkThatHangsStopsTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, s := w.withFake(Enforced)
		stuck := make(chan error)
		go func() { stuck <- l.Begin(t.Context(), &Event{RequestID: "stuck"}) }()
		<-s.entered
		for range 3 {
			err := l.Begin(t.Context(), &Event{RequestID: "next"})
			if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("got %v", err)
			}
			l.End(t.Context(), &Event{RequestID: "owed"})
		}
		l.Reopen()
		if !strings.Contains(w.log.String(), "audit sink was not opened again") || s.opened != 0 {
			t.Errorf("the log of the agent does not tell of the reopening: %s", &w.log)
		}

		s.turns <- nil
		s.turns <- nil
		if err := <-stuck; err != nil {
			t.Errorf("the disk has answered: %v", err)
		}
		l.Reopen()
		if got := idsOf(t, strings.Join(s.written(), "")); got != "stuckr owedc owedc owedc" {
			t.Errorf("got the lines %q", got)
		}
	})
}

func TestLog_AnEnforcedSinkThatFailsStopsTheChange(t *testing.T) {
	w := newWorld(t)
	l, s := w.withFake(Enforced)
	s.turns <- errFake
	err := l.Begin(t.Context(), &Event{RequestID: "x"})
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), `sink "fake" is enforced and fails: the disk is away`) {
		t.Errorf("got %v", err)
	}

	s.turns <- errFake
	_ = l.Begin(t.Context(), &Event{RequestID: "y"})
	if n := strings.Count(w.log.String(), "audit sink failed"); n != 1 {
		t.Errorf("two faults in a row have %d lines in the log of the agent, want 1: %s", n, &w.log)
	}

	s.turns <- nil
	kit.Must(t, l.Begin(t.Context(), &Event{RequestID: "z"}))
	if got := idsOf(t, strings.Join(s.written(), "")); got != "zr" {
		t.Errorf("got the lines %q", got)
	}
	s.turns <- nil
	kit.Must(t, l.Begin(t.Context(), &Event{}))
	for _, text := range []string{"audit sink failed", "audit sink works again"} {
		if n := strings.Count(w.log.String(), text); n != 1 {
			t.Errorf("the log of the agent has %d lines %q, want 1: %s", n, text, &w.log)
		}
	}
}

// TestLog_ASinkThatHangsDoesNotKeepItOpen ends a log whose sink never answers.
func TestLog_ASinkThatHangsDoesNotKeepItOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, s := w.withFake(BestEffort)
		kit.Must(t, l.Begin(t.Context(), &Event{}))
		<-s.entered
		l.Close()
		if !strings.Contains(w.log.String(), "audit sink does not take its last lines") {
			t.Errorf("the log of the agent does not tell it: %s", &w.log)
		}
		s.turns <- nil
		synctest.Wait()
		l.sinks = nil // it is closed
	})
}

func TestLog_AnEnforcedSinkOwesTheEndOfAChange(t *testing.T) {
	w := newWorld(t)
	l, s := w.withFake(Enforced)
	s.turns <- nil
	e := &Event{RequestID: "x"}
	kit.Must(t, l.Begin(t.Context(), e))
	s.turns <- errFake
	l.End(t.Context(), e)
	s.turns <- errFake
	err := l.Begin(t.Context(), &Event{RequestID: "y"})
	if err == nil {
		t.Error("a change begins while the sink fails")
	}

	s.turns <- nil
	kit.Must(t, l.Begin(t.Context(), &Event{RequestID: "z"}))
	if got := idsOf(t, strings.Join(s.written(), "")); got != "xr xc zr" {
		t.Errorf("got the lines %q", got)
	}
}

func TestLog_WritesWhatItOwesAtAReopenAndAtTheEnd(t *testing.T) {
	for name, then := range map[string]func(*Log){"reopen": (*Log).Reopen, "close": (*Log).Close} {
		w := newWorld(t)
		l, s := w.withFake(Enforced)
		s.turns <- errFake
		l.End(t.Context(), &Event{RequestID: "x"})
		s.turns <- nil
		then(l)
		if got := idsOf(t, strings.Join(s.written(), "")); got != "xc" {
			t.Errorf("%s: got the lines %q", name, got)
		}
		if s.closed != 1 || (s.opened == 1) != (name == "reopen") {
			t.Errorf("%s: the sink was closed %d times and opened %d times", name, s.closed, s.opened)
		}
		if name == "close" {
			l.sinks = nil
		}
	}
}

// TestLog_NamesTheFaultOfAReopening has a sink that does not open, and writes nothing to it.
func TestLog_NamesTheFaultOfAReopening(t *testing.T) {
	w := newWorld(t)
	l, s := w.withFake(Enforced)
	s.turns <- errFake
	l.End(t.Context(), &Event{RequestID: "x"})
	s.turns <- nil
	kit.Must(t, l.Begin(t.Context(), &Event{}))
	s.fault = errFake
	l.Reopen()
	if n := strings.Count(w.log.String(), "audit sink failed"); n != 2 {
		t.Errorf("the log of the agent has %d faults, want that of the write and of the reopening: %s", n, &w.log)
	}
}

// TestLog_CountsLines has the metrics of a sink, with its name.
func TestLog_CountsLines(t *testing.T) {
	counts := counted(t)
	w := newWorld(t)
	l, s := w.withFake(Enforced)
	o := l.sinks[0]
	s.turns <- nil
	kit.Must(t, l.Begin(t.Context(), &Event{}))
	counts("after a line", "lines 1, writes 1")

	s.turns <- errFake
	l.Deny(t.Context(), &Event{})
	counts("after a denied call without a line", "failed 1, lines 1, lost 1, writes 2")

	o.owed = make([][]byte, maxOwed-1)
	for range 2 {
		s.turns <- errFake
		l.End(t.Context(), &Event{})
	}
	if len(o.owed) != maxOwed {
		t.Errorf("the sink owes %d lines", len(o.owed))
	}
	counts("after an end that nobody owes", "failed 3, lines 1, lost 2, writes 4")
	o.owed = nil

	l, s = w.withFake(BestEffort)
	kit.Must(t, l.Begin(t.Context(), &Event{}))
	<-s.entered
	for range maxQueue + 10 {
		kit.Must(t, l.Begin(t.Context(), &Event{}))
	}
	counts("after a full queue", "failed 3, lines 1, lost 12, writes 4")
	s.turns <- errFake
	<-s.entered
	counts("after a fault of the queue", "failed 4, lines 1, lost 13, writes 5")
	s.turns <- nil
	l.Close()
	l.sinks = nil
	counts("at the end", "failed 4, lines 1025, lost 13, writes 6")
}

// counted collects the metrics of a test. The function that it returns compares them.
func counted(t *testing.T) func(when, want string) {
	t.Helper()
	sink := metrics.NewInmemSink(time.Hour, time.Hour)
	_, err := metrics.NewGlobal(&metrics.Config{FilterDefault: true}, sink)
	kit.Must(t, err)
	t.Cleanup(func() { _, _ = metrics.NewGlobal(&metrics.Config{}, &metrics.BlackholeSink{}) })
	return func(when, want string) {
		t.Helper()
		var got []string
		all := sink.Data()[0]
		for _, name := range []string{"failed", "lines", "lost"} {
			value, ok := all.Counters["audit."+name+";sink=fake"]
			if ok {
				got = append(got, fmt.Sprint(name, " ", value.Sum))
			}
		}
		got = append(got, fmt.Sprint("writes ", all.Samples["audit.write;sink=fake"].Count))
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: got %s, want %s", when, text, want)
		}
	}
}

// TestLog_TellsTheOtherSinksThatTheChangeIsNotMade has two enforced sinks, of which the second fails.
func TestLog_TellsTheOtherSinksThatTheChangeIsNotMade(t *testing.T) {
	w := newWorld(t)
	l := w.open(&Sink{Name: "file", Type: TypeFile}, &Sink{Name: "fake", Type: TypeStdout})
	s := newFakeSink()
	l.sinks[1].sink = s
	s.turns <- errFake
	err := l.Begin(t.Context(), &Event{RequestID: "x"})
	if err == nil || !strings.Contains(err.Error(), `"fake"`) {
		t.Errorf("got %v", err)
	}
	b, err := os.ReadFile(w.path("audit.log"))
	if got := idsOf(t, string(b)); err != nil || got != "xr xc" ||
		!strings.Contains(string(b), `"result":"unavailable","error":"another sink failed"`) {
		t.Errorf("got %s, %v", b, err)
	}
}

// TestLog_BestEffortDelaysNothing has a sink that takes no line. The queue overflows, and no caller waits.
func TestLog_BestEffortDelaysNothing(t *testing.T) {
	w := newWorld(t)
	l, s := w.withFake(BestEffort)
	kit.Must(t, l.Begin(t.Context(), &Event{RequestID: "first"}))
	<-s.entered
	for range maxQueue + 10 {
		kit.Must(t, l.Begin(t.Context(), &Event{RequestID: "more"}))
	}

	for range 1 + maxQueue/maxBatch {
		s.turns <- nil
	}
	l.Close()
	lines := strings.Count(strings.Join(s.written(), ""), "\n")
	if lines != 1+maxQueue {
		t.Errorf("%d lines were written, want the first and the %d of the queue", lines, maxQueue)
	}
	l.sinks = nil // it is closed
}

func TestLog_BestEffortStartsWithoutItsDisk(t *testing.T) {
	w := newWorld(t)
	kit.Must(t, os.WriteFile(w.dir+"/in-the-way", nil, 0o600))
	sink := Sink{
		Name:              "lost",
		Type:              TypeFile,
		Path:              w.dir + "/in-the-way/audit.log",
		DeliveryGuarantee: BestEffort,
	}
	l := w.open(&sink)
	if !strings.Contains(w.log.String(), "audit sink failed") {
		t.Errorf("the log of the agent does not name the fault: %s", &w.log)
	}
	kit.Must(t, l.Begin(t.Context(), &Event{}))

	enforced := sink
	enforced.Name = "enforced"
	enforced.DeliveryGuarantee = Enforced
	sink.Path = w.path("audit.log")
	_, err := w.tryOpen(&sink, &enforced) // and nothing of the first is left
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "in-the-way") {
		t.Errorf("enforced: got %v", err)
	}
}

// TestLog_NamesAFullDisk fills a file system of its own, and makes space again.
func TestLog_NamesAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		kit.SkipLacking(t, "root: mounts a file system")
	}
	w := newWorld(t)
	kit.Must(t, unix.Mount("none", w.dir, "tmpfs", 0, "size=256k,mode=0700"))
	t.Cleanup(func() { _ = unix.Unmount(w.dir, unix.MNT_DETACH) })
	l := w.open()
	w.change(l, "before")
	filler := w.dir + "/filler"
	err := os.WriteFile(filler, make([]byte, 1<<20), 0o600)
	if !files.IsNoSpace(err) {
		t.Fatalf("the disk is not full: %v", err)
	}

	// The last page of the file may have space for some lines.
	for err == nil || !structs.IsKind(err, structs.KindUnavailable) {
		err = l.Begin(t.Context(), &Event{RequestID: "full", Endpoint: strings.Repeat("x", 3000)})
	}
	if !strings.Contains(err.Error(), "no space left on device") || !strings.Contains(err.Error(), w.path("audit.log")) {
		t.Errorf("got %v", err)
	}
	l.End(t.Context(), &Event{RequestID: "owed"})

	kit.Must(t, os.Remove(filler))
	w.change(l, "after")
	got := w.lines(w.path("audit.log"))
	whole := strings.HasPrefix(got, "beforer beforec") && strings.HasSuffix(got, "owedc afterr afterc")
	if !whole || strings.Contains(got, "?") {
		t.Errorf("got the lines %s", got)
	}
}

func TestLog_DeniedCallsHaveABound(t *testing.T) {
	w := newWorld(t)
	l := w.open()
	for range denialsAtOnce + 20 {
		l.Deny(t.Context(), &Event{Kind: KindDenied})
	}
	w.pass(time.Second)
	l.Deny(t.Context(), &Event{Kind: KindDenied, RequestID: "next"})
	b, err := os.ReadFile(w.path("audit.log"))
	kit.Must(t, err)
	all := slices.Collect(strings.Lines(string(b)))
	if len(all) != denialsAtOnce+1 {
		t.Fatalf("%d lines, want %d", len(all), denialsAtOnce+1)
	}
	if last := all[denialsAtOnce]; !strings.Contains(last, `"omitted":20`) {
		t.Errorf("the next line does not tell of the others: %s", last)
	}

	for range denialsPerSecond + 10 {
		l.Deny(t.Context(), &Event{Kind: KindDenied, RequestID: "more"})
	}
	b, err = os.ReadFile(w.path("audit.log"))
	kit.Must(t, err)
	if n := bytes.Count(b, []byte(`"more"`)); n != denialsPerSecond-1 || bytes.Count(b, []byte("omitted")) != 1 {
		t.Errorf("a second gives %d lines more, want %d without a number", n, denialsPerSecond-1)
	}
}
