package feasible

import (
	"cmp"
	"fmt"
	"reflect"

	"berth/internal/level"
	"berth/structs"
)

// newestField returns the field of a group that needs the newest agent, the zero value if every agent knows
// the group. An older agent drops the field as it decodes the job, and would run the tasks without it.
func newestField(o *Outlook, g *structs.TaskGroup) level.Part {
	return level.Newest(o.FieldsAbove(g, level.First))
}

// AgentDropsChange reports whether the group differs from its older version, whose tasks would run on, in a
// field that the agent of the node does not know. They would run on without the change.
func (g *Group) AgentDropsChange(older *structs.TaskGroup, n *structs.Node) bool {
	if g.newest.Level == 0 || n.Level() >= g.newest.Level {
		return false
	}

	// Only the fields that the agent drops count: it would report the change as done and have done nothing.
	above := g.outlook.FieldsAbove
	return !reflect.DeepEqual(above(older, n.Level()), above(g.TaskGroup, n.Level()))
}

// knowsFields is a group filter: the agent of the node knows every field of the group.
func knowsFields(g *Group, n *structs.Node) string {
	// Most groups have no such field. That is asked first, because a placement looks at many nodes, and the
	// level of a node is a text.
	if g.newest.Level == 0 || n.Level() >= g.newest.Level {
		return ""
	}
	return fmt.Sprintf("the agent of the node has %s %d (version %s); %s needs %d or later: update the agent",
		structs.AttrNodeLevel, n.Level(),
		structs.Cut(cmp.Or(n.Attributes["berth.version"], "unknown"), structs.MaxName),
		g.newest.Path, g.newest.Level)
}
