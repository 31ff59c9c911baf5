package state_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"berth/internal/codec"
	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/sharing"
	"berth/structs"
	"berth/test/kit"
)

// aFullRequest returns a node with everything that rows may share. Two such nodes differ only in their names.
func aFullRequest(id string) *structs.NodeRegisterRequest {
	n := aNode(id)
	n.Attributes = map[string]string{"kernel": "linux " + strings.Repeat("6", 3), "unique.name": id}
	n.Meta = map[string]string{"rack": "r1"}
	n.NodeResources.CPU.ReservableCpuCores = []uint16{1, 2}
	n.NodeResources.NodeNetworks = withNetwork(id, "default").NodeResources.NodeNetworks
	n.ReservedResources = &structs.NodeReservedResources{Memory: structs.NodeMemoryResources{MemoryMB: 1}}
	n.Drivers = map[string]*structs.DriverInfo{"exec": {
		Healthy:    true,
		Attributes: map[string]string{"v": "1"},
		UpdateTime: time.Unix(5, 0).UTC(),
	}}
	i, c := anInstance("p", structs.CSIKindNode, true), anInstance("p", structs.CSIKindController, true)
	i.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{"zone": "z1"}}
	return &structs.NodeRegisterRequest{Node: n, CSI: []*structs.CSIPluginInstance{i, c}}
}

func aFullVolume(id string) *structs.CSIVolume {
	v := aVolume(id, "p")
	v.Parameters, v.Context = map[string]string{"type": "ssd"}, map[string]string{"fs": "0"}
	v.MountOptions = &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}
	v.Topologies = []*structs.CSITopology{{Segments: map[string]string{"zone": "z1"}}}
	v.RequestedTopologies = &structs.CSITopologyRequest{
		Required: []*structs.CSITopology{{Segments: map[string]string{"zone": "z1"}}}}
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
		AccessMode:     snw,
		AttachmentMode: structs.CSIFileSystem,
	}}
	v.Secrets = structs.Secrets{"k": "s"}
	return v
}

const manyRows = 64

func richFixture(t *testing.T) (w *fixture, requests []any) {
	w = newFixture(t)
	for n := range manyRows {
		p := aFullRequest(fmt.Sprint("n", n))
		do(w, state.NodeRegister, p)
		v := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{aFullVolume(fmt.Sprint("v", n))}}
		do(w, csi.VolumePut, v)
		requests = append(requests, p, v)
	}
	i := anInstance("p", structs.CSIKindNode, false)
	i.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{"zone": "z2"}}
	p := &structs.NodeUpdateCSIRequest{NodeID: "n2", Upserts: []*structs.CSIPluginInstance{i}}
	do(w, state.NodeUpdateCSI, p)
	return w, append(requests, p)
}

