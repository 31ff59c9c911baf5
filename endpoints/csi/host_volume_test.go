package csi_test

import (
	"context"
	"sync"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// hostFixture is a server whose leader creates and deletes every volume.
type hostFixture struct {
	*endpointstest.Server
	t *testing.T
}

func newHostFixture(t *testing.T, nodes ...string) *hostFixture {
	t.Helper()
	f := &hostFixture{endpointstest.New(t, endpointstest.QuickSettings()), t}
	for _, n := range nodes {
		f.addNode(n, "", storage.HostVolumeDriver)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.lead(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return f
}

// lead applies the outcome of each unsettled volume, in place of the loop of the leader.
func (f *hostFixture) lead(ctx context.Context) {
	for ctx.Err() == nil {
		tx := f.Store.ReadWatched()
		for v := range csi.UnsettledVolumes(tx) {
			o := &structs.CSIVolumeOutcome{ID: v.ID, Op: "create", ExternalID: "made-" + v.ID, Capacity: 1 << 20}
			o.Namespace = v.Namespace
			o.Topologies = v.RequestedTopologies.Required
			switch {
			case v.State == structs.VolumeDeleting:
				o.Op = "delete"
			case v.ExpandPending:
				o.Op = "expand"
				o.Capacity = v.RequestedCapacityMin
			}
			_, err := fsm.Propose(ctx, f.Raft, fsm.VolumeOutcome, o)
			if err != nil && ctx.Err() == nil {
				f.t.Error(err)
			}
		}
		_ = f.Store.Wait(ctx, tx)
	}
}

// addNode registers a ready node that runs the plugin "dirs" of a provider.
func (f *hostFixture) addNode(id, pool, provider string) {
	f.t.Helper()
	info := structs.CSIInfo{
		PluginID:                 "dirs",
		Provider:                 provider,
		Healthy:                  true,
		RequiresControllerPlugin: true,
	}
	controller := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: id, CSIInfo: info}
	controller.ControllerInfo = &structs.CSIControllerInfo{SupportsCreateDelete: true, SupportsExpand: true}
	half := &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: id, CSIInfo: info}
	half.NodeInfo = &structs.CSINodeInfo{
		ID:                 id,
		AccessibleTopology: &structs.CSITopology{Segments: map[string]string{"node": id}},
	}
	endpointstest.Must(f.Server, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       id,
			SecretID: endpointstest.SecretOf(id),
			Name:     "name-" + id,
			NodePool: pool,
			Status:   structs.NodeReady,
			Meta:     map[string]string{"rack": id},
		},
		CSI: []*structs.CSIPluginInstance{controller, half},
	})
}

// volume returns a volume for a request.
func volume(name string) *storage.DynamicHostVolume {
	return &storage.DynamicHostVolume{
		Name:                  name,
		PluginID:              storage.HostVolumeBuiltIn,
		RequestedCapabilities: []*structs.CSIVolumeCapability{{AccessMode: structs.CSISingleNodeWriter}},
	}
}

func (f *hostFixture) create(v *storage.DynamicHostVolume) *storage.DynamicHostVolume {
	f.t.Helper()
	return endpointstest.Must(
		f.Server, storage.HostVolumeCreate, &storage.HostVolumeCreateRequest{Volume: v}).Volume
}

// rejects creates a volume, and wants an error of a kind with a text.
func (f *hostFixture) rejects(v *storage.DynamicHostVolume, kind structs.Kind, text string) {
	f.t.Helper()
	req := &storage.HostVolumeCreateRequest{Volume: v}
	endpointstest.WantText(f.t, endpointstest.Rejected(f.Server, kind, storage.HostVolumeCreate, req), text)
}

