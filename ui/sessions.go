package ui

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// SessionLimits bound the sessions of an agent.
type SessionLimits struct {
	Most     int           // sessions
	OfToken  int           // sessions of one token
	Idle     time.Duration // between two requests
	Lifetime time.Duration // after the login
}

// DefaultSessionLimits are those of the page.
var DefaultSessionLimits = SessionLimits{
	Most:     1024,
	OfToken:  16,
	Idle:     time.Hour,
	Lifetime: 12 * time.Hour,
}

// sessionLogin is what a session stands for.
type sessionLogin struct {
	Token string // its secret
	// Accessor is that of a token that this login has made: whoever ends the session ends the token, too. A
	// session that ends by itself leaves its token, which has a time of its own. "": the user brought the token,
	// which outlives the session in any case.
	Accessor string
}

// userSession is a login of a browser.
type userSession struct {
	sessionLogin
	// Context ends with the session: streams that it has opened end, too.
	Context context.Context

	end  context.CancelFunc
	used time.Time
}

// key is the digest of the ID of a session. So the time of a search tells nothing about an ID.
type sessionKey [sha256.Size]byte

func sessionKeyOf(id string) sessionKey { return sha256.Sum256([]byte(id)) }

// sessionStore keeps the logins of browsers in the memory of an agent. A browser has the random ID of its
// session alone. A session ends by a logout, after a time without a request, after a longer time in any case,
// and with the agent. The sessions are bounded, and one token has few of them. Each login by an auth method
// makes a token, so whoever can log in often may still end the sessions of others. Only the end by a request,
// a logout or another login, returns the session: so only then its token can end, too. Its methods may be
// called at the same time.
type sessionStore struct {
	limits SessionLimits
	now    func() time.Time

	mu  sync.Mutex
	all map[sessionKey]*userSession
}

// newSessionStore returns a store without sessions. It reads the time from now.
func newSessionStore(limits SessionLimits, now func() time.Time) *sessionStore {
	return &sessionStore{limits: limits, now: now, all: map[sessionKey]*userSession{}}
}

// Begin begins a session and returns its ID. Where there are too many, the one of the same token, or else of
// any token, that was not used for the longest time ends.
func (s *sessionStore) Begin(l sessionLogin) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.sweep()
	s.thin(s.limits.OfToken, func(other *userSession) bool { return other.Token == l.Token })
	s.thin(s.limits.Most, func(*userSession) bool { return true })
	id = rand.Text()
	begun := &userSession{sessionLogin: l, used: s.now()}
	begun.Context, begun.end = context.WithTimeout(context.Background(), s.limits.Lifetime)
	s.all[sessionKeyOf(id)] = begun
	return id
}

// Use returns the session with an ID, and begins its idle time anew. It is nil if there is none.
func (s *sessionStore) Use(id string) *userSession {
	s.mu.Lock()
	defer s.mu.Unlock()

	found := s.all[sessionKeyOf(id)]
	if found == nil || s.over(found) {
		s.remove(sessionKeyOf(id))
		return nil
	}
	found.used = s.now()
	return found
}

// End ends the session with an ID and returns it. It is nil if there is none.
func (s *sessionStore) End(id string) *userSession {
	s.mu.Lock()
	defer s.mu.Unlock()

	found := s.all[sessionKeyOf(id)]
	s.remove(sessionKeyOf(id))
	return found
}

// over reports whether a session has ended by itself.
func (s *sessionStore) over(x *userSession) bool {
	return x.Context.Err() != nil || s.now().Sub(x.used) >= s.limits.Idle
}

func (s *sessionStore) remove(k sessionKey) {
	found := s.all[k]
	if found != nil {
		found.end()
		delete(s.all, k)
	}
}

// sweep removes the sessions that have ended by themselves.
func (s *sessionStore) sweep() {
	for k, x := range s.all {
		if s.over(x) {
			s.remove(k)
		}
	}
}

// thin makes a place among the sessions of a kind, of which there are at most some.
func (s *sessionStore) thin(most int, of func(*userSession) bool) {
	count := 0
	var oldest sessionKey
	for k, x := range s.all {
		if !of(x) {
			continue
		}
		if count == 0 || x.used.Before(s.all[oldest].used) {
			oldest = k
		}
		count++
	}
	if count >= most {
		s.remove(oldest)
	}
}
