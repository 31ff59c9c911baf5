package state_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
)

// intendedUsers renders the result of IntendedAgainst.
func intendedUsers(tx *state.ReadTx, c *structs.CSIClaim) string {
	return ids(state.IntendedAgainst(tx, c), func(i *structs.CSIClaim) string { return i.AllocID })
}

// allocUsing returns a live allocation that is to use volumes.
func allocUsing(ns, id string, uses ...structs.CSIVolumeUse) *structs.Allocation {
	return &structs.Allocation{
		ID:            id,
		Namespace:     ns,
		JobID:         "j",
		TaskGroup:     "g",
		NodeID:        "n1",
		DesiredStatus: structs.AllocDesiredRun,
		ClientStatus:  structs.AllocPending,
		Resources:     &structs.Resources{},
		CSIVolumes:    uses,
	}
}

func use(volume string, mode string, access structs.CSIAccessMode) structs.CSIVolumeUse {
	return structs.CSIVolumeUse{
		VolumeID:       volume,
		AccessMode:     access,
		AttachmentMode: structs.CSIFileSystem,
		Mode:           mode,
	}
}

func TestIntendedAgainst_FindsPendingUsers(t *testing.T) {
	w := &uncheckedStore{s: state.New()}
	w.do(func(tx *state.WriteTx) {
		for _, a := range []*structs.Allocation{
			allocUsing("default", "a1", use("v", rd, mnsw), use("w", wr, snw)),
			allocUsing("default", "a2", use("v", wr, mnsw)),
			allocUsing("default", "a3", use("v", wr, mnsw), use("v", rd, mnsw), use("vv", wr, mnsw)),
			allocUsing("default", "a4", use("w", wr, mnmw)),
			allocUsing("other", "o1", use("v", wr, mnsw), use("zz", wr, snw)),
		} {
			schema.Allocs.Put(tx, a)
		}
		ended := allocUsing("default", "a5", use("v", wr, mnsw))
		ended.ClientStatus = structs.AllocFailed
		schema.Allocs.Put(tx, ended)
	})
	for _, c := range []struct {
		volume, mode string
		access       structs.CSIAccessMode
		want         string
	}{
		{"v", wr, mnsw, "a2 a3"},
		{"v", rd, mnsw, ""},
		{"v", rd, mnr, "a1 a3 a2 a3"}, // another access mode excludes each of them
		{"w", wr, mnmw, "a1"},
		{"w", wr, snw, "a4 a1"},
		{"vv", wr, mnsw, "a3"},
		{"zz", wr, mnsw, ""}, // another namespace's
		{"u", wr, snw, ""},
	} {
		claim := aClaim(c.volume, "new", c.mode, c.access)
		claim.Namespace = "default"
		got := intendedUsers(w.s.Read(), claim)
		if got != c.want {
			t.Errorf("%s %s %s: got %q, want %q", c.volume, c.mode, c.access, got, c.want)
		}
	}
}

func TestAllocs_NameTheirVolumesUntilTheyClaim(t *testing.T) {
	w := threeNodesWithDB(t)
	w.Alloc("d1", "db", "n1")
	against := aClaim("v", "c1", wr, snw)
	against.Namespace = "default"
	if got := intendedUsers(w.Store.Read(), against); got != "d1" {
		t.Errorf("after the placement: got %q, want d1", got)
	}
	if got := state.IntendedBy(w.Store.Read(), state.Alloc(w.Store.Read(), "d1")); len(got) != 1 ||
		got[0].VolumeID != "v" ||
		got[0].PluginID != "p" {
		t.Errorf("the intended claims are %+v", got)
	}
	w.Claim(aClaim("v", "d1", wr, snw))
	if got := intendedUsers(w.Store.Read(), against); got != "" {
		t.Errorf("after the claim: got %q, want none", got)
	}
	if got := state.IntendedBy(w.Store.Read(), state.Alloc(w.Store.Read(), "d1")); len(got) != 0 {
		t.Errorf("the intended claims are %+v", got)
	}
}

