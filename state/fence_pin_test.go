package state_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// named registers a node with a name.
func (w *fixture) named(id, name string, edits ...func(*structs.Node)) {
	w.T.Helper()
	n := &structs.Node{ID: id, Name: name, SecretID: "s", Status: structs.NodeReady}
	for _, edit := range edits {
		edit(n)
	}
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: n, WriteOptions: w.Now()})
}

// joined records the certificate of a node, whose join token bound a name, "" for none.
func (w *fixture) joined(id, name string) {
	w.T.Helper()
	put := func(tx *state.WriteTx, c *cluster.MachineCertificate) error {
		schema.Certificates.Put(tx, c)
		return nil
	}
	do(w, put, &cluster.MachineCertificate{
		Role: cluster.JoinNode, ID: id, NodeName: name, Serial: "1", KeyHash: []byte(id), NotAfter: 1000,
	})
}

func (w *fixture) pin(id string, pins ...string) {
	w.T.Helper()
	p := &cluster.NodeFencePinRequest{NodeID: id, By: "ann", Pins: map[string]string{}, WriteOptions: w.Now()}
	for _, pin := range pins {
		name, value, _ := strings.Cut(pin, "=")
		p.Pins[name] = value
	}
	do(w, state.FencePinsChange, p)
}

// target shows a target with its name, or the reason why it has none, and its pins.
func (w *fixture) target(id string) string {
	w.T.Helper()
	tx := w.Store.Read()
	t := state.FenceTargetOf(tx, state.Node(tx, id))
	if t.NodeID != id || (t.Name == "") != (t.Unnamed != "") {
		w.T.Errorf("node %s: got %+v", id, t)
	}
	return strings.TrimSpace(fmt.Sprintf("%s%s %v", t.Name, t.Unnamed, t.Pins))
}

func (w *fixture) wantTarget(id, want string) {
	w.T.Helper()
	if got := w.target(id); got != want {
		w.T.Errorf("node %s: got %q, want %q", id, got, want)
	}
}

// TestFenceTarget_HasNothingThatItsNodeTells: a lost node that names another machine as itself would be
// released by the end of that one.
func TestFenceTarget_HasNothingThatItsNodeTells(t *testing.T) {
	for name, bound := range map[string]string{"a bound name": "web1", "no bound name": ""} {
		w := keyedFixture(t)
		w.named("n1", "web1")
		w.named("n2", "web2")
		w.joined("n1", bound)
		w.joined("n2", "web2")
		w.pin("n1", "bmc=10.0.9.17", "plug=vm-1")
		w.pin("n2", "bmc=10.0.9.18", "plug=vm-2")
		before := w.target("n1")
		if !strings.Contains(before, "10.0.9.17") {
			t.Errorf("%s: got %s", name, before)
		}

		lies := map[string]string{
			"bmc": "10.0.9.18", "pin.bmc": "10.0.9.18", "plug": "vm-2", "fence": "x", "name": "web2",
			"unique.hostname": "web2", "node.unique.name": "web2", "vmid": "2",
		}
		w.named("n1", "web1", func(n *structs.Node) {
			n.Meta = lies
			n.Attributes = lies
			n.NodeClass = "web2"
			n.NodePool = "web2"
			n.Datacenter = "web2"
			n.HTTPAddr = "10.0.9.18:4746"
		})
		w.wantTarget("n1", before)
		if bound == "" {
			w.named("n1", "web2") // the endpoint rejects it for a bound name
			w.wantTarget("n1", before)
		}
	}
}

