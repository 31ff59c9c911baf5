package membership

import (
	"time"

	"berth/internal/boottime"
)

// besideParts is the number of requests beside each other within one lease: the next server is asked after
// that part of it. The node begins with half of a lease left, so three servers are asked before its end.
const besideParts = 6

// unknownTTL paces the requests of a node that has no lease yet.
const unknownTTL = 10 * time.Second

// Asking chooses the servers that are asked for one lease. The loss of one server must not cost the lease. So
// a server that does not answer is not waited for: the next one is asked beside it, and a grant of any of
// them counts. After the last server the first one is asked again.
type Asking struct {
	servers []string
	pace    time.Duration
	asked   int // requests that were made
	open    int // those without an answer
	due     boottime.Instant
}

// NewAsking begins with the first of the servers at once. ttl is the length of the lease that runs, 0 for
// none.
func NewAsking(ttl time.Duration, servers []string) *Asking {
	if ttl <= 0 {
		ttl = unknownTTL
	}
	return &Asking{servers: servers, pace: ttl / besideParts}
}

// Next returns the server to ask now, or "" and the time until one is due.
func (a *Asking) Next(now boottime.Instant) (server string, wait time.Duration) {
	if now < a.due {
		return "", a.due.Sub(now)
	}

	server = a.servers[a.asked%len(a.servers)]
	a.asked++
	a.open++
	a.due = now.Add(a.pace)
	return server, 0
}

// Failed notes that a request has ended without a grant: the next server is due at once. It reports that all
// servers have failed.
func (a *Asking) Failed() (all bool) {
	a.open--
	if a.asked < len(a.servers) {
		a.due = 0
		return false
	}
	return a.open == 0
}

// Pace is the time after which the next server is asked beside one that does not answer.
func (a *Asking) Pace() time.Duration { return a.pace }