func TestPluginNodes_ListsUsableNodes(t *testing.T) {
	w := &uncheckedStore{s: state.New()}
	for i := range 5 {
		k := anInstance("p", structs.CSIKindNode, true)
		k.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{
			"zone": fmt.Sprint("z", i%2),
			"host": fmt.Sprint("n", i),
		}}
		w.do(func(tx *state.WriteTx) {
			kit.Must(t, state.NodeRegister(tx, &structs.NodeRegisterRequest{
				Node: aNode(fmt.Sprint("n", i)),
				CSI: []*structs.CSIPluginInstance{
					k,
					anInstance("p", structs.CSIKindController, true),
					anInstance("q", structs.CSIKindController, true),
				},
			}))
		})
	}
	tx := w.s.Read()
	node := func(n *structs.Node) string { return n.ID }
	list := func(plugin, from string, fits func(*structs.CSIPluginInstance) bool) string {
		var found []*structs.Node
		next := state.PluginNodes(tx, plugin, from, fits)
		for n := next(); n != nil; n = next() {
			found = append(found, n)
		}
		return ids(slices.Values(found), node)
	}
	all := func(*structs.CSIPluginInstance) bool { return true }
	for from, want := range map[string]string{
		"":    "n0 n1 n2 n3 n4",
		"n3":  "n3 n4",
		"n2z": "n3 n4",
		"o":   "",
	} {
		if got := list("p", from, all); got != want {
			t.Errorf("from %q: %q, want %q", from, got, want)
		}
	}
	odd := func(i *structs.CSIPluginInstance) bool { return i.NodeID == "n1" || i.NodeID == "n3" }
	if got := list("p", "", odd); got != "n1 n3" {
		t.Errorf("got %q of the nodes that fit", got)
	}
	if got := list("q", "", all); got != "" {
		t.Errorf("got nodes %q of a plugin without node halves", got)
	}
	at, own := state.PluginNodesAt(tx, "p", &structs.CSITopology{Segments: map[string]string{
		"zone": "z1",
		"host": "n3",
	}})
	if got := ids(slices.Values(at), node); got != "n3" || !own {
		t.Errorf("in a topology of one node: got %q, want n3", got)
	}
	at, own = state.PluginNodesAt(tx, "p", &structs.CSITopology{Segments: map[string]string{"HOST": "n3"}})
	if !own || len(at) != 1 {
		t.Errorf("with a key in another case: got %v, %v", at, own)
	}
	if _, own := state.PluginNodesAt(tx, "p", nil); own {
		t.Error("the topology nil belongs to one node")
	}
	at, own = state.PluginNodesAt(tx, "p", &structs.CSITopology{Segments: map[string]string{"zone": "z1"}})
	if own || len(at) > 0 {
		t.Errorf("a zone belongs to one node: %v", at)
	}
	if got := state.PluginSpread(tx, "p"); got != 5 {
		t.Errorf("the plugin is on %d nodes, want 5", got)
	}
}

// TestNewestForPlans_FollowsTheTablesThatUnblock: and no other.
func TestNewestForPlans_FollowsTheTablesThatUnblock(t *testing.T) {
	s := state.New()
	index := uint64(0)
	write := func(fn func(tx *state.WriteTx)) {
		index++
		kit.Must(t, s.Write(index, func(tx *state.WriteTx) error { fn(tx); return nil }))
	}
	for name, put := range map[string]func(tx *state.WriteTx){
		"nodes":       func(tx *state.WriteTx) { schema.Nodes.Put(tx, aNode("n")) },
		"volumes":     func(tx *state.WriteTx) { schema.Volumes.Put(tx, &structs.CSIVolume{ID: "v"}) },
		"claims":      func(tx *state.WriteTx) { schema.Claims.Put(tx, &structs.CSIClaim{VolumeID: "v"}) },
		"attachments": func(tx *state.WriteTx) { schema.Attachments.Put(tx, &structs.CSIAttachment{VolumeID: "v"}) },
		"instances":   func(tx *state.WriteTx) { schema.Instances.Put(tx, anInstance("p", structs.CSIKindNode, true)) },
		"allocs":      func(tx *state.WriteTx) { schema.Allocs.Put(tx, &structs.Allocation{ID: "a"}) },
		"jobs":        func(tx *state.WriteTx) { schema.Jobs.Put(tx, &structs.Job{ID: "j"}) },
		"scheduler":   func(tx *state.WriteTx) { schema.SchedulerConfig.Put(tx, &cluster.SchedulerConfiguration{}) },
	} {
		write(put)
		if got := state.NewestForPlans(s.Read()); got != index {
			t.Errorf("%s: the newest change is %d, want %d", name, got, index)
		}
		write(func(tx *state.WriteTx) { schema.Evals.Put(tx, &structs.Evaluation{ID: "e"}) })
		if got := state.NewestForPlans(s.Read()); got != index-1 {
			t.Errorf("an evaluation changes the newest index to %d", got)
		}
	}
}
