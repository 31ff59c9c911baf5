package structs

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestNodeEqual_LooksAtEachField changes each field that a node has, or comes to have, by itself.
func TestNodeEqual_LooksAtEachField(t *testing.T) {
	ignored := []string{
		"Status", "StatusDescription", "StatusUpdatedAt", "SchedulingEligibility", "Drain", "Events", "Indexes",
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Node]()) {
		if !f.IsExported() || len(f.Index) > 1 {
			continue
		}
		known, is := aNode(), aNode()
		alter(t, f.Name, reflect.ValueOf(is).Elem().FieldByIndex(f.Index))
		if NodeEqual(known, is, 0) || NodeEqual(is, known, 0) {
			t.Errorf("%s differs, and the nodes are equal", f.Name)
		}
		want := slices.Contains(ignored, f.Name)
		if NodeEqual(known, is, IgnoreServersPart) != want || NodeEqual(is, known, IgnoreServersPart) != want {
			t.Errorf("%s differs; without the servers' part the nodes are equal: want %t", f.Name, want)
		}
	}
}

func TestNodeEqual_PluginInstancesAreTheServersPart(t *testing.T) {
	known, is := aNode(), aNode()
	is.SetCSIInstances([]CSIInstanceKey{{PluginID: "p", Kind: CSIKindNode}})
	if NodeEqual(known, is, 0) || !NodeEqual(known, is, IgnoreServersPart) {
		t.Error("the keys of plugin instances are compared wrongly")
	}
}

func TestNodeEqual_DriverTimes(t *testing.T) {
	known, is := aNode(), aNode()
	is.Drivers["exec"].UpdateTime = time.Unix(10, 0)
	if NodeEqual(known, is, 0) || !NodeEqual(known, is, IgnoreDriverTimes) {
		t.Error("the time of a driver is compared wrongly")
	}
	is.Drivers["exec"].Healthy = false
	if NodeEqual(known, is, IgnoreDriverTimes) {
		t.Error("the health of a driver is not compared")
	}
}

func TestNodeEqual_TellsNilFromEmpty(t *testing.T) {
	for name, c := range map[string][2]func(*Node){
		"attributes": {func(n *Node) { n.Attributes = nil }, func(n *Node) { n.Attributes = map[string]string{} }},
		"meta":       {func(n *Node) { n.Meta = nil }, func(n *Node) { n.Meta = map[string]string{} }},
		"drivers":    {func(n *Node) { n.Drivers = nil }, func(n *Node) { n.Drivers = map[string]*DriverInfo{} }},
	} {
		a, b := aNode(), aNode()
		c[0](a)
		c[1](b)
		if NodeEqual(a, b, IgnoreServersPart|IgnoreDriverTimes) {
			t.Errorf("%s: nil and empty are equal", name)
		}
	}
}
