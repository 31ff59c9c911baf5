package feasible

import (
	"testing"

	"berth/scheduler/match"
	"berth/structs"
	"berth/test/jobtext"
)

func TestScheduler_ReadsPlaceholders(t *testing.T) {
	const placeholder = "${meta.rack}"
	n := &structs.Node{Meta: map[string]string{"rack": "r1"}}
	constraintHolds := func(c *structs.Constraint) bool { return match.CompileConstraint(c).MetBy(n) }
	affinityHolds := func(a *structs.Affinity) bool { return match.CompileConstraint(a.Constraint()).MetBy(n) }
	g := &structs.TaskGroup{}
	of := newSpreadTerm(g, &structs.Spread{Attribute: placeholder}).count.Of(n)
	jobtext.Check(t, "scheduler/feasible", map[string]bool{
		"Constraint.LTarget": constraintHolds(&structs.Constraint{LTarget: placeholder, Operand: "=", RTarget: "r1"}),
		"Constraint.RTarget": constraintHolds(&structs.Constraint{LTarget: "r1", Operand: "=", RTarget: placeholder}),
		"Affinity.LTarget":   affinityHolds(&structs.Affinity{LTarget: placeholder, Operand: "=", RTarget: "r1"}),
		"Affinity.RTarget":   affinityHolds(&structs.Affinity{LTarget: "r1", Operand: "=", RTarget: placeholder}),
		"Spread.Attribute":   of.Text == "r1",
	})
}
