package jobspec

import (
	"fmt"

	"berth/structs"
)

// disconnect returns the strategy of a group for a lost node. The arguments that groups had before there was
// the block become one, with a warning each.
func (c *converter) disconnect(g *group) *structs.DisconnectStrategy {
	// The values of the former arguments, if the group has any.
	former := &structs.DisconnectStrategy{}
	used := 0
	became := func(name, now string) {
		used++
		if g.Disconnect != nil {
			c.fault(g.At, "%s beside disconnect; expected %s in the block", name, now)
			return
		}
		c.warn(g.At, "%s is a former name: it became disconnect { %s }", name, now)
	}

	if d := g.FormerLostAfter; d != nil {
		former.LostAfter = *d
		became("max_client_disconnect", fmt.Sprintf("lost_after = %q", d))
	}

	if d := g.FormerStopAfter; d != nil {
		former.StopOnClientAfter = d
		became("stop_after_client_disconnect", fmt.Sprintf("stop_on_client_after = %q", d))
	}

	if b := g.FormerNoReplace; b != nil {
		former.Replace = new(!*b)
		became("prevent_reschedule_on_lost", fmt.Sprintf("replace = %t", !*b))
	}

	switch {
	// Former arguments beside the block are faults, so the block alone counts.
	case g.Disconnect != nil:
		return (*structs.DisconnectStrategy)(g.Disconnect)
	case used > 0:
		return former
	}
	return nil
}
