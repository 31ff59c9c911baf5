package authmethod

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2"

	"berth/structs"
)

// The bounds.
const (
	// MostAtOnce bounds the attempts under way.
	MostAtOnce = 64
	// OfSource is the number of attempts that a source may make at once without success, and SourceEvery the
	// time after which it may make another one.
	OfSource    = 20
	SourceEvery = 3 * time.Second
	// OfAll and AllEvery are likewise for all attempts, with and without success.
	OfAll    = 200
	AllEvery = 20 * time.Millisecond

	keptSources = 4096
)

// AttemptLimits counts attempts. It is safe for many goroutines.
type AttemptLimits struct {
	now func() time.Time

	mu       sync.Mutex
	underWay int
	all      bucket
	sources  *lru.Cache[netip.Prefix, *bucket]
}

// NewAttemptLimits returns limits without attempts.
func NewAttemptLimits(now func() time.Time) *AttemptLimits {
	sources, err := lru.New[netip.Prefix, *bucket](keptSources)
	if err != nil {
		panic(err) // only a size below 1 is an error
	}
	return &AttemptLimits{
		now:     now,
		all:     newBucket(OfAll, AllEvery, now()),
		sources: sources,
	}
}

// Begin counts an attempt of a source, which is an IP address or any other text for an unknown one. The error
// is unavailable with the time to wait. The caller calls end once the attempt is over.
func (l *AttemptLimits) Begin(source string) (end func(success bool), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	of := l.source(source, now)
	if wait := of.wait(now); wait > 0 {
		return nil, structs.Busy(wait, "%d logins from this address have failed within short time; "+
			"another one is possible in %s", OfSource, wait.Round(time.Second))
	}
	wait := l.all.wait(now)
	switch {
	case l.underWay >= MostAtOnce:
		return nil, structs.Busy(time.Second, "%d logins are under way, the most at once", MostAtOnce)
	case wait > 0:
		return nil, structs.Busy(max(wait, time.Second), "there are too many logins; the servers take %d a second",
			time.Second/AllEvery)
	}

	of.take()
	l.all.take()
	l.underWay++
	return func(success bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.underWay--
		if success {
			of.give()
		}
	}, nil
}

// source returns the bucket of a source. Addresses of IPv6 count by their network of 64 bits, which one
// machine may have for itself. All unknown sources are one.
func (l *AttemptLimits) source(text string, now time.Time) *bucket {
	var network netip.Prefix
	a, err := netip.ParseAddr(text)
	if err == nil {
		a = a.Unmap().WithZone("")
		bits := 64
		if a.Is4() {
			bits = 32
		}
		network, _ = a.Prefix(bits)
	}

	b, ok := l.sources.Get(network)
	if !ok {
		b = new(newBucket(OfSource, SourceEvery, now))
		l.sources.Add(network, b)
	}
	return b
}

// bucket has the attempts that are left. It fills with time.
type bucket struct {
	most  float64
	every time.Duration
	left  float64
	since time.Time
}

func newBucket(most int, every time.Duration, now time.Time) bucket {
	return bucket{
		most:  float64(most),
		every: every,
		left:  float64(most),
		since: now,
	}
}

// wait returns the time until there is an attempt, 0 if there is one now. A clock that goes back fills
// nothing.
func (b *bucket) wait(now time.Time) time.Duration {
	b.left = min(b.most, b.left+max(0, float64(now.Sub(b.since))/float64(b.every)))
	b.since = now
	if b.left >= 1 {
		return 0
	}
	return time.Duration((1 - b.left) * float64(b.every))
}

func (b *bucket) take() { b.left-- }

func (b *bucket) give() { b.left = min(b.most, b.left+1) }
