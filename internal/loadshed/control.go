package loadshed

import "time"

// control decides which share of the reads is refused. It holds how many may be admitted in a second; who asks
// for less than that is never refused, so that all is well as soon as the flood is over.
type control struct {
	limit float64       // reads in a second, 0 for no limit
	least float64       // where it ends
	last  time.Duration // what bytes took before
	late  int           // windows in a row in which they took too long
	fine  int           // windows in a row without anything to refuse
}

// How the limit moves. It falls quicker than it rises, since what is let in too much waits for everybody after.
const (
	patience = 2   // windows in which bytes take too long before there is a limit
	onset    = .85 // of what was served, to begin with: what has piled up has to be done, too
	fall     = .92 // each window in which bytes take too long, and no less than before
	least    = .1  // of what was served: the rest is not for the sake of reads
	rise     = 1.03
	enough   = 40 // windows without anything to refuse after which there is no limit
)

// step takes in a window and returns the share of reads to be refused, from 0 to 1.
func (c *control) step(config *Config, s Sample) float64 {
	seconds := s.Took.Seconds()
	if seconds <= 0 {
		return 0
	}
	if c.late++; s.Delay <= config.Delay {
		c.late = 0
	}
	rate, in := float64(s.Seen)/seconds, float64(s.In)/seconds
	switch {
	case c.late == 0:
		c.limit *= rise
	case s.Seen <= config.Few: // it is not because of the reads
	case c.limit == 0 && c.late >= patience:
		c.limit = onset * in
		c.least = max(least*in, float64(config.Few)/config.Window.Seconds())
	case c.limit > 0 && s.Delay >= c.last*9/10:
		c.limit = max(c.least, fall*min(c.limit, in))
	}
	c.last = s.Delay
	if c.limit == 0 || rate <= c.limit {
		if c.fine++; c.fine >= enough {
			c.limit = 0
		}
		return 0
	}
	c.fine = 0
	return 1 - c.limit/rate
}
