package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/internal/mvcc"
	"berth/server/events"
	"berth/structs/event"
)

// texts makes one event of each change, whose row is a text.
type texts struct{}

func (texts) Makes(table string) bool { return table == "texts" }

func (texts) Make(c fsm.Change) []events.Made {
	text, ok := c.Now.(string)
	if !ok {
		return nil
	}
	return []events.Made{{
		Event: &event.Event{Topic: event.Job, Key: text},
		Kind:  "Text",
		Row:   func() any { return text },
	}}
}

// small returns a ring that keeps a number of rows.
func small(rows int) *events.Ring {
	s := events.DefaultSettings()
	s.EventBuffer = rows
	return events.NewRing(s, texts{})
}

// entry has texts as changed rows.
func entry(index uint64, rows ...string) fsm.Entry {
	e := fsm.Entry{Index: index, Bytes: 10}
	for _, r := range rows {
		e.Changes = append(e.Changes, fsm.Change{Command: "C", Edit: mvcc.Edit{Table: "texts", Now: r}})
	}
	return e
}

func all(*event.Event) (bool, error) { return true, nil }

// keys lists the keys of the events of an answer, with their indexes.
func keys(resp *event.ListResponse) (list []string) {
	for _, e := range resp.Events {
		list = append(list, fmt.Sprintf("%d %s", e.Index, e.Key))
	}
	return list
}