func TestCreate_MakesARowOfThePluginOnANode(t *testing.T) {
	f := newHostFixture(t, "n1")
	v := f.create(volume("data"))
	if v.State != storage.HostVolumeReady || v.NodeID != "n1" || v.NodePool != "default" ||
		v.PluginID != "dirs" ||
		v.CapacityBytes != 1<<20 || v.ID != structs.HostVolumeID("default", "n1", "data") {
		t.Errorf("got %+v, want a ready volume on n1", v)
	}

	row := volumeRow(f.Server, v.ID)
	if row == nil || row.Host == nil || row.Host.Name != "data" || row.Host.NodeID != "n1" ||
		row.Topologies[0].Segments["node"] != "n1" {
		t.Fatalf("got row %+v, want a host volume in the place of n1", row)
	}
	if mode := row.RequestedCapabilities[0].AttachmentMode; mode != structs.CSIFileSystem {
		t.Errorf("got attachment mode %q, want a file system", mode)
	}
}

// A node has one volume of a name, so each further volume goes to another node.
func TestCreate_PutsOneVolumeOfANameOnEachNode(t *testing.T) {
	f := newHostFixture(t, "n1", "n2")
	made := make([]*storage.DynamicHostVolume, 2)
	var calls sync.WaitGroup
	for i := range made {
		calls.Go(func() {
			resp, err := rpc.Call(t.Context(), f.RPC, storage.HostVolumeCreate,
				&storage.HostVolumeCreateRequest{Volume: volume("data")})
			if err != nil {
				t.Error(err)
				return
			}
			made[i] = resp.Volume
		})
	}
	calls.Wait()
	if t.Failed() {
		return
	}
	if made[0].NodeID == made[1].NodeID {
		t.Errorf("both volumes are on node %s", made[0].NodeID)
	}
	f.rejects(volume("data"), structs.KindPrecondition, "2 nodes: it has a host volume of that name")
}

func TestCreate_ChoosesTheNodeWithTheFewestVolumes(t *testing.T) {
	f := newHostFixture(t, "n1", "n2")
	for _, c := range []struct{ name, node string }{{"a", "n1"}, {"b", "n2"}, {"c", "n1"}, {"d", "n2"}} {
		if v := f.create(volume(c.name)); v.NodeID != c.node {
			t.Errorf("volume %s is on %s, want %s", c.name, v.NodeID, c.node)
		}
	}
}

func TestCreate_RejectsNodesThatCannotHaveIt(t *testing.T) {
	f := newHostFixture(t, "n1")
	f.addNode("n2", "gpu", storage.HostVolumeDriver)
	pool := volume("data")
	pool.NodePool = "gpu"
	if v := f.create(pool); v.NodeID != "n2" || v.NodePool != "gpu" {
		t.Errorf("got a volume on %s of %s, want n2 of gpu", v.NodeID, v.NodePool)
	}

	other := volume("data")
	other.NodePool = "none"
	f.rejects(other, structs.KindPrecondition, "2 nodes: it is in another node pool")
	rack := volume("data")
	rack.Constraints = []*structs.Constraint{{LTarget: "${meta.rack}", RTarget: "n9", Operand: "="}}
	f.rejects(rack, structs.KindPrecondition, "1 node: it does not meet the constraints")
	rack.NodeID = "n1"
	f.rejects(rack, structs.KindPrecondition, "node n1 cannot have it: it does not meet the constraints")
	gone := volume("data")
	gone.NodeID = "n9"
	f.rejects(gone, structs.KindNotFound, `node_id: no node "n9"`)
	f.SetNodeDown("n1")
	f.rejects(volume("data"), structs.KindPrecondition, "1 node: it is not ready and eligible")
}

func TestCreate_NeedsOnePluginOfTheDriver(t *testing.T) {
	f := newHostFixture(t)
	f.rejects(volume("data"), structs.KindPrecondition,
		"plugin_id: no CSI plugin of the driver "+storage.HostVolumeDriver)
	f.AddNode("n9", "a") // it has a plugin of another driver
	f.addNode("n1", "", storage.HostVolumeDriver)
	other := volume("data")
	other.PluginID = "pl"
	f.rejects(other, structs.KindPrecondition, `plugin_id: CSI plugin "pl" is none of the driver`)
	own := volume("data")
	own.PluginID = "dirs"
	if v := f.create(own); v.NodeID != "n1" {
		t.Errorf("got node %s, want n1", v.NodeID)
	}
}