// TestFenceTarget_HasTheNameOfOneMachine: a name counts if the servers gave it to the machine of the node
// alone. Else its pins are those of its ID.
func TestFenceTarget_HasTheNameOfOneMachine(t *testing.T) {
	late := 1000 + int64(trust.RenewWithin) + 1
	const unbound = "no join token bound its name"
	for name, c := range map[string]struct {
		prepare func(w *fixture)
		want    string
	}{
		"no certificate":  {func(*fixture) {}, unbound + " map[of:id]"},
		"a token for any": {func(w *fixture) { w.joined("n1", "") }, unbound + " map[of:id]"},
		"a token for it":  {func(w *fixture) { w.joined("n1", "web1") }, "web1 map[of:name]"},
		"another token":   {func(w *fixture) { w.joined("n1", "web9") }, `its join token bound the name "web9", with which it has not registered map[of:id]`},
		"of another node": {func(w *fixture) { w.joined("n2", "web1") }, unbound + " map[of:id]"},
		"a name of a name": {func(w *fixture) {
			w.joined("n1", "web1")
			w.joined("n2", "web10")
		}, "web1 map[of:name]"},
		"a successor": {func(w *fixture) {
			w.joined("n1", "web1")
			w.named("successor", "web1")
			w.joined("successor", "web1")
		}, `node successo has joined as "web1", too: delete the one that is gone, with berth node purge map[of:id]`},
		"a successor after the end of the former": {func(w *fixture) {
			w.joined("n1", "web1")
			w.joined("gone", "web1")
		}, "web1 map[of:name]"},
		"another node that takes the name": {func(w *fixture) {
			w.joined("n1", "web1")
			w.named("n3", "web1")
		}, "web1 map[of:name]"},
		"a record that is forgotten": {func(w *fixture) {
			w.joined("n1", "web1")
			token := aJoinToken("later", 1)
			token.ExpireTime = late + 1
			do(w, trust.JoinTokenPut, token)
			other := aCertificate("later", "n7", "k")
			other.Now = late
			other.NotAfter = late + 1000
			do(w, trust.MachineCertificateSet, other)
		}, unbound + " map[of:id]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := keyedFixture(t)
			w.named("n1", "web1")
			w.named("n2", "web2")
			w.pin("n1", "of=id")
			w.named("other", "web1")
			w.joined("other", "web1")
			w.pin("other", "of=name")
			do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{
				NodeIDs: []string{"other"}, WriteOptions: w.Now(),
			})
			c.prepare(w)
			w.wantTarget("n1", c.want)
		})
	}
}

// TestFencePins_OfAnIDGoWithItsNode: another machine may join with the ID of a node that was deleted.
func TestFencePins_OfAnIDGoWithItsNode(t *testing.T) {
	w := keyedFixture(t)
	w.named("n1", "web1")
	w.named("n2", "web2")
	w.joined("n2", "web2")
	w.pin("n1", "bmc=1")
	w.pin("n2", "bmc=2")
	do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{
		NodeIDs: []string{"n1", "n2"}, WriteOptions: w.Now(),
	})
	w.named("n1", "web1")
	w.named("n3", "web2")
	w.joined("n3", "web2")
	w.wantTarget("n1", "no join token bound its name map[]")
	w.wantTarget("n3", "web2 map[bmc:2]")
	tx := w.Store.Read()
	if p := state.InheritedPin(tx, state.FenceTargetOf(tx, state.Node(tx, "n3"))); p == nil || p.NodeID != "n2" {
		t.Errorf("the inherited pin is %+v", p)
	}
	want := `n3: its pin "bmc" was given for node n2, which had the name web2 before`
	if got := w.fenceWarnings(); !slices.Equal(got, []string{want}) {
		t.Errorf("the warnings are %q, want %q", got, want)
	}
	w.pin("n3", "bmc=2")
	if got := w.fenceWarnings(); got != nil {
		t.Errorf("after the pin was given anew: %q", got)
	}
	tx = w.Store.Read()
	if p := state.InheritedPin(tx, state.FenceTargetOf(tx, state.Node(tx, "n3"))); p != nil {
		t.Errorf("a pin that was given anew is inherited: %+v", p)
	}
}

