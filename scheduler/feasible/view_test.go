package feasible

import (
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

// A group without ports reads no ports of a node.
func TestPorts_CostNothingWithoutADemand(t *testing.T) {
	p := NewOutlook(state.New().Read(), &structs.Evaluation{JobID: "a"}, time.Time{})
	v := p.ViewOf(&structs.Node{ID: "n1"})
	g := newGroup(p, &structs.Job{}, &structs.TaskGroup{})
	if r := p.portsFree(&Demand{Group: g}, v); r != nil || v.ports != nil {
		t.Errorf("got %+v and %v", r, v.ports)
	}
}

// A view forgets its last trial with each change of the node.
func TestNodeView_ForgetsItsLastTrial(t *testing.T) {
	p := NewOutlook(state.New().Read(), &structs.Evaluation{JobID: "a"}, time.Time{})
	v := p.ViewOf(&structs.Node{ID: "n1"})
	a := &structs.Allocation{ID: "a", Resources: &structs.Resources{}}
	v.hold(p, a)
	for name, change := range map[string]func(){
		"stop":   func() { v.stop(p, a) },
		"unstop": func() { v.unstop(p, a) },
		"place":  func() { v.place(p, a) },
	} {
		v.Fits = Fit{Mean: 1}
		change()
		if v.Fits != (Fit{}) {
			t.Errorf("%s: the view has %+v", name, v.Fits)
		}
	}
}