// A request that names the node is idempotent, as one that names the ID. Both let the volume grow.
func TestCreate_AgainFindsTheVolume(t *testing.T) {
	f := newHostFixture(t, "n1")
	v := volume("data")
	v.NodeID = "n1"
	first := f.create(v)
	f.SetNodeDown("n1")
	if again := f.create(v); again.ID != first.ID || again.State != storage.HostVolumeUnavailable ||
		again.Reason != "its node is down" {
		t.Errorf("got %+v, want the same volume on a node that is down", again)
	}

	v = volume("data")
	v.ID = first.ID
	v.RequestedCapacityMinBytes = 5 << 20
	if grown := f.create(v); grown.ID != first.ID || grown.CapacityBytes != 5<<20 {
		t.Errorf("got %+v, want the same volume with 5 MiB", grown)
	}
	v.Name = "other"
	f.rejects(v, structs.KindConflict, "cannot change")
	v.ID = "none"
	f.rejects(v, structs.KindNotFound, "no host volume")
}

func TestCreate_DetachesOnceTheVolumeIsRecorded(t *testing.T) {
	f := &hostFixture{endpointstest.New(t), t} // no leader creates it
	f.addNode("n1", "", storage.HostVolumeDriver)
	v := endpointstest.Must(f.Server, storage.HostVolumeCreate,
		&storage.HostVolumeCreateRequest{Volume: volume("data"), Detach: true}).Volume
	if v.State != storage.HostVolumePending {
		t.Errorf("got state %q, want pending", v.State)
	}
}

func TestList_HasHostVolumesAlone(t *testing.T) {
	f := newHostFixture(t, "n1", "n2")
	f.addNode("n3", "gpu", storage.HostVolumeDriver)
	f.create(volume("a"))
	f.create(volume("b"))
	gpu := volume("c")
	gpu.NodePool = "gpu"
	made := f.create(gpu)
	ordinary := endpointstest.Volume("ordinary")
	ordinary.ExternalID = "ext"
	ordinary.PluginID = "dirs"
	endpointstest.MustPropose(f.Server, fsm.VolumePut, endpointstest.RegisterRequest(ordinary))

	prefix := structs.QueryOptions{Prefix: made.ID}
	for name, c := range map[string]struct {
		req  storage.HostVolumeListRequest
		want int
	}{
		"all":          {want: 3},
		"a node":       {req: storage.HostVolumeListRequest{NodeID: "n2"}, want: 1},
		"a pool":       {req: storage.HostVolumeListRequest{NodePool: "gpu"}, want: 1},
		"a prefix":     {req: storage.HostVolumeListRequest{QueryOptions: prefix}, want: 1},
		"another node": {req: storage.HostVolumeListRequest{NodeID: "n9"}},
	} {
		got := endpointstest.Must(f.Server, storage.HostVolumeList, &c.req).Volumes
		if len(got) != c.want {
			t.Errorf("%s: got %d volumes, want %d", name, len(got), c.want)
		}
	}

	all := endpointstest.Must(f.Server, structs.CSIVolumeList, &structs.CSIVolumeListRequest{}).Volumes
	if len(all) != 1 || all[0].ID != "ordinary" {
		t.Errorf("the list of volumes has %d, want the ordinary one alone", len(all))
	}
	req := &storage.HostVolumeGetRequest{ID: "ordinary"}
	endpointstest.WantText(t, endpointstest.Rejected(f.Server, structs.KindNotFound, storage.HostVolumeGet, req),
		`no host volume "ordinary"`)
}

