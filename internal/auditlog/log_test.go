package auditlog

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/diskfault"
	"berth/internal/testskip"
	"berth/structs"
)

func TestLog_WritesALineForEachStage(t *testing.T) {
	w := newWorld(t)
	l := w.open()
	e := &Event{
		Kind:    KindChange,
		Caller:  Caller{Accessor: "a\nb"},
		Objects: []Object{{Type: "volume", ID: "v"}},
	}
	must(t, l.Begin(t.Context(), e))
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
	must(t, err)
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

// TestLog_ConcurrentLinesShareAWrite holds a first write while others come. They are one write then.
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
		for i := range 10 {
			begin(fmt.Sprint(i))
		}
		synctest.Wait()
		s.turns <- nil
		s.turns <- nil
		all.Wait()
		writes := s.written()
		if len(writes) != 2 || strings.Count(writes[1], "\n") != 10 {
			t.Errorf("11 lines are in %d writes: %q", len(writes), writes)
		}
	})
}

// TestLog_AnEnforcedSinkThatHangsStopsTheChange has a disk that never answers.
func TestLog_AnEnforcedSinkThatHangsStopsTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := newWorld(t).withFake(Enforced)
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
	must(t, l.Begin(t.Context(), &Event{RequestID: "z"}))
	if got := idsOf(t, strings.Join(s.written(), "")); got != "zr" {
		t.Errorf("got the lines %q", got)
	}
	if !strings.Contains(w.log.String(), "audit sink works again") {
		t.Error("the log of the agent does not say that the sink works again")
	}
}

func TestLog_AnEnforcedSinkOwesTheEndOfAChange(t *testing.T) {
	w := newWorld(t)
	l, s := w.withFake(Enforced)
	s.turns <- nil
	e := &Event{RequestID: "x"}
	must(t, l.Begin(t.Context(), e))
	s.turns <- errFake
	l.End(t.Context(), e)
	s.turns <- errFake
	err := l.Begin(t.Context(), &Event{RequestID: "y"})
	if err == nil {
		t.Error("a change begins while the sink fails")
	}

	s.turns <- nil
	must(t, l.Begin(t.Context(), &Event{RequestID: "z"}))
	if got := idsOf(t, strings.Join(s.written(), "")); got != "xr xc zr" {
		t.Errorf("got the lines %q", got)
	}
}

func TestLog_WritesWhatItOwesAtAReopenAndAtTheEnd(t *testing.T) {
	for name, then := range map[string]func(*Log){"reopen": (*Log).Reopen, "close": (*Log).Close} {
		w := newWorld(t)
		c := Config{Enabled: true, Sinks: []*Sink{{Name: "fake", Type: TypeStdout, DeliveryGuarantee: Enforced}}}
		c.Finish(w.dir)
		l, err := Open(c, w.deps())
		must(t, err)
		s := newFakeSink()
		l.sinks[0].sink = s
		s.turns <- errFake
		l.End(t.Context(), &Event{RequestID: "x"})
		s.turns <- nil
		then(l)
		if got := idsOf(t, strings.Join(s.written(), "")); got != "xc" {
			t.Errorf("%s: got the lines %q", name, got)
		}
		if name != "close" {
			l.Close()
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
	if got := idsOf(t, string(b)); err != nil || got != "xr xc" || !strings.Contains(string(b), `"result":"unavailable"`) {
		t.Errorf("got %s, %v", b, err)
	}
}

// TestLog_BestEffortDelaysNothing has a sink that takes no line. The queue overflows, and no caller waits.
func TestLog_BestEffortDelaysNothing(t *testing.T) {
	w := newWorld(t)
	l, s := w.withFake(BestEffort)
	must(t, l.Begin(t.Context(), &Event{RequestID: "first"}))
	<-s.entered
	for range maxQueue + 10 {
		must(t, l.Begin(t.Context(), &Event{RequestID: "more"}))
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
	must(t, os.WriteFile(w.dir+"/in-the-way", nil, 0o600))
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
	must(t, l.Begin(t.Context(), &Event{}))

	enforced := sink
	enforced.DeliveryGuarantee = Enforced
	_, err := w.tryOpen(&enforced)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "in-the-way") {
		t.Errorf("enforced: got %v", err)
	}
}

// TestLog_NamesAFullDisk fills a file system of its own, and makes space again.
func TestLog_NamesAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		testskip.Lacking(t, "root: mounts a file system")
	}
	w := newWorld(t)
	must(t, unix.Mount("none", w.dir, "tmpfs", 0, "size=256k,mode=0700"))
	t.Cleanup(func() { _ = unix.Unmount(w.dir, unix.MNT_DETACH) })
	l := w.open()
	w.change(l, "before")
	filler := w.dir + "/filler"
	err := os.WriteFile(filler, make([]byte, 1<<20), 0o600)
	if !diskfault.NoSpace(err) {
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

	must(t, os.Remove(filler))
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
	must(t, err)
	all := slices.Collect(strings.Lines(string(b)))
	if len(all) != denialsAtOnce+1 {
		t.Fatalf("%d lines, want %d", len(all), denialsAtOnce+1)
	}
	if last := all[denialsAtOnce]; !strings.Contains(last, `"omitted":20`) {
		t.Errorf("the next line does not tell of the others: %s", last)
	}
}

func TestLog_FiltersEvents(t *testing.T) {
	for name, c := range map[string]struct {
		filter Filter
		event  Event
		want   bool // left out
	}{
		"a path":                {Filter{Endpoints: []string{"/v1/var/*"}}, Event{Endpoint: "/v1/var/a"}, true},
		"another path":          {Filter{Endpoints: []string{"/v1/var/*"}}, Event{Endpoint: "/v1/vars"}, false},
		"inside of a path":      {Filter{Endpoints: []string{"/v1/*/x/*/e"}}, Event{Endpoint: "/v1/a/x/b/e"}, true},
		"not inside":            {Filter{Endpoints: []string{"/v1/*/x/*/e"}}, Event{Endpoint: "/v1/a/y/b/e"}, false},
		"an exact path":         {Filter{Endpoints: []string{"/v1/jobs"}}, Event{Endpoint: "/v1/jobs/x"}, false},
		"one of several":        {Filter{Operations: []string{"PUT", "POST"}}, Event{Operation: "POST"}, true},
		"a remote procedure":    {Filter{Operations: []string{"Var.*"}}, Event{Method: "Var.Apply"}, true},
		"a stage":               {Filter{Stages: []string{Received}}, Event{Stage: Received}, true},
		"another stage":         {Filter{Stages: []string{Received}}, Event{Stage: Complete}, false},
		"all lists have to fit": {Filter{Stages: []string{"*"}, Operations: []string{"PUT"}}, Event{}, false},
		"a forced action":       {Filter{Stages: []string{"*"}}, Event{Kind: KindForced}, false},
	} {
		if got := leavesOut([]*Filter{{Operations: []string{"none"}}, &c.filter}, &c.event); got != c.want {
			t.Errorf("%s: left out is %t, want %t", name, got, c.want)
		}
	}

	w := newWorld(t)
	l := w.open()
	l.filters = []*Filter{{Stages: []string{Received}}}
	w.change(l, "x")
	if got := w.lines(w.path("audit.log")); got != "xc" {
		t.Errorf("got the lines %q", got)
	}
}
