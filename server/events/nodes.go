package events

import (
	"cmp"
	"fmt"

	"berth/fsm"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/event"
)

func node(c change[structs.Node]) []Made {
	n := c.row()
	return one(c, "Node", event.Event{
		Topic:      event.Node,
		Type:       nodeType(c),
		Key:        n.ID,
		FilterKeys: []string{n.NodePool},
		Reason:     nodeReason(c),
	})
}

func nodeType(c change[structs.Node]) string {
	switch {
	case c.isGone():
		return "NodeDeregistration"
	case c.isNew(), c.command == fsm.NodeRegister.Name:
		return "NodeRegistration"
	case c.before.DrainStrategy != c.now.DrainStrategy:
		return "NodeDrain"
	case c.before.SchedulingEligibility != c.now.SchedulingEligibility:
		return "NodeEligibility"
	}
	return "NodeStreamEvent"
}

// nodeReason returns the reason of the status, or the newest event of the node if it is new.
func nodeReason(c change[structs.Node]) string {
	n := c.row()
	newest := len(n.Events) - 1
	if newest < 0 || c.isEdit() && len(c.before.Events) > 0 &&
		c.before.Events[len(c.before.Events)-1] == n.Events[newest] {
		return n.StatusDescription
	}
	return n.Events[newest].Message
}

func nodePool(c change[cluster.NodePool]) []Made {
	p := c.row()
	return one(c, "NodePool", event.Event{
		Topic: event.NodePool,
		Type:  c.typeOf("NodePoolDeleted", nil, "NodePoolUpserted"),
		Key:   p.Name,
	})
}

func aclToken(c change[access.Token]) []Made {
	t := c.row()
	return one(c, "ACLToken", event.Event{
		Topic: event.ACLToken,
		Type:  c.typeOf("ACLTokenDeleted", nil, "ACLTokenUpserted"),
		Key:   t.AccessorID,
	})
}

func aclPolicy(c change[access.Policy]) []Made {
	p := c.row()
	return one(c, "ACLPolicy", event.Event{
		Topic: event.ACLPolicy,
		Type:  c.typeOf("ACLPolicyDeleted", nil, "ACLPolicyUpserted"),
		Key:   p.Name,
	})
}

func aclRole(c change[access.Role]) []Made {
	r := c.row()
	return one(c, "ACLRole", event.Event{
		Topic:      event.ACLRole,
		Type:       c.typeOf("ACLRoleDeleted", nil, "ACLRoleUpserted"),
		Key:        r.ID,
		FilterKeys: []string{r.Name},
	})
}

func fenceRun(c change[cluster.FenceRun]) []Made {
	r := c.row()
	kind := "FenceBegun"
	reason := r.Reason
	switch {
	case c.isGone():
		kind = "FenceDeleted"
		reason = ""
	case r.State == cluster.FenceProved:
		kind = "FenceProved"
	case r.State == cluster.FenceFailed:
		kind = "FenceFailed"
	case r.State == cluster.FenceVoid:
		kind = "FenceVoid"
	default:
		reason = cmp.Or(reason, r.Why)
	}
	return one(c, "Fence", event.Event{
		Topic:      event.Fence,
		Type:       kind,
		Key:        fmt.Sprintf("%s/%d", r.NodeID, r.Number),
		FilterKeys: []string{r.NodeID},
		Reason:     reason,
	})
}

func fenceOrder(c change[cluster.FenceOrder]) []Made {
	o := c.row()
	reason := o.Why
	if c.isGone() {
		reason = ""
	}
	return one(c, "FenceOrder", event.Event{
		Topic:      event.Fence,
		Type:       c.typeOf("FenceOrderEnded", nil, "FenceOrdered"),
		Key:        o.NodeID,
		FilterKeys: []string{o.NodeID},
		Reason:     reason,
	})
}

func wrongClock(c change[cluster.WrongClock]) []Made {
	w := c.row()
	reason := w.String()
	if c.isGone() {
		reason = ""
	}
	return one(c, "WrongClock", event.Event{
		Topic:      event.Clock,
		Type:       c.typeOf("ClockRight", nil, "ClockWrong"),
		Key:        w.Server,
		FilterKeys: []string{w.ServerID},
		Reason:     reason,
	})
}