// read reads without waiting for events.
func read(t testing.TB, r *events.Ring, req *event.ListRequest, keep events.Keep) *event.ListResponse {
	t.Helper()
	over, end := context.WithCancel(context.Background())
	end()
	resp, err := r.Read(over, req, keep)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestRing_GivesTheEventsAfterAnIndex(t *testing.T) {
	r := small(100)
	r.Publish(5, []fsm.Entry{entry(3, "a", "b"), entry(5, "c")})
	r.Publish(9, nil) // entries without events
	for after, want := range map[uint64][]string{
		0:  {"3 a", "3 b", "5 c"},
		1:  {"3 a", "3 b", "5 c"},
		3:  {"5 c"},
		5:  nil,
		11: nil,
	} {
		resp := read(t, r, &event.ListRequest{After: after}, all)
		if !slices.Equal(keys(resp), want) || resp.Missed != nil || resp.Next != max(after, 9) {
			t.Errorf("after %d: got %v, next %d, missed %v; want %v", after, keys(resp), resp.Next, resp.Missed, want)
		}
	}
}

func TestRing_EncodesAPayloadOnceForAllReaders(t *testing.T) {
	r := small(100)
	r.Publish(1, []fsm.Entry{entry(1, "a", "b")})
	onlyA := func(e *event.Event) (bool, error) { return e.Key == "a", nil }
	first := read(t, r, &event.ListRequest{}, onlyA).Events
	second := read(t, r, &event.ListRequest{}, all).Events
	if len(first) != 1 || len(second) != 2 || first[0] != second[0] {
		t.Fatalf("got the events %v and %v", first, second)
	}
	for _, e := range second {
		var payload struct{ Text string }
		err := json.Unmarshal(e.Payload, &payload)
		if err != nil || payload.Text != e.Key {
			t.Errorf("the payload of %s is %s: %v", e.Key, e.Payload, err)
		}
	}
}

// A reader behind the oldest event learns which indexes it has missed, and continues with the oldest one.
func TestRing_TellsASlowReaderWhatItMissed(t *testing.T) {
	r := small(3)
	for n := range uint64(6) {
		r.Publish(10*n+10, []fsm.Entry{entry(10*n+10, "x")})
	}
	resp := read(t, r, &event.ListRequest{After: 12, Skip: 2}, all)
	want := event.Gap{From: 13, To: 30}
	kept := []string{"40 x", "50 x", "60 x"}
	if resp.Missed == nil || *resp.Missed != want || !slices.Equal(keys(resp), kept) {
		t.Errorf("got %v and the gap %v, want %v", keys(resp), resp.Missed, want)
	}
	for _, after := range []uint64{0, 30, 31} {
		if resp := read(t, r, &event.ListRequest{After: after}, all); resp.Missed != nil || len(resp.Events) != 3 {
			t.Errorf("after %d: got %v and the gap %v, want three events", after, keys(resp), resp.Missed)
		}
	}
}

func TestRing_BoundsTheBytesOfPayloads(t *testing.T) {
	s := events.DefaultSettings()
	s.EventBytes = 1 << 20
	r := events.NewRing(s, texts{})
	long := string(make([]byte, 100_000)) // six bytes each in JSON
	for n := range uint64(10) {
		r.Publish(n+1, []fsm.Entry{entry(n+1, long)})
	}
	if resp := read(t, r, &event.ListRequest{}, all); len(resp.Events) != 2 {
		t.Errorf("the first answer has %d events, want 2 that fill it", len(resp.Events))
	}
	for after := uint64(2); after < 10; after = read(t, r, &event.ListRequest{After: after}, all).Next {
		continue
	}
	resp := read(t, r, &event.ListRequest{After: 1}, all)
	if resp.Missed == nil || resp.Missed.To < 8 {
		t.Errorf("the ring keeps payloads of more than 1 MiB: missed %v", resp.Missed)
	}
}

// A log entry with more events than fit into an answer is read in parts, each event once.
func TestRing_ReadsALargeEntryInParts(t *testing.T) {
	r := small(10_000)
	var rows []string
	for n := range 2500 {
		rows = append(rows, fmt.Sprintf("r%d", n))
	}
	r.Publish(2, []fsm.Entry{entry(1, "first"), entry(2, rows...)})
	req := &event.ListRequest{}
	var got []string
	for {
		resp := read(t, r, req, all)
		if len(resp.Events) == 0 {
			break
		}
		for _, e := range resp.Events {
			got = append(got, e.Key)
		}
		req.After = resp.Next
		req.Skip = resp.NextSkip
	}
	if !slices.Equal(got, append([]string{"first"}, rows...)) {
		t.Errorf("got %d events, want 2501 in their order", len(got))
	}
}

// The newest entry stays, even if it is larger than the ring: a reader that waits gets it.
func TestRing_KeepsTheNewestEntry(t *testing.T) {
	r := small(1)
	r.Publish(1, []fsm.Entry{entry(1, "a", "b", "c")})
	if resp := read(t, r, &event.ListRequest{}, all); len(resp.Events) != 3 {
		t.Errorf("got %v, want all three", keys(resp))
	}
}

// After a restore each reader learns that it has missed what was before, also one that a server with an older
// state serves: that server knows the index of the restore only by the next entry.
func TestRing_ARestoreIsAGap(t *testing.T) {
	r := small(100)
	r.Publish(5, []fsm.Entry{entry(5, "old")})
	r.Restored(3)
	resp := read(t, r, &event.ListRequest{After: 5}, all)
	if resp.Missed == nil || resp.Missed.From != 6 || len(resp.Events) != 0 {
		t.Errorf("got %v and the gap %v, want a gap from 6 on", keys(resp), resp.Missed)
	}

	r.Publish(21, []fsm.Entry{entry(21, "new")})
	resp = read(t, r, &event.ListRequest{After: 15}, all)
	want := event.Gap{From: 16, To: 20}
	if resp.Missed == nil || *resp.Missed != want || !slices.Equal(keys(resp), []string{"21 new"}) {
		t.Errorf("got %v and the gap %v, want index 21 after a gap from 16 to 20", keys(resp), resp.Missed)
	}
}

func TestRing_WaitsForAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := small(100)
		r.Publish(4, []fsm.Entry{entry(4, "old")})
		var resp *event.ListResponse
		var wait sync.WaitGroup
		wait.Go(func() {
			resp, _ = r.Read(t.Context(), &event.ListRequest{After: 4}, func(e *event.Event) (bool, error) {
				return e.Key == "wanted", nil
			})
		})
		synctest.Wait()
		r.Publish(5, []fsm.Entry{entry(5, "other")})
		time.Sleep(time.Second) // virtual
		if resp != nil {
			t.Fatalf("an event that the reader does not want ends the wait: %v", keys(resp))
		}
		r.Publish(6, []fsm.Entry{entry(6, "wanted")})
		wait.Wait()
		if !slices.Equal(keys(resp), []string{"6 wanted"}) || resp.Next != 6 {
			t.Errorf("got %v, next %d", keys(resp), resp.Next)
		}

		// Without an event the reader gets the index to which it has read.
		limited, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		r.Publish(8, nil)
		resp, err := r.Read(limited, &event.ListRequest{After: 6}, all)
		if err != nil || len(resp.Events) != 0 || resp.Next != 8 {
			t.Errorf("at the end of the wait: got %v, next %d, %v", keys(resp), resp.Next, err)
		}
	})
}

