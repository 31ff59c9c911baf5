package membership

import (
	"testing"
	"time"

	"berth/internal/boottime"
)

const begin = boottime.Instant(time.Hour)

func TestLease_EndsByTheTimeOfItsRequest(t *testing.T) {
	grant := Grant{TTL: 10 * time.Second, Grace: 5 * time.Second, Term: 3}
	l, err := Lease{}.Renewed(grant, begin)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after             time.Duration
		ended, graceEnded bool
	}{
		{0, false, false},
		{10*time.Second - 1, false, false},
		{10 * time.Second, true, false},
		{15*time.Second - 1, true, false},
		{15 * time.Second, true, true},
	} {
		now := begin.Add(c.after)
		if l.Ended(now) != c.ended || l.GraceEnded(now) != c.graceEnded {
			t.Errorf("after %s: ended %t, grace ended %t", c.after, l.Ended(now), l.GraceEnded(now))
		}
	}
}

// An operator has ordered a longer lease before the agent stops.
func TestLease_EndsLaterIfTheNodeMayActAloneForLonger(t *testing.T) {
	grant := Grant{TTL: 10 * time.Second, Grace: 5 * time.Second, Alone: time.Hour}
	l, err := Lease{}.Renewed(grant, begin)
	if err != nil {
		t.Fatal(err)
	}
	if l.Ended(begin.Add(time.Hour-1)) || !l.Ended(begin.Add(time.Hour)) {
		t.Error("the lease does not end an hour after the request")
	}
}

func TestLease_OfANodeWithoutOneHasNotEnded(t *testing.T) {
	var l Lease
	if l.Ended(begin) || l.GraceEnded(begin) || !l.Until().IsZero() {
		t.Errorf("%+v has ended", l)
	}
}

func TestLease_IsNotRenewedByAFormerLeader(t *testing.T) {
	l := Lease{Grant: Grant{TTL: time.Second, Term: 7}, Since: begin}
	later := begin.Add(time.Second / 2)
	same, err := l.Renewed(Grant{TTL: time.Hour, Term: 6}, later)
	if err == nil || same != l {
		t.Errorf("got %+v, %v; want the lease as it was, and an error", same, err)
	}
	for _, term := range []uint64{0, 7, 8} {
		renewed, err := l.Renewed(Grant{TTL: time.Second, Term: term}, later)
		if err != nil || renewed.Since != later {
			t.Errorf("term %d: got %+v, %v", term, renewed, err)
		}
	}
}

// Two servers were asked, and the answer to the first request came last.
func TestLease_IsNotShortenedByAnEarlierRequest(t *testing.T) {
	grant := Grant{TTL: 10 * time.Second, Term: 3}
	later, err := Lease{}.Renewed(grant, begin.Add(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	got, err := later.Renewed(grant, begin)
	if err != nil || got != later {
		t.Errorf("got %+v, %v; want the lease of the later request", got, err)
	}
}
