package ui

import (
	"testing"
	"testing/synctest"
	"time"
)

var fewSessions = SessionLimits{Most: 4, OfToken: 2, Idle: time.Hour, Lifetime: 3 * time.Hour}

// known counts the sessions of IDs that there are.
func known(s *sessionStore, ids ...string) (n int) {
	for _, id := range ids {
		if s.Use(id) != nil {
			n++
		}
	}
	return n
}

func TestStore_EndsASessionAtItsLogout(t *testing.T) {
	s := newSessionStore(fewSessions, time.Now)
	id, other := s.Begin(sessionLogin{Token: "s.a", Accessor: "a1"}), s.Begin(sessionLogin{Token: "s.a"})
	if len(id) < 26 || id == other {
		t.Errorf("the IDs are %q and %q; expected 130 random bits each", id, other)
	}
	session := s.Use(id)
	if session == nil || session.Token != "s.a" || session.Accessor != "a1" {
		t.Fatalf("got %+v", session)
	}
	if s.End(id) != session || s.End(id) != nil || s.Use(id) != nil || s.Use("") != nil {
		t.Error("the session has not ended, or ends twice")
	}
	if session.Context.Err() == nil {
		t.Error("the streams of the session go on")
	}
	if known(s, other) != 1 {
		t.Error("another session of the token has ended, too")
	}
}

func TestStore_EndsASessionWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessionStore(fewSessions, time.Now)
		id := s.Begin(sessionLogin{Token: "s.a"})
		for range 2 {
			time.Sleep(fewSessions.Idle - 1)
			if s.Use(id) == nil {
				t.Fatal("a request does not begin the idle time anew")
			}
		}
		time.Sleep(fewSessions.Idle)
		if s.Use(id) != nil || len(s.all) != 0 {
			t.Error("an idle session goes on, or is kept")
		}
		s.Begin(sessionLogin{Token: "s.a"})
		time.Sleep(fewSessions.Idle)
		last := s.Begin(sessionLogin{Token: "s.b"})
		if len(s.all) != 1 {
			t.Error("a session that nobody uses again is kept")
		}
		s.End(last)
	})
}

func TestStore_EndsASessionAfterItsLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessionStore(fewSessions, time.Now)
		id := s.Begin(sessionLogin{Token: "s.a"})
		session := s.Use(id)
		for range 5 {
			time.Sleep(fewSessions.Lifetime/6 + 1)
			if s.Use(id) == nil {
				t.Fatal("the session ends too early")
			}
		}
		time.Sleep(fewSessions.Lifetime / 6)
		<-session.Context.Done()
		if s.Use(id) != nil {
			t.Error("the session outlives its lifetime")
		}
	})
}

func TestStore_BoundsTheSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessionStore(fewSessions, time.Now)
		begin := func(token string) string {
			time.Sleep(time.Second)
			return s.Begin(sessionLogin{Token: token})
		}
		other := begin("s.other")
		a, b := begin("s.a"), begin("s.a")
		time.Sleep(time.Second)
		s.Use(a)
		c := begin("s.a")
		if known(s, b) != 0 || known(s, other, a, c) != 3 {
			t.Error("a third session of a token does not end its longest unused one")
		}
		time.Sleep(time.Second)
		known(s, a, c)
		d, e := begin("s.d"), begin("s.e")
		if known(s, other) != 0 || known(s, a, c, d, e) != 4 {
			t.Error("a fifth session does not end the longest unused one of all")
		}
		for _, id := range []string{a, c, d, e} {
			s.End(id)
		}
	})
}
