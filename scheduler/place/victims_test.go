package place

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/structs"
)

// fakeNode is a node with cpu and one port that a placement needs.
type fakeNode struct {
	needs    int    // cpu
	port     string // the ID of the allocation that holds the port, "" if it is free
	seems    string // the ID of one that only seems to hold it
	setAside map[string]bool
}

func (n *fakeNode) Fits() bool { return n.needs <= 0 && (n.port == "" || n.setAside[n.port]) }

func (n *fakeNode) SetAside(a *structs.Allocation) {
	n.needs -= a.Resources.CPU
	n.setAside[a.ID] = true
}

func (n *fakeNode) PutBack(a *structs.Allocation) {
	n.needs += a.Resources.CPU
	delete(n.setAside, a.ID)
}

func (n *fakeNode) Measure() func(a *structs.Allocation) (missing float64, helps bool) {
	return func(a *structs.Allocation) (missing float64, helps bool) {
		missing = float64(max(0, n.needs-a.Resources.CPU))
		if n.port != "" && !n.setAside[n.port] {
			return missing, a.ID == n.port || a.ID == n.seems
		}
		return missing, n.needs > 0 && a.Resources.CPU > 0
	}
}

func (n *fakeNode) fitsWithout(victims []preemptible) bool {
	for _, c := range victims {
		n.SetAside(c.Alloc)
	}
	fits := n.Fits()
	for _, c := range victims {
		n.PutBack(c.Alloc)
	}
	return fits
}

// victim returns a candidate: an allocation with a priority and cpu.
func victim(id string, priority, cpu int, spare *groupSpare) preemptible {
	a := &structs.Allocation{ID: id, Resources: &structs.Resources{CPU: cpu}}
	return preemptible{Alloc: a, Priority: priority, Spare: spare}
}

// The victims suffice, none of them is superfluous, and there are some whenever all candidates suffice. The
// node is as before.
func TestChoose_TakesNoSuperfluousVictim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &fakeNode{needs: rapid.IntRange(1, 100).Draw(t, "needs"), setAside: map[string]bool{}}
		spares := []*groupSpare{nil, {Left: 1}, {Left: 2}}
		var from []preemptible
		for i := range rapid.IntRange(0, 12).Draw(t, "candidates") {
			from = append(from, victim(fmt.Sprint(i),
				rapid.IntRange(1, 3).Draw(t, "priority"), rapid.IntRange(0, 30).Draw(t, "cpu"),
				rapid.SampledFrom(spares).Draw(t, "spare")))
		}
		n.port = rapid.SampledFrom([]string{"", "0", "1", "of another"}).Draw(t, "port")
		before := n.needs

		victims := chooseVictims(n, from)
		if n.needs != before || len(n.setAside) > 0 {
			t.Fatalf("the node is changed: %+v", n)
		}
		if n.fitsWithout(from) != (len(victims) > 0) {
			t.Fatalf("%d victims, and all candidates suffice: %v", len(victims), n.fitsWithout(from))
		}
		if len(victims) > 0 && !n.fitsWithout(victims) {
			t.Fatalf("the victims do not suffice")
		}
		for i := range victims {
			if n.fitsWithout(slices.Delete(slices.Clone(victims), i, i+1)) {
				t.Fatalf("victim %s is superfluous", victims[i].Alloc.ID)
			}
		}
	})
}

func TestChoose_Order(t *testing.T) {
	spare := &groupSpare{Left: 1}
	for name, c := range map[string]struct {
		needs int
		port  string
		from  []preemptible // x seems to hold the port
		want  string
	}{
		"the least important": {50, "", []preemptible{
			victim("a", 20, 50, nil), victim("b", 10, 60, nil)}, "[b]"},
		"the smallest that suffices": {50, "", []preemptible{
			victim("a", 10, 70, nil), victim("b", 10, 60, nil)}, "[b]"},
		"the largest if none suffices": {50, "", []preemptible{
			victim("a", 10, 10, nil), victim("b", 10, 30, nil), victim("c", 10, 25, nil)}, "[b c]"},
		"those that a group can miss": {50, "", []preemptible{
			victim("a", 10, 30, spare), victim("b", 10, 20, spare),
			victim("c", 10, 25, nil)}, "[a c]"},
		"the highest priority is left out first": {50, "", []preemptible{
			victim("a", 10, 20, nil), victim("b", 20, 10, nil), victim("c", 30, 30, nil)}, "[a c]"},
		"the highest priority of all is left out first": {54, "b", []preemptible{
			victim("a", 10, 20, nil), victim("b", 35, 5, nil), victim("c", 20, 30, nil),
			victim("x", 30, 25, nil)}, "[a b c]"},
		"those that a group cannot miss are left out first": {50, "", []preemptible{
			victim("a", 10, 20, nil), victim("b", 10, 25, &groupSpare{}),
			victim("c", 10, 30, &groupSpare{Left: -1})}, "[a c]"},
		"the holder of the port": {50, "b", []preemptible{
			victim("a", 10, 30, nil), victim("b", 30, 20, nil), victim("c", 10, 50, nil)}, "[a b]"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, v := range chooseVictims(&fakeNode{c.needs, c.port, "x", map[string]bool{}}, c.from) {
				got = append(got, v.Alloc.ID)
			}
			slices.Sort(got)
			if fmt.Sprint(got) != c.want {
				t.Errorf("chose %v, want %s", got, c.want)
			}
		})
	}
}

// Of two nodes the one with fewer victims suffers, then the one with less important ones, then the one whose
// groups can miss theirs, then the one with smaller ones.
func TestCompare(t *testing.T) {
	spare := &groupSpare{Left: 1}
	order := [][]preemptible{
		{victim("a", 40, 10, nil)},
		{victim("a", 10, 80, nil), victim("b", 10, 80, nil)},
		{victim("a", 20, 10, spare), victim("b", 10, 10, nil)},
		{victim("a", 20, 20, nil), victim("b", 10, 10, nil)},
		{victim("a", 20, 10, spare), victim("b", 10, 10, spare)},
	}
	for i := range order {
		for j := range order {
			if got := compareVictims(order[i], order[j]); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%d and %d compare as %d", i, j, got)
			}
		}
	}
}
