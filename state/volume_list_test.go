package state_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
)

// TestVolumeStubs_EqualThoseOfEachVolume compares the fast path with the plain one for any order of volumes.
func TestVolumeStubs_EqualThoseOfEachVolume(t *testing.T) {
	w := newFixture(t)
	for n := range 10 {
		w.Node(fmt.Sprint("n", n), anInstance("p", structs.CSIKindNode, true))
	}
	for v := range 40 {
		w.Volume(fmt.Sprintf("v%02d", v), []string{"p", "q"}[v%2])
		for a := range v % 5 * (v % 3) {
			id := fmt.Sprintf("a%d-%d", v, a)
			w.Alloc(id, "j", fmt.Sprint("n", (v+a)%10))
			w.Claim(aClaim(fmt.Sprintf("v%02d", v), id, rd, mnmw))
		}
	}
	tx := w.Store.Read()
	all := slices.Collect(state.Volumes(tx, "*", ""))
	rapid.Check(t, func(t *rapid.T) {
		stub, got := csi.VolumeStubs(tx), new(structs.CSIVolumeListStub)
		for _, v := range rapid.SliceOf(rapid.SampledFrom(all)).Draw(t, "volumes") {
			stub(v, got)
			if want := csi.VolumeStub(tx, v); !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, want %+v as by itself", got, want)
			}
		}
	})
	stub, got := csi.VolumeStubs(tx), new(structs.CSIVolumeListStub)
	for _, v := range all {
		stub(v, got)
		if want := csi.VolumeStub(tx, v); !reflect.DeepEqual(got, want) {
			t.Errorf("in order: got %+v, want %+v as by itself", got, want)
		}
	}
}

// TestVolumeList_WatchesRanges checks which claims wake a long list: those of its volumes, and not those of
// other namespaces.
func TestVolumeList_WatchesRanges(t *testing.T) {
	const many = 3000
	s, index := state.New(), uint64(0)
	do := func(fn func(tx *state.WriteTx)) {
		index++
		kit.Must(t, s.Write(index, func(tx *state.WriteTx) error { fn(tx); return nil }))
	}
	do(func(tx *state.WriteTx) {
		kit.Must(t, state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob("j", structs.JobService)}))
		kit.Must(t, state.NodeRegister(tx, &structs.NodeRegisterRequest{
			Node: aNode("n"),
			CSI:  []*structs.CSIPluginInstance{anInstance("p", structs.CSIKindNode, true)},
		}))
		for n := range many {
			v := aVolume(fmt.Sprintf("v%04d", n), "p")
			kit.Must(t, csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}))
		}
		unlisted := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{aVolume("unlisted", "p")}}
		kit.Must(t, csi.VolumePut(tx, unlisted))
		v := aVolume("v", "p")
		v.Namespace, v.ExternalID = "else", "else"
		kit.Must(t, namespace.Apply(tx, &cluster.NamespaceApplyRequest{
			Definition: &cluster.Namespace{Name: "else"},
		}))
		kit.Must(t, csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}))
		for _, id := range []string{"a", "b"} {
			a := &structs.Allocation{
				ID:        id,
				Namespace: "default",
				JobID:     "j",
				NodeID:    "n",
				Resources: &structs.Resources{},
			}
			if id == "b" {
				a.Namespace = "else"
			}
			schema.Allocs.Put(tx, a)
		}
	})
	claim := func(ns, volume, alloc string) func(*state.WriteTx) error {
		return func(tx *state.WriteTx) error {
			c := aClaim(volume, alloc, rd, mnmw)
			c.Namespace = ns
			return csi.VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{c}})
		}
	}
	for _, c := range []struct {
		of     string
		change func(*state.WriteTx) error
		wakes  bool
	}{
		{"another namespace", claim("else", "v", "b"), false},
		{"the first volume", claim("default", "v0000", "a"), true},
		{"the last volume", claim("default", fmt.Sprintf("v%04d", many-1), "a"), true},
		{"a volume that is not listed", claim("default", "unlisted", "a"), true}, // the namespace is watched
	} {
		synctest.Test(t, func(t *testing.T) {
			tx := s.ReadWatched()
			stub, one := csi.VolumeStubs(tx), new(structs.CSIVolumeListStub)
			for v := range state.Volumes(tx, "default", "v") {
				stub(v, one)
			}
			woken := wakesReader(s, tx, func(*state.ReadTx) {}, c.change)
			if woken != c.wakes {
				t.Errorf("a claim of %s wakes the list: got %t, want %t", c.of, woken, c.wakes)
			}
		})
	}
}

// TestPluginDetail_PagesEqualTheWhole joins pages of every size.
func TestPluginDetail_PagesEqualTheWhole(t *testing.T) {
	w := newFixture(t)
	for n := range 7 {
		w.Node(fmt.Sprint("n", n), attaching(anInstance("p", structs.CSIKindController, true),
			anInstance("p", structs.CSIKindNode, n%2 == 0))...)
	}
	w.Node("else", anInstance("q", structs.CSIKindNode, true))
	tx := w.Store.Read()
	whole := state.PluginDetail(tx, "p")
	for limit := 1; limit < 16; limit++ {
		var next *structs.CSIPluginInstance
		nodes, controllers := map[string]*structs.CSIInfo{}, map[string]*structs.CSIInfo{}
		for more := true; more; more = next != nil {
			var page *structs.CSIPlugin
			page, next = state.PluginPage(tx, "p", next, limit)
			if n := len(page.Nodes) + len(page.Controllers); n > limit ||
				n < limit && next != nil {
				t.Fatalf("a page of %d for a limit of %d", n, limit)
			}
			for id, i := range page.Nodes {
				nodes[id] = i
			}
			for id, i := range page.Controllers {
				controllers[id] = i
			}
		}
		if !reflect.DeepEqual(nodes, whole.Nodes) ||
			!reflect.DeepEqual(controllers, whole.Controllers) {
			t.Errorf("pages of %d: %d nodes and %d controllers", limit, len(nodes), len(controllers))
		}
	}
	d, _ := state.PluginPage(tx, "none", nil, 5)
	if d != nil {
		t.Error("a missing plugin has a page")
	}
}