// Many readers let events come for longer than one, so that their answers are not too many. Three hundred do
// not wait as much longer.
func TestRing_ManyReadersLetMoreEventsCome(t *testing.T) {
	for readers, want := range map[int][]string{
		1:   {"5 a", "6 b"},
		10:  {"5 a", "6 b"},
		40:  {"5 a", "6 b", "7 c"},
		300: {"5 a", "6 b", "7 c"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := small(100)
			r.Publish(4, []fsm.Entry{entry(4, "old")})
			got := make([]*event.ListResponse, readers)
			var wait sync.WaitGroup
			for n := range readers {
				wait.Go(func() { got[n], _ = r.Read(t.Context(), &event.ListRequest{After: 4}, all) })
			}
			synctest.Wait()
			for index, text := range map[uint64]string{5: "a", 6: "b", 7: "c", 8: "d"} {
				after := []time.Duration{0, 9, 30, 255}[index-5] * time.Millisecond // virtual
				time.AfterFunc(after, func() { r.Publish(index, []fsm.Entry{entry(index, text)}) })
			}
			wait.Wait()
			for _, resp := range got {
				if !slices.Equal(keys(resp), want) {
					t.Fatalf("%d readers: got %v, want %v", readers, keys(resp), want)
				}
			}
		})
	}
}

// The readers that have their answer no longer count.
func TestRing_ReadersThatHaveReadDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := small(100)
		r.Publish(4, []fsm.Entry{entry(4, "old")})
		var wait sync.WaitGroup
		for range 40 {
			wait.Go(func() { _, _ = r.Read(t.Context(), &event.ListRequest{After: 4}, all) })
		}
		synctest.Wait()
		r.Publish(5, []fsm.Entry{entry(5, "a")})
		wait.Wait()

		var resp *event.ListResponse
		wait.Go(func() { resp, _ = r.Read(t.Context(), &event.ListRequest{After: 5}, all) })
		synctest.Wait()
		r.Publish(6, []fsm.Entry{entry(6, "b")})
		time.Sleep(30 * time.Millisecond)
		r.Publish(7, []fsm.Entry{entry(7, "c")})
		wait.Wait()
		if !slices.Equal(keys(resp), []string{"6 b"}) {
			t.Errorf("got %v, want the first event alone", keys(resp))
		}
	})
}

// A write never waits for a reader, whatever that does.
func TestRing_PublishDoesNotWaitForAReader(t *testing.T) {
	r := small(3)
	r.Publish(1, []fsm.Entry{entry(1, "a")})
	reading := make(chan struct{})
	var once sync.Once
	release := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		_, err := r.Read(context.Background(), &event.ListRequest{}, func(*event.Event) (bool, error) {
			once.Do(func() { close(reading) })
			<-release
			return true, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-reading
	for n := uint64(2); n < 20; n++ {
		r.Publish(n, []fsm.Entry{entry(n, "b")})
	}
	r.Restored(30)
	close(release)
	wait.Wait()
}

func TestRing_IsOff(t *testing.T) {
	r := events.NewRing(events.Settings{}, texts{})
	if r.Observes("texts") {
		t.Error("a ring that is off keeps rows")
	}
	_, err := r.Read(t.Context(), &event.ListRequest{}, all)
	if err == nil {
		t.Error("a ring that is off answers")
	}
	if on := small(1); !on.Observes("texts") || on.Observes("others") {
		t.Error("a ring keeps the rows of the tables of its maker alone")
	}
}

func TestSettings_HaveBounds(t *testing.T) {
	for n, change := range []func(*events.Settings){
		func(s *events.Settings) { s.EventBuffer = 0 },
		func(s *events.Settings) { s.EventBuffer = 1_000_001 },
		func(s *events.Settings) { s.EventBytes = 1<<20 - 1 },
		func(s *events.Settings) { s.EventBytes = 16<<30 + 1 },
	} {
		s := events.DefaultSettings()
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&s)
		if s.Validate() == nil {
			t.Errorf("case %d is accepted", n)
		}
	}
}
