package rows

import (
	"slices"

	"berth/fsm"
	"berth/server/events/ring"
	"berth/state/schema"
	"berth/structs/event"
)

// Maker makes the events of the tables below. It implements ring.Maker.
type Maker struct{}

// Makes implements ring.Maker.
func (Maker) Makes(table string) bool {
	_, made := makers[table]
	return made
}

// Make implements ring.Maker.
func (Maker) Make(c fsm.Change) []ring.Made {
	return makers[c.Table](c)
}

type maker func(fsm.Change) []ring.Made

// makers has the function of each table with events.
var makers = map[string]maker{
	schema.Jobs.Name():        of(job),
	schema.JobVersions.Name(): of(version),
	schema.Evals.Name():       of(evaluation),
	schema.Allocs.Name():      of(allocation),
	schema.Deployments.Name(): of(deployment),
	schema.Nodes.Name():       of(node),
	schema.NodePools.Name():   of(nodePool),
	schema.Volumes.Name():     of(volume),
	schema.Plugins.Name():     of(plugin),
	schema.ACLTokens.Name():   of(aclToken),
	schema.ACLPolicies.Name(): of(aclPolicy),
	schema.ACLRoles.Name():    of(aclRole),
	schema.Claims.Name():      of(claim),
	schema.Attachments.Name(): of(attachment),
	schema.Instances.Name():   of(instance),
	schema.Snapshots.Name():   of(volumeSnapshot),
	schema.FenceRuns.Name():   of(fenceRun),
	schema.FenceOrders.Name(): of(fenceOrder),
}

// change is a change of a row of type R.
type change[R any] struct {
	command string
	before  *R // nil: the row is new
	now     *R // nil: the row is gone
}

// row returns the row now, or the last one of a row that is gone.
func (c change[R]) row() *R {
	if c.now != nil {
		return c.now
	}
	return c.before
}

// isNew, isGone and isEdit tell how a row has changed. One of them is true.
func (c change[R]) isNew() bool { return c.before == nil }

func (c change[R]) isGone() bool { return c.now == nil }

func (c change[R]) isEdit() bool { return c.before != nil && c.now != nil }

// typeOf returns the type of an event: that of a deleted row, that of the command if it has one, or another.
func (c change[R]) typeOf(gone string, byCommand map[string]string, other string) string {
	kind, ok := byCommand[c.command]
	switch {
	case c.isGone():
		return gone
	case ok:
		return kind
	}
	return other
}

// of returns the function for the rows of a table, whose type is R. A change that leaves no row behind and
// had none has no event.
func of[R any](do func(change[R]) []ring.Made) maker {
	return func(c fsm.Change) []ring.Made {
		typed := change[R]{command: c.Command}
		typed.before, _ = c.Before.(*R)
		typed.now, _ = c.Now.(*R)
		if typed.before == nil && typed.now == nil {
			return nil
		}
		return do(typed)
	}
}

// told makes the event of a row whose payload is the row under the name of its kind.
func told[R any](c change[R], kind string, e event.Event) ring.Made {
	e.FilterKeys = slices.DeleteFunc(e.FilterKeys, func(k string) bool { return k == "" })
	row := c.row()
	return ring.Made{
		Event:   &e,
		Kind:    kind,
		Row:     func() any { return row },
		Deleted: c.isGone(),
	}
}

// one is told for the only event of a change.
func one[R any](c change[R], kind string, e event.Event) []ring.Made {
	return []ring.Made{told(c, kind, e)}
}

// shown is one for a row that the payload has in another form.
func shown[R any](c change[R], kind string, e event.Event, form func(*R) any) []ring.Made {
	m := told(c, kind, e)
	row := c.row()
	m.Row = func() any { return form(row) }
	return []ring.Made{m}
}