func TestDelete_WaitsForClaimsAndDeletesTheVolume(t *testing.T) {
	f := newHostFixture(t, "n1")
	v := f.create(volume("data"))
	f.AddAlloc("a1", "n1")
	claim := endpointstest.Claim(v.ID, "a1")
	claim.AccessMode = structs.CSISingleNodeWriter
	endpointstest.Must(f.Server, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Claims:   []*structs.CSIClaim{claim},
	})
	got := endpointstest.Must(f.Server, storage.HostVolumeGet, &storage.HostVolumeGetRequest{ID: v.ID}).Volume
	if len(got.Allocations) != 1 || got.Allocations[0].ID != "a1" {
		t.Errorf("got allocations %v, want a1", got.Allocations)
	}

	req := &storage.HostVolumeDeleteRequest{ID: v.ID}
	err := endpointstest.Rejected(f.Server, structs.KindPrecondition, storage.HostVolumeDelete, req)
	endpointstest.WantText(t, err, "a1")
	req.Force = true
	endpointstest.WantText(
		t, endpointstest.Rejected(f.Server, structs.KindPrecondition, storage.HostVolumeDelete, req),
		"force is for a node that is gone")

	free := f.create(&storage.DynamicHostVolume{
		Name:                  "free",
		RequestedCapabilities: volume("").RequestedCapabilities,
	})
	endpointstest.Must(f.Server, storage.HostVolumeDelete, &storage.HostVolumeDeleteRequest{ID: free.ID})
	if volumeRow(f.Server, free.ID) != nil {
		t.Error("the row of a deleted volume is there")
	}
}

func TestDelete_OfANodeThatIsGoneNeedsForce(t *testing.T) {
	f := newHostFixture(t, "n1")
	v := f.create(volume("data"))
	f.SetNodeDown("n1")
	endpointstest.Must(f.Server, structs.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}})
	if state.Node(f.Store.Read(), "n1") != nil {
		t.Fatal("the node is there")
	}

	req := &storage.HostVolumeDeleteRequest{ID: v.ID}
	endpointstest.WantText(
		t, endpointstest.Rejected(f.Server, structs.KindPrecondition, storage.HostVolumeDelete, req),
		"berth volume delete -type host -force "+v.ID)
	req.Force = true
	endpointstest.Must(f.Server, storage.HostVolumeDelete, req)
	if volumeRow(f.Server, v.ID) != nil {
		t.Error("the row is there")
	}
}

// A person cannot make a volume of a plugin a host volume, nor of a host volume another one.
func TestHost_IsOfTheServersAlone(t *testing.T) {
	f := newHostFixture(t, "n1")
	v := f.create(volume("data"))
	row := volumeRow(f.Server, v.ID).Copy()
	row.Host = &structs.CSIHost{Name: "other", NodeID: "n9"}
	row.ModifyIndex = 0
	endpointstest.Must(f.Server, structs.CSIVolumeCreate, endpointstest.RegisterRequest(row))
	if host := volumeRow(f.Server, v.ID).Host; host == nil || host.Name != "data" || host.NodeID != "n1" {
		t.Errorf("got %+v, want the host of the servers", host)
	}
}

func TestRegister_NamesTheConfigurationOfTheNode(t *testing.T) {
	f := newHostFixture(t)
	req := &storage.HostVolumeRegisterRequest{Volume: volume("data")}
	endpointstest.WantText(
		t, endpointstest.Rejected(f.Server, structs.KindPrecondition, storage.HostVolumeRegister, req),
		"host_volume in the client block")
}

func TestCreate_NeedsBothHalvesOfThePluginHealthy(t *testing.T) {
	for _, kind := range []structs.CSIKind{structs.CSIKindController, structs.CSIKindNode} {
		f := newHostFixture(t, "n1")
		sick := csi.Instance(f.Store.Read(), "dirs", kind, "n1").Copy()
		sick.Healthy = false
		endpointstest.Must(f.Server, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Upserts:  []*structs.CSIPluginInstance{sick},
		})
		f.rejects(volume("data"), structs.KindPrecondition, "1 node: it has no healthy "+string(kind))
	}
}
