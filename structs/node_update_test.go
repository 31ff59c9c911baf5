package structs

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/internal/codec"
)

func aNode() *Node {
	return &Node{ID: "n", SecretID: "s", Name: "name", Datacenter: "dc1", NodePool: "default", HTTPAddr: "10.0.0.1:4646", Status: NodeReady,
		Attributes: map[string]string{"kernel": "6", "driver.exec": "1"}, Meta: map[string]string{"rack": "1"},
		NodeResources: &NodeResources{CPU: NodeCPUResources{CpuShares: 4000}}, ReservedResources: &NodeReservedResources{},
		Drivers: map[string]*DriverInfo{"exec": {Detected: true, Healthy: true, Attributes: map[string]string{"driver.exec.v": "1"}, UpdateTime: time.Unix(9, 0)}}}
}

// TestNodeChanges_CarryEachField: what a node can say of itself, whatever fields it comes to have, is carried by an
// update; the rest is the servers'.
func TestNodeChanges_CarryEachField(t *testing.T) {
	servers := []string{"ComputedClass", "Status", "StatusDescription", "StatusUpdatedAt", "Unaccounted", "SchedulingEligibility", "Drain", "Events", "Indexes"}
	forGood := []string{"ID", "SecretID"} // another ID is another node
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Node]()) {
		if !f.IsExported() || len(f.Index) > 1 || slices.Contains(forGood, f.Name) {
			continue
		}
		known, is := aNode(), aNode()
		alter(t, f.Name, reflect.ValueOf(is).Elem().FieldByIndex(f.Index))
		p := NodeChanges(known, is)
		switch ours := slices.Contains(servers, f.Name); {
		case ours && p != nil:
			t.Errorf("%s is the servers', and a node sends %+v", f.Name, p)
		case !ours && p == nil:
			t.Errorf("%s changes, and is no news", f.Name)
		case !ours && (p.Changed(known).Digest() != p.Digest || p.Digest != is.Digest()):
			t.Errorf("%s changes, and is not carried by an update", f.Name)
		}
	}
}

// alter gives a field another value.
func alter(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case string:
		v.SetString(v.String() + "x")
	case bool:
		v.SetBool(!v.Bool())
	case int64:
		v.SetInt(v.Int() + 1)
	case map[string]string:
		v.Set(reflect.ValueOf(map[string]string{"other": "value"}))
	case map[string]*DriverInfo:
		v.Set(reflect.ValueOf(map[string]*DriverInfo{"other": {Detected: true}}))
	case *NodeResources:
		v.Set(reflect.ValueOf(&NodeResources{Memory: NodeMemoryResources{MemoryMB: 7}}))
	case *NodeReservedResources:
		v.Set(reflect.ValueOf(&NodeReservedResources{Memory: NodeMemoryResources{MemoryMB: 7}}))
	case []*NodeEvent:
		v.Set(reflect.ValueOf([]*NodeEvent{{Message: "x"}}))
	case Indexes:
		v.Set(reflect.ValueOf(Indexes{CreateIndex: 7, ModifyIndex: 9}))
	default:
		t.Fatalf("the test does not know how to change %s", name)
	}
}

// TestNodeChanges_MakeTheNewNode holds it for any two nodes, over the wire, and that neither is touched.
func TestNodeChanges_MakeTheNewNode(t *testing.T) {
	texts := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.SampledFrom([]string{"", "1", "2"}), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *Node {
			n := aNode()
			n.Attributes, n.Meta, n.Drivers = texts.Draw(t, label+" attributes"), texts.Draw(t, label+" meta"), nil
			for name, v := range texts.Draw(t, label+" drivers") {
				copyInto(&n.Drivers, name, &DriverInfo{Healthy: v == "1", HealthDescription: v, UpdateTime: time.Unix(rapid.Int64Range(0, 9).Draw(t, "time"), 0)})
			}
			n.NodeClass = rapid.SampledFrom([]string{"", "x"}).Draw(t, label+" class")
			return n
		}
		known, is := draw("known"), draw("is")
		before := [2]string{known.Digest(), is.Digest()}
		p := NodeChanges(known, is)
		if p == nil {
			if before[0] != before[1] {
				t.Fatal("what differs is no news")
			}
			return
		}
		b, err := codec.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		got := new(NodeUpdateRequest)
		if err := codec.Decode(b, got); err != nil {
			t.Fatal(err)
		}
		if d := got.Changed(known).Digest(); d != is.Digest() || d != got.Digest {
			t.Fatalf("%+v does not make %+v of %+v", got, is, known)
		}
		if before != [2]string{known.Digest(), is.Digest()} {
			t.Fatal("a node was changed")
		}
		for k, v := range p.Attributes {
			if was, known := known.Attributes[k]; known && was == v {
				t.Fatalf("attribute %s is sent, which is known", k)
			}
		}
		if p.Settings != nil && is.NodeClass == known.NodeClass {
			t.Fatal("settings are sent, which are known")
		}
	})
}

func TestNodeChanges_IgnoreTimes(t *testing.T) {
	known, is := aNode(), aNode()
	is.Drivers["exec"].UpdateTime = time.Unix(10, 0)
	is.Drivers["exec"].Attributes = maps.Clone(is.Drivers["exec"].Attributes)
	if p := NodeChanges(known, is); p != nil {
		t.Errorf("%+v", p)
	}
	is.Meta["rack"] = "2"
	if p := NodeChanges(known, is); p == nil || p.Drivers != nil || p.Attributes != nil || p.Settings != nil || len(p.Meta) != 1 {
		t.Errorf("%+v", p)
	}
}
