package rollout

import (
	"testing"
	"time"

	"berth/structs"
)

// paceOf returns the pace of a group with max_parallel allocations at a time and some empty places, which may
// replace some.
func paceOf(kind string, maxParallel, left int, empty ...int) *Pace {
	g := &structs.TaskGroup{
		Name:   "g",
		Update: &structs.UpdateStrategy{MaxParallel: maxParallel, Stagger: time.Minute},
	}
	places := map[Place]bool{}
	for _, index := range empty {
		places[Place{Index: index}] = true
	}
	p := NewPace(&structs.Job{Type: kind}, g, places)
	p.left = left
	return p
}

// A pace counts an allocation once, whether it stopped before its successor had a place or not.
func TestPace_CountsAnUpdateOnce(t *testing.T) {
	at := Place{Index: 3}
	for name, note := range map[string]func(*Pace){
		"updated":              func(p *Pace) { p.NoteUpdated(at, false, 1) },
		"emptied":              func(p *Pace) { p.NoteEmptied(at) },
		"emptied and updated":  func(p *Pace) { p.NoteEmptied(at); p.NoteUpdated(at, true, 1) },
		"added":                func(p *Pace) { p.NoteAdded(at, false) },
		"emptied and added":    func(p *Pace) { p.NoteEmptied(at); p.NoteAdded(at, false) },
		"added, and one known": func(p *Pace) { p.NoteAdded(at, false); p.NoteAdded(Place{Index: 4}, true) },
	} {
		p := paceOf(structs.JobService, 2, 2)
		note(p)
		if p.left != 1 || !p.MayUpdate() {
			t.Errorf("%s: %d may be replaced, want 1", name, p.left)
		}
	}
}

func TestPace_StopsNoneBesideAnEmptyPlace(t *testing.T) {
	for _, c := range []struct {
		left, absent int
		empty        []int
		want         int
	}{
		{left: 3, want: 2},
		{left: 3, absent: 1, want: 1},
		{left: 1, absent: 2, want: 0},
		{left: 3, empty: []int{0}, want: 0},
	} {
		p := paceOf(structs.JobService, 3, c.left, c.empty...)
		p.absent = c.absent
		if got := p.MostStops(); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// Each node of a per-node job is a question of its own.
func TestPace_EndsAfterManyRejections(t *testing.T) {
	for kind, want := range map[string]bool{structs.JobService: false, structs.JobSystem: true} {
		p := paceOf(kind, MostRejected, MostRejected)
		for range MostRejected {
			p.NoteRejected()
		}
		if p.MayUpdate() != want {
			t.Errorf("%s: more may be replaced: %v", kind, !want)
		}
	}
}

func TestPace_BeginsABatchAfterTheLast(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixNano() }
	for name, c := range map[string]struct {
		replaced []int64
		empty    []int
		left     int
		next     int64
	}{
		"none":             {left: 2},
		"one in a stagger": {replaced: []int64{ago(20 * time.Second)}, left: 1, next: ago(-40 * time.Second)},
		"a batch": {
			replaced: []int64{ago(10 * time.Second), ago(30 * time.Second)},
			next:     ago(-30 * time.Second),
		},
		"an empty place": {empty: []int{0}, left: 1, next: ago(-2 * time.Minute)},
	} {
		p := paceOf(structs.JobSystem, 2, 0, c.empty...)
		p.BeginBatch(c.replaced, now, 2*time.Minute)
		if p.left != c.left || p.Next != c.next {
			t.Errorf("%s: got %d from %d on, want %d from %d on", name, p.left, p.Next, c.left, c.next)
		}
	}
}

// Without a pace all allocations may be replaced at once.
func TestPace_IsOptional(t *testing.T) {
	var p *Pace
	p.NoteEmptied(Place{})
	p.NoteUpdated(Place{}, false, 1)
	p.NoteAdded(Place{}, false)
	p.NoteRejected()
	if !p.MayUpdate() || p.PrecedesUpdates() || p.MostStops() < 1000 {
		t.Error("a group without a pace is held up")
	}
}
