package events

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"berth/fsm"
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs/event"
)

// RowMaker makes the events of the tables below. It implements events.RowMaker.
type RowMaker struct{}

// Makes implements events.RowMaker.
func (RowMaker) Makes(table string) bool {
	_, made := sources[table]
	return made
}

// Make implements events.RowMaker.
func (RowMaker) Make(c fsm.Change) []Made {
	return sources[c.Table].make(c)
}

// source makes the events of a table.
type source struct {
	make func(fsm.Change) []Made
	rows func(tx mvcc.Reader) iter.Seq[Made] // as if each row were new
}

// sources has the source of each table with events.
var sources = map[string]source{
	schema.Jobs.Name():        of(schema.Jobs, job),
	schema.JobVersions.Name(): of(schema.JobVersions, version),
	schema.Evals.Name():       of(schema.Evals, evaluation),
	schema.Allocs.Name():      of(schema.Allocs, allocation),
	schema.Deployments.Name(): of(schema.Deployments, deployment),
	schema.Nodes.Name():       of(schema.Nodes, node),
	schema.NodePools.Name():   of(schema.NodePools, nodePool),
	schema.Volumes.Name():     of(schema.Volumes, volume),
	schema.Plugins.Name():     of(schema.Plugins, plugin),
	schema.ACLTokens.Name():   of(schema.ACLTokens, aclToken),
	schema.ACLPolicies.Name(): of(schema.ACLPolicies, aclPolicy),
	schema.ACLRoles.Name():    of(schema.ACLRoles, aclRole),
	schema.Claims.Name():      of(schema.Claims, claim),
	schema.Attachments.Name(): of(schema.Attachments, attachment),
	schema.Instances.Name():   of(schema.Instances, instance),
	schema.Snapshots.Name():   of(schema.Snapshots, volumeSnapshot),
	schema.FenceRuns.Name():   of(schema.FenceRuns, fenceRun),
	schema.FenceOrders.Name(): of(schema.FenceOrders, fenceOrder),
	schema.WrongClocks.Name(): of(schema.WrongClocks, wrongClock),
}

// MakeAll returns the rows of a state in the form of the payloads of events, which has no secrets: table by
// table, in the order of their names. A row is the first event that a new row would have.
func MakeAll(tx mvcc.Reader) iter.Seq[Made] {
	return func(yield func(Made) bool) {
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			for m := range sources[name].rows(tx) {
				if !yield(m) {
					return
				}
			}
		}
	}
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

// typeOf returns the type of an event: the type of a deleted row, the command's if it has one, or another.
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

// of returns the source of a table, whose rows have type R. A change that leaves no row behind and had none
// has no event.
func of[R any, P interface {
	*R
	mvcc.Record
}](t *mvcc.Table[P], do func(change[R]) []Made) source {
	return source{
		make: func(c fsm.Change) []Made {
			typed := change[R]{command: c.Command}
			typed.before, _ = c.Before.(*R)
			typed.now, _ = c.Now.(*R)
			if typed.before == nil && typed.now == nil {
				return nil
			}
			return do(typed)
		},
		rows: func(tx mvcc.Reader) iter.Seq[Made] {
			return func(yield func(Made) bool) {
				for row := range t.Scan(tx) {
					made := do(change[R]{now: row})
					if len(made) > 0 && !yield(made[0]) {
						return
					}
				}
			}
		},
	}
}

// told makes the event of a row whose payload is the row under the name of its kind.
func told[R any](c change[R], kind string, e event.Event) Made {
	e.FilterKeys = slices.DeleteFunc(e.FilterKeys, func(k string) bool { return k == "" })
	e.Reason = cmp.Or(e.Reason, reasons[e.Type])
	row := c.row()
	return Made{
		Event:   &e,
		Kind:    kind,
		Row:     func() any { return row },
		Deleted: c.isGone(),
	}
}

// one is told for the only event of a change.
func one[R any](c change[R], kind string, e event.Event) []Made {
	return []Made{told(c, kind, e)}
}

// shown is one for a row that the payload has in another form.
func shown[R any](c change[R], kind string, e event.Event, form func(*R) any) []Made {
	m := told(c, kind, e)
	row := c.row()
	m.Row = func() any { return form(row) }
	return []Made{m}
}
