package command

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// notice says once that a command waits for its agent.
type notice struct {
	once      sync.Once
	explained atomic.Int32 // the requests whose wait something else explains
}

// Explain marks the requests until end is called: their wait is explained by more than the name of the agent.
func (c *Call) Explain() (end func()) {
	c.late.explained.Add(1)
	return func() { c.late.explained.Add(-1) }
}

// sayLate says for what the command waits while the agent does not answer: it may hang, or have no leader.
func (c *Call) sayLate() {
	if c.late.explained.Load() > 0 || c.Command.Hidden {
		return
	}
	c.late.once.Do(func() {
		fmt.Fprintf(Printable{c.Err}, "waits for the answer of the agent at %s; "+
			"to see whether it has a leader: berth server members\n", c.API.Address())
	})
}
