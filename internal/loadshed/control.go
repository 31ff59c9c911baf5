package loadshed

import "time"

// control decides which share of the reads is rejected. It holds how many may be admitted in a second. A load
// below that is never rejected, so no read is rejected once a flood is over.
type control struct {
	limit       float64       // reads in a second, 0 for no limit
	least       float64       // the bound below which the limit does not fall
	lastDelay   time.Duration // of the window before
	lateWindows int           // windows in a row in which bytes took too long
	idle        int           // windows in a row without anything to reject
}

// The movement of the limit. It falls faster than it rises, because every later request waits for the excess
// ones.
const (
	patience  = 2    // windows in which bytes take too long before there is a limit
	onset     = .85  // of the served reads at first: the backlog has to be served, too
	fall      = .92  // of the limit, in each window in which bytes take too long, and no less than before
	leastPart = .1   // of the served reads: other work may cause the rest of the load
	rise      = 1.03 // of the limit, in each other window
	enough    = 40   // windows without anything to reject after which there is no limit
)

// step takes in a window and returns the share of reads to be rejected, from 0 to 1.
func (c *control) step(minAdmit int, s Sample) float64 {
	seconds := s.Took.Seconds()
	if seconds <= 0 {
		return 0
	}

	c.lateWindows++
	if s.Delay <= gateDelay {
		c.lateWindows = 0
	}

	c.moveLimit(minAdmit, s, float64(s.Admitted)/seconds)
	c.lastDelay = s.Delay
	rate := float64(s.Seen) / seconds
	if c.limit > 0 && rate > c.limit {
		c.idle = 0
		return 1 - c.limit/rate
	}

	c.idle++
	if c.idle >= enough {
		c.limit = 0
	}

	return 0
}

// moveLimit changes the limit after a window. admitted is the number of reads that were admitted in a second.
func (c *control) moveLimit(minAdmit int, s Sample, admitted float64) {
	switch {
	case c.lateWindows == 0:
		c.limit *= rise
	case s.Seen <= minAdmit: // the reads do not cause the delay
	case c.limit == 0 && c.lateWindows >= patience:
		c.limit = onset * admitted
		c.least = max(leastPart*admitted,
			float64(minAdmit)/gateWindow.Seconds())
	case c.limit > 0 && s.Delay >= c.lastDelay*9/10:
		c.limit = max(c.least, fall*min(c.limit, admitted))
	}
}