func TestFencePinsChange_IsBounded(t *testing.T) {
	many := map[string]string{}
	for i := range cluster.MaxFencePins + 1 {
		many[fmt.Sprint("p", i)] = "x"
	}
	half := map[string]string{}
	for i := range cluster.MaxFencePins {
		half[fmt.Sprint("q", i)] = "x"
	}
	bmc := func(value string) map[string]string { return map[string]string{"bmc": value} }
	one := bmc("1")
	type request = cluster.NodeFencePinRequest
	for name, c := range map[string]struct {
		req  request
		kind structs.Kind
	}{
		"nothing":           {request{NodeID: "n1"}, structs.KindInvalid},
		"no such node":      {request{NodeID: "n9", Pins: one}, structs.KindNotFound},
		"no name":           {request{NodeID: "n1", Pins: map[string]string{"": "x"}}, structs.KindInvalid},
		"a name with a dot": {request{NodeID: "n1", Pins: map[string]string{"a.b": "x"}}, structs.KindInvalid},
		"no value":          {request{NodeID: "n1", Pins: map[string]string{"bmc": " "}}, structs.KindInvalid},
		"two lines":         {request{NodeID: "n1", Pins: bmc("1\naction=on")}, structs.KindInvalid},
		"a long value":      {request{NodeID: "n1", Pins: bmc(strings.Repeat("x", 256))}, structs.KindInvalid},
		"a long operator":   {request{NodeID: "n1", Pins: one, By: strings.Repeat("x", 256)}, structs.KindInvalid},
		"too many at once":  {request{NodeID: "n1", Pins: many}, structs.KindInvalid},
		"too many":          {request{NodeID: "n1", Pins: half}, structs.KindPrecondition},
		"both":              {request{NodeID: "n1", Pins: one, Remove: []string{"bmc"}}, structs.KindInvalid},
		"another pin":       {request{NodeID: "n1", Remove: []string{"vmid"}}, structs.KindNotFound},
		"a pin of no node":  {request{NodeID: "web7", Left: true, Pins: one}, structs.KindInvalid},
		"a name without":    {request{NodeID: "web7", Left: true, Remove: []string{"bmc"}}, structs.KindNotFound},
	} {
		w := keyedFixture(t)
		w.named("n1", "web1")
		w.pin("n1", "bmc=10.0.9.17")
		err := try(w, state.FencePinsChange, &c.req)
		if !structs.IsKind(err, c.kind) {
			t.Errorf("%s: %v, want %s", name, err, c.kind)
		}
		w.wantTarget("n1", "no join token bound its name map[bmc:10.0.9.17]")
	}
}

func TestFencePinsChange_RemovesPins(t *testing.T) {
	w := keyedFixture(t)
	w.named("n1", "web1")
	w.joined("n1", "web1")
	w.pin("n1", "bmc=1", "vmid=2")
	remove := &cluster.NodeFencePinRequest{NodeID: "n1", Remove: []string{"bmc"}, WriteOptions: w.Now()}
	do(w, state.FencePinsChange, remove)
	w.wantTarget("n1", "web1 map[vmid:2]")
	do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}, WriteOptions: w.Now()})
	left := &cluster.NodeFencePinRequest{
		NodeID: "web1", Left: true, Remove: []string{"vmid"}, WriteOptions: w.Now(),
	}
	do(w, state.FencePinsChange, left)
	if all := slices.Collect(state.FencePins(w.Store.Read())); len(all) != 0 {
		t.Errorf("the pins are %+v", all)
	}
}

// TestFencePins_OutliveARestore: an archive does not take a machine back to its former place.
func TestFencePins_OutliveARestore(t *testing.T) {
	w := keyedFixture(t)
	w.named("n1", "web1")
	saved := w.Save()
	w.pin("n1", "bmc=1")
	pinned := w.Save()
	w.restored(pinned).wantTarget("n1", "no join token bound its name map[bmc:1]")
	w.restored(saved).wantTarget("n1", "no join token bound its name map[bmc:1]")
	w.pin("n1", "bmc=2", "vmid=7")
	w.restored(pinned).wantTarget("n1", "no join token bound its name map[bmc:2 vmid:7]")
	both := w.Save()
	remove := &cluster.NodeFencePinRequest{NodeID: "n1", Remove: []string{"vmid"}, WriteOptions: w.Now()}
	do(w, state.FencePinsChange, remove)
	w.restored(both).wantTarget("n1", "no join token bound its name map[bmc:2]")

	keyedFixture(t).restored(pinned).wantTarget("n1", "no join token bound its name map[bmc:1]")
}

// TestFenceWarnings_AreAboutNodesThatNeedAFence: only the loss of a node with a volume of on_node_loss fence
// has the servers fence it by themselves.
func TestFenceWarnings_AreAboutNodesThatNeedAFence(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	if got := w.fenceWarnings(); got != nil {
		t.Errorf("the volume holds: %q", got)
	}
	do(w, csi.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", OnNodeLoss: structs.LossFence})
	if got := w.fenceWarnings(); !reflect.DeepEqual(got, []string{"n1: it has no bmc"}) {
		t.Errorf("got %q", got)
	}
	w.pin("n1", "bmc=1")
	if got := w.fenceWarnings(); got != nil {
		t.Errorf("after the pin: %q", got)
	}
}

// fenceWarnings are those of a device that needs the pin bmc.
func (w *fixture) fenceWarnings() (all []string) {
	fault := func(t *state.FenceTarget) string {
		if t.Pins["bmc"] == "" {
			return "it has no bmc"
		}
		return ""
	}
	for x := range state.FenceWarnings(w.Store.Read(), fault) {
		all = append(all, x.NodeID+": "+x.Text)
	}
	return all
}