// overwrite changes all values that are reachable from a value.
func overwrite(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			overwrite(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			overwrite(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			overwrite(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			overwrite(v.MapIndex(k))
			if v.Type().Elem().Kind() == reflect.String {
				v.SetMapIndex(k, reflect.ValueOf("overwritten"))
			}
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("overwritten")
		}
	case reflect.Bool:
		if v.CanSet() {
			v.SetBool(!v.Bool())
		}
	case reflect.Int, reflect.Int64:
		if v.CanSet() {
			v.SetInt(v.Int() + 1)
		}
	}
}

// TestRows_KeepNoReferenceToTheRequest checks that a caller may change an applied request.
func TestRows_KeepNoReferenceToTheRequest(t *testing.T) {
	w, requests := richFixture(t)
	before := saved(t, w.Store)
	for _, p := range requests {
		overwrite(reflect.ValueOf(p))
	}
	if !bytes.Equal(before, saved(t, w.Store)) {
		t.Error("rows changed together with their requests")
	}
	do(w, state.NodeRegister, aFullRequest("new"))
	n := state.Node(w.Store.Read(), "new")
	d := n.Drivers["exec"]
	if !d.Healthy ||
		d.Attributes["v"] != "1" || n.Meta["rack"] != "r1" {
		t.Errorf("a new row shares an overwritten value: %+v %+v", n, d)
	}
}

// TestInterner_SharesEqualParts checks that a store holds equal parts once, or a few times. It checks a
// written and a restored store.
func TestInterner_SharesEqualParts(t *testing.T) {
	_, _ = richFixture(t) // displaces texts of other tests, which are held in place of these for a while
	w, _ := richFixture(t)
	restored := state.New()
	err := restored.Load(bytes.NewReader(saved(t, w.Store)))
	if err != nil {
		t.Fatal(err)
	}
	if faults := state.Check(restored.Read()); faults != nil {
		t.Error(faults)
	}
	for name, s := range map[string]*state.Store{"written": w.Store, "restored": restored} {
		copies := copiesIn(s.Read())
		for what, n := range copies {
			// A text replaces another one of its bucket once in eight times.
			if len(n) > manyRows/2 {
				t.Errorf("%s: got %d copies of equal %s, want at most %d", name, len(n), what, manyRows/2)
			}
		}
		if len(copies) != 15 {
			t.Errorf("%s: got %d kinds of parts, want 15", name, len(copies))
		}
	}
}

// copiesIn returns the addresses of each part that is equal in all rows.
func copiesIn(tx *state.ReadTx) map[string]map[any]bool {
	copies := map[string]map[any]bool{}
	at := func(what string, p any) {
		if copies[what] == nil {
			copies[what] = map[any]bool{}
		}
		copies[what][p] = true
	}
	for n := range state.Nodes(tx) {
		at("resources", &n.NodeResources.CPU.ReservableCpuCores[0])
		at("names of networks", textData(n.NodeResources.NodeNetworks[0].Addresses[0].Alias))
		at("reserved resources", n.ReservedResources)
		at("drivers", addressOf(n.Drivers))
		at("metadata", addressOf(n.Meta))
		at("names of instances", &n.CSIInstances()[0])
		at("attributes' values", textData(n.Attributes["kernel"]))
		at("datacenters", textData(n.Datacenter))
		i := csi.Instance(tx, "p", structs.CSIKindNode, n.ID)
		if n.ID != "n2" {
			at("topologies", i.NodeInfo.AccessibleTopology)
		}
		c := csi.Instance(tx, "p", structs.CSIKindController, n.ID)
		at("controllers", c.ControllerInfo)
		if textData(c.NodeID) != textData(n.ID) {
			at("IDs in two tables", textData(c.NodeID))
		} else {
			at("IDs in two tables", nil)
		}
	}
	for v := range state.Volumes(tx, "default", "") {
		at("parameters", addressOf(v.Parameters))
		at("contexts", addressOf(v.Context))
		at("mount options", v.MountOptions)
		at("modes", &v.RequestedCapabilities[0])
		at("topologies", v.Topologies[0])
		at("topologies", v.RequestedTopologies.Required[0])
	}
	return copies
}

func addressOf[M ~map[K]V, K comparable, V any](m M) uintptr {
	return reflect.ValueOf(m).Pointer()
}

func textData(s string) *byte { return unsafe.StringData(s) }

// endedAlloc returns an allocation that has ended, with everything that such allocations share.
func endedAlloc(id string) *structs.Allocation {
	text := func(t string) string { return strings.Clone(t) }
	counts := func() map[string]int { return map[string]int{text("dc1"): 3} }
	return &structs.Allocation{
		ID:           id,
		ClientStatus: structs.AllocComplete,
		Metrics: &structs.AllocMetric{
			NodesEvaluated:     3,
			NodesAvailable:     counts(),
			ClassFiltered:      map[string]int{},
			ConstraintFiltered: counts(),
			ScoreMetaData: []*structs.NodeScoreMeta{
				{NodeID: "n1", Scores: map[string]float64{"binpack": 0.5}},
				nil,
			},
		},
		TaskStates: map[string]*structs.TaskState{
			"none": nil,
			"main": {State: text(structs.TaskDead), Restarts: 2, Events: []*structs.TaskEvent{nil, {
				Type:    text(structs.TaskEventTerminated),
				Time:    7,
				Message: text("Exit Code: 0"),
				Details: map[string]string{"exit_code": "0"},
			}}},
		},
	}
}

// TestInterner_SharesThePartsOfEndedAllocations checks that the metrics and the events of allocations that
// have ended share memory and say the same, and that the request keeps its own.
func TestInterner_SharesThePartsOfEndedAllocations(t *testing.T) {
	shared := func(id string) *structs.Allocation {
		own := endedAlloc(id)
		request := *own
		sharing.Alloc(own, &structs.Allocation{ID: id, ClientStatus: structs.AllocRunning})
		if !codec.SameBytes(own, endedAlloc(id)) {
			t.Errorf("the row says %+v", own)
		}
		overwrite(reflect.ValueOf(request.Metrics))
		overwrite(reflect.ValueOf(request.TaskStates))
		if !codec.SameBytes(own, endedAlloc(id)) {
			t.Errorf("the row has changed with the request: %+v", own)
		}
		return own
	}
	for range 100 {
		shared("former")
	}
	a, b := shared("a"), shared("b")
	for what, same := range map[string]bool{
		"available": addressOf(a.Metrics.NodesAvailable) == addressOf(b.Metrics.NodesAvailable),
		"empty":     addressOf(a.Metrics.ClassFiltered) == addressOf(b.Metrics.ClassFiltered),
		"scores":    a.Metrics.ScoreMetaData[0] == b.Metrics.ScoreMetaData[0],
		"messages":  sharesAMessage(),
	} {
		if !same {
			t.Errorf("two allocations have their own %s", what)
		}
	}
	before := a.Metrics
	sharing.Alloc(a, b)
	if a.Metrics != before {
		t.Error("the parts are shared again with each change")
	}
}

// sharesAMessage tries several messages, because two texts with one place in the interner displace each
// other.
func sharesAMessage() bool {
	for code := range 8 {
		message := func() *byte {
			a := endedAlloc("a")
			event := a.TaskStates["main"].Events[1]
			event.Message = fmt.Sprint("Exit Code: ", code)
			sharing.Alloc(a, &structs.Allocation{ID: "a", ClientStatus: structs.AllocRunning})
			return textData(a.TaskStates["main"].Events[1].Message)
		}
		for range 100 {
			message()
		}
		first := message()
		if message() == first {
			return true
		}
	}
	return false
}

// TestInterner_SharesThePartsOfEvaluations checks the numbers and the texts of evaluations.
func TestInterner_SharesThePartsOfEvaluations(t *testing.T) {
	shared := func() *structs.Evaluation {
		e := structs.Evaluation{
			JobID:             strings.Clone("a-job"),
			TriggeredBy:       strings.Clone(structs.TriggerAllocStop),
			QueuedAllocations: map[string]int{"g": 0},
		}
		own := e.Copy()
		sharing.Eval(own, nil)
		if !codec.SameBytes(own, &e) {
			t.Errorf("the row says %+v", own)
		}
		return own
	}
	for range 100 {
		shared()
	}
	a, b := shared(), shared()
	if addressOf(a.QueuedAllocations) != addressOf(b.QueuedAllocations) ||
		textData(a.JobID) != textData(b.JobID) ||
		textData(a.TriggeredBy) != textData(b.TriggeredBy) {
		t.Errorf("%+v and %+v have parts of their own", a, b)
	}
	s := state.New()
	kit.Must(t, s.Write(1, func(tx *state.WriteTx) error {
		schema.Evals.Put(tx, &structs.Evaluation{ID: "e", JobID: strings.Clone("a-job")})
		return nil
	}))
	if textData(state.Eval(s.Read(), "e").JobID) != textData(a.JobID) {
		t.Error("the row of the table has texts of its own")
	}
}

// TestInterner_SharesTheTextsOfANode places on nodes whose texts are too long for the interner.
func TestInterner_SharesTheTextsOfANode(t *testing.T) {
	w := newFixture(t)
	long := strings.Repeat("n", 70)
	w.Node(long + "1")
	w.Node(long + "2")
	p := w.PlanOf(w.Job(aJob("j", structs.JobService)), "a@"+long+"1", "b@"+long+"2", "c@"+long+"1")
	for _, a := range p.Place {
		a.NodeName = strings.Clone(state.Node(w.Store.Read(), a.NodeID).Name)
	}
	do(w, state.PlanApply, p)
	tx := w.Store.Read()
	for _, id := range []string{"a", "b", "c"} {
		a := state.Alloc(tx, id)
		n := state.Node(tx, a.NodeID)
		if textData(a.NodeID) != textData(n.ID) || textData(a.NodeName) != textData(n.Name) {
			t.Errorf("allocation %s does not share the texts of its node", id)
		}
	}
}

// TestInterner_HoldsNoSecrets checks that secrets stay in memory no longer than their volume.
func TestInterner_HoldsNoSecrets(t *testing.T) {
	w, _ := richFixture(t)
	tx := w.Store.Read()
	a, b := csi.Volume(tx, "default", "v1"), csi.Volume(tx, "default", "v2")
	if addressOf(a.Secrets) == addressOf(b.Secrets) {
		t.Error("two volumes share their secrets")
	}
	secret := a.Secrets["k"]
	for range 1000 {
		mvcc.InternText(strings.Clone(secret)) // until it has replaced another text
	}
	if textData(secret) == textData(mvcc.InternText(strings.Clone(secret))) {
		t.Error("a secret is a shared text")
	}
}

// TestInterner_DistinguishesDifferentParts changes one field at a time. Unequal parts must stay unequal.
func TestInterner_DistinguishesDifferentParts(t *testing.T) {
	first := aFullRequest("n1").Node
	sharing.NodeReport(first)
	before := maps.Clone(first.Drivers)
	for what, change := range map[string]func(*structs.Node){
		"health":      func(n *structs.Node) { n.Drivers["exec"].Healthy = false },
		"detected":    func(n *structs.Node) { n.Drivers["exec"].Detected = true },
		"description": func(n *structs.Node) { n.Drivers["exec"].HealthDescription = "x" },
		"time": func(n *structs.Node) {
			n.Drivers["exec"].UpdateTime = time.Unix(6, 0).UTC()
		},
		"attributes": func(n *structs.Node) { n.Drivers["exec"].Attributes = nil },
		"another":    func(n *structs.Node) { n.Drivers["raw"] = nil },
	} {
		n := aFullRequest("n1").Node
		change(n)
		want := n.Drivers
		sharing.NodeReport(n)
		if addressOf(n.Drivers) == addressOf(first.Drivers) ||
			!reflect.DeepEqual(n.Drivers, want) {
			t.Errorf("another %s: got %v, want %v, not shared", what, n.Drivers, want)
		}
	}
	if !maps.Equal(before, first.Drivers) {
		t.Error("the shared value has changed")
	}
	for _, other := range []structs.NodeResources{
		{CPU: structs.NodeCPUResources{CpuShares: 4000}},
		{CPU: structs.NodeCPUResources{CpuShares: 4000, ReservableCpuCores: []uint16{}}},
		{CPU: structs.NodeCPUResources{CpuShares: 4000, TotalCpuCores: 1}},
		{CPU: structs.NodeCPUResources{CpuShares: 4000}, Disk: structs.NodeDiskResources{DiskMB: 1}},
	} {
		if got := mvcc.InternValue(&other); !codec.SameBytes(*got, other) {
			t.Errorf("got %+v, want %+v", *got, other)
		}
	}
	for _, m := range []*structs.CSIMountOptions{
		{FSType: "ext4"},
		{FSType: "ext4", MountFlags: []string{}},
		{FSType: "ext4", MountFlags: []string{"ro"}},
		{MountFlags: []string{"ro"}},
	} {
		if got := mvcc.InternValue(m); !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
}
