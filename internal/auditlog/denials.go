package auditlog

import (
	"sync"
	"time"
)

// The rate of the calls of Log.Deny that have lines, and how many more may come at once. Without a bound, a
// caller that reaches a port could fill the disk, and rotate the lines of changes away.
const (
	denialsPerSecond = 50
	denialsAtOnce    = 1000
)

// denials bounds the lines of denied calls, and of those without a token that have changed nothing.
type denials struct {
	now func() time.Time

	mu      sync.Mutex
	left    float64
	at      time.Time // of left
	omitted uint64
}

// newDenials has the time 0 behind it, so that the first call finds all of denialsAtOnce.
func newDenials(now func() time.Time) *denials { return &denials{now: now} }

// admit reports whether a call has a line, and how many before it had none.
func (d *denials) admit() (omitted uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	passed := max(now.Sub(d.at), 0) // a clock may be set back
	d.at = now
	d.left = min(d.left+passed.Seconds()*denialsPerSecond, denialsAtOnce)
	if d.left < 1 {
		d.omitted++
		return 0, false
	}

	d.left--
	omitted = d.omitted
	d.omitted = 0
	return omitted, true
}
