package structs

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestNodeEqual_ComparesEachField changes one field of a node at a time, also new fields.
func TestNodeEqual_ComparesEachField(t *testing.T) {
	ignored := []string{
		"Status", "StatusDescription", "StatusUpdatedAt", "Epoch", "Returning", "Leftovers",
		"SchedulingEligibility", "Drain", "DrainStrategy", "LastDrain", "Events", "Indexes",
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Node]()) {
		if !f.IsExported() || len(f.Index) > 1 {
			continue
		}
		known := testNode()
		changed := testNode()
		changeField(t, f.Name, reflect.ValueOf(changed).Elem().FieldByIndex(f.Index))
		if NodeEqual(known, changed, 0) || NodeEqual(changed, known, 0) {
			t.Errorf("%s differs, want unequal nodes", f.Name)
		}
		want := slices.Contains(ignored, f.Name)
		if NodeEqual(known, changed, IgnoreServersPart) != want ||
			NodeEqual(changed, known, IgnoreServersPart) != want {
			t.Errorf("%s differs; without the servers' part the nodes are equal: want %t", f.Name, want)
		}
	}
}

// TestNodeDropServerFields_LeavesTheReport fills one field of a node at a time, also new fields.
func TestNodeDropServerFields_LeavesTheReport(t *testing.T) {
	dropped := []string{
		"ComputedClass", "StatusDescription", "StatusUpdatedAt", "Epoch", "BootID", "Machine", "Store", "Mark",
		"Returning", "Leftovers", "Drain", "DrainStrategy", "LastDrain", "Events", "Indexes",
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Node]()) {
		if !f.IsExported() || len(f.Index) > 1 {
			continue
		}
		n := testNode()
		field := reflect.ValueOf(n).Elem().FieldByIndex(f.Index)
		changeField(t, f.Name, field)
		n.DropServerFields()
		if want := slices.Contains(dropped, f.Name); field.IsZero() != want {
			t.Errorf("%s: it is dropped: %v, want %v", f.Name, field.IsZero(), want)
		}
	}
}

func TestNodeEqual_PluginInstancesAreTheServersPart(t *testing.T) {
	known := testNode()
	changed := testNode()
	changed.SetCSIInstances([]CSIInstanceKey{{PluginID: "p", Kind: CSIKindNode}})
	if NodeEqual(known, changed, 0) || !NodeEqual(known, changed, IgnoreServersPart) {
		t.Error("the keys of plugin instances are compared wrongly")
	}
}

func TestNodeEqual_DriverTimes(t *testing.T) {
	known := testNode()
	changed := testNode()
	changed.Drivers["exec"].UpdateTime = time.Unix(10, 0)
	if NodeEqual(known, changed, 0) || !NodeEqual(known, changed, IgnoreDriverTimes) {
		t.Error("the time of a driver is compared wrongly")
	}
	changed.Drivers["exec"].Healthy = false
	if NodeEqual(known, changed, IgnoreDriverTimes) {
		t.Error("the health of a driver is not compared")
	}
}

func TestNodeEqual_DistinguishesNilFromEmpty(t *testing.T) {
	for name, c := range map[string][2]func(*Node){
		"attributes": {func(n *Node) { n.Attributes = nil }, func(n *Node) { n.Attributes = map[string]string{} }},
		"meta":       {func(n *Node) { n.Meta = nil }, func(n *Node) { n.Meta = map[string]string{} }},
		"drivers":    {func(n *Node) { n.Drivers = nil }, func(n *Node) { n.Drivers = map[string]*DriverInfo{} }},
	} {
		a, b := testNode(), testNode()
		c[0](a)
		c[1](b)
		if NodeEqual(a, b, IgnoreServersPart|IgnoreDriverTimes) {
			t.Errorf("%s: nil and empty are equal", name)
		}
	}
}

func testNode() *Node {
	return &Node{
		ID:                "n",
		SecretID:          "s",
		Name:              "name",
		Datacenter:        "dc1",
		NodePool:          "default",
		HTTPAddr:          "10.0.0.1:4646",
		Status:            NodeReady,
		Attributes:        map[string]string{"kernel": "6", "driver.exec": "1"},
		Meta:              map[string]string{"rack": "1"},
		NodeResources:     &NodeResources{CPU: NodeCPUResources{CpuShares: 4000}},
		ReservedResources: &NodeReservedResources{},
		Drivers: map[string]*DriverInfo{
			"exec": {
				Detected:   true,
				Healthy:    true,
				Attributes: map[string]string{"driver.exec.v": "1"},
				UpdateTime: time.Unix(9, 0),
			},
		},
	}
}

// changeField gives a field another value.
func changeField(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case string, MachineID:
		v.SetString(v.String() + "x")
	case bool:
		v.SetBool(!v.Bool())
	case int64:
		v.SetInt(v.Int() + 1)
	case uint64:
		v.SetUint(v.Uint() + 1)
	case map[string]string:
		v.Set(reflect.ValueOf(map[string]string{"other": "value"}))
	case map[string]*DriverInfo:
		v.Set(reflect.ValueOf(map[string]*DriverInfo{"other": {Detected: true}}))
	case map[string]*HostVolume:
		v.Set(reflect.ValueOf(map[string]*HostVolume{"other": {Path: "/srv"}}))
	case *NodeResources:
		v.Set(reflect.ValueOf(&NodeResources{Memory: NodeMemoryResources{MemoryMB: 7}}))
	case *NodeReservedResources:
		v.Set(reflect.ValueOf(&NodeReservedResources{Memory: NodeMemoryResources{MemoryMB: 7}}))
	case *DrainStrategy:
		v.Set(reflect.ValueOf(&DrainStrategy{StartedAt: time.Unix(10, 0)}))
	case *DrainMetadata:
		v.Set(reflect.ValueOf(&DrainMetadata{Status: DrainComplete}))
	case []NodeLeftover:
		v.Set(reflect.ValueOf([]NodeLeftover{{VolumeID: "v"}}))
	case []*NodeEvent:
		v.Set(reflect.ValueOf([]*NodeEvent{{Message: "x"}}))
	case Indexes:
		v.Set(reflect.ValueOf(Indexes{CreateIndex: 7, ModifyIndex: 9}))
	default:
		t.Fatalf("the test does not know how to change %s", name)
	}
}
