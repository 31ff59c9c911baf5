package volumes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/hashicorp/go-hclog"

	"berth/client/csi/registry"
	"berth/client/store"
	"berth/csi/csitest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

type served struct {
	*rpc.Server
	cfg      Config
	m        *Manager
	registry *registry.Registry
	plugin   *csitest.Plugin
}

// newServed returns a node with the plugin "ebs" that its servers call.
func newServed(t *testing.T, running ...string) *served {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b")
	kit.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	db, err := store.Open(dir)
	kit.Must(t, err)
	instances := registry.New(db, hclog.NewNullLogger())
	root := filepath.Join(dir, "v")
	t.Cleanup(func() { _ = db.Close() })
	cfg := Config{
		DB:              db,
		Registry:        instances,
		Root:            root,
		RetryMin:        time.Millisecond,
		RetryMax:        time.Millisecond,
		AcceptUnmounted: true,
	}
	m, s := startManager(t, cfg, running...)
	p := csitest.Start(t, csitest.Config{
		Controller: true,
		Node:       true,
		Groups:     true,
		ControllerCaps: []string{
			"CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "LIST_VOLUMES", "GET_CAPACITY", "EXPAND_VOLUME",
			"CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS", "LIST_VOLUME_HEALTH", "GET_VOLUME_HEALTH",
		},
		HostPath: func(path string) string {
			return filepath.Join(root, strings.TrimPrefix(path, "/local/csi/"))
		},
	})
	for _, kind := range []structs.CSIKind{structs.CSIKindController, structs.CSIKindNode} {
		kit.Must(t, instances.Register(&registry.Instance{
			Kind:            kind,
			ID:              "ebs",
			AllocID:         "plug",
			SocketPath:      p.Socket(),
			HostMountPath:   m.Volumes().Root(),
			PluginMountPath: "/local/csi",
		}))
		_, err := m.Client(context.Background(), kind, "ebs")
		kit.Must(t, err)
	}
	return &served{s, cfg, m, instances, p}
}

// startManager returns a manager that runs until the test ends, and its endpoints.
func startManager(t *testing.T, cfg Config, running ...string) (*Manager, *rpc.Server) {
	t.Helper()
	m := New(cfg)
	s := rpc.NewServer(hclog.NewNullLogger(),
		Endpoints(m, EndpointDeps{
			Running:    func(id string) bool { return strings.Contains(strings.Join(running, " "), id) },
			CheckEpoch: checkEpoch,
		})...)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait(); s.Close() })
	return m, s
}

// epochNow is the epoch of the node in these tests.
const epochNow = 9

func checkEpoch(epoch uint64) error {
	if epoch != 0 && epoch < epochNow {
		return structs.Unavailablef("epoch %d has ended", epoch)
	}
	return nil
}

func call[Req, Resp any](r *served, m structs.Method[Req, Resp], req *Req) (*Resp, error) {
	return rpc.Call(context.Background(), r, m, req)
}

var writer = []*structs.CSIVolumeCapability{{AttachmentMode: structs.CSIFileSystem,
	AccessMode: structs.CSISingleNodeWriter}}

func TestController_CreatesAttachesAndDeletesAVolume(t *testing.T) {
	r := newServed(t)
	made, err := call(r, nodecalls.ClientCSIControllerCreate, &nodecalls.ClientCSICreateRequest{
		PluginID:     "ebs",
		Name:         "v",
		Capabilities: writer,
	})
	kit.Must(t, err)
	id := made.ExternalID
	_, err = call(r, nodecalls.ClientCSIControllerValidate, &nodecalls.ClientCSIValidateRequest{
		PluginID:     "ebs",
		ExternalID:   id,
		Capabilities: writer,
	})
	kit.Must(t, err)
	_, err = call(r, nodecalls.ClientCSIControllerAttach, &nodecalls.ClientCSIAttachRequest{
		PluginID:       "ebs",
		ExternalID:     id,
		ExternalNodeID: "node-1",
		AccessMode:     writer[0].AccessMode,
		AttachmentMode: writer[0].AttachmentMode,
	})
	kit.Must(t, err)
	if attached, _, _, _ := r.plugin.Volume(id); len(attached) != 1 {
		t.Errorf("attached to %q", attached)
	}
	_, err = call(r, nodecalls.ClientCSIControllerDetach, &nodecalls.ClientCSIDetachRequest{
		PluginID:       "ebs",
		ExternalID:     id,
		ExternalNodeID: "node-1",
	})
	kit.Must(t, err)
	grown, err := call(r, nodecalls.ClientCSIControllerExpand, &nodecalls.ClientCSIExpandRequest{
		PluginID:   "ebs",
		ExternalID: id,
		Capacity:   nodecalls.CSICapacityRange{RequiredBytes: 4 << 20},
	})
	if err != nil || grown.Capacity != 4<<20 {
		t.Errorf("expand: got %+v, %v", grown, err)
	}
	page, err := call(r, nodecalls.ClientCSIControllerList, &nodecalls.ClientCSIListRequest{PluginID: "ebs"})
	if err != nil || len(page.Volumes) != 1 || page.Volumes[0].ExternalID != id {
		t.Errorf("listed %+v, %v", page, err)
	}
	_, err = call(r, nodecalls.ClientCSIControllerGet, &nodecalls.ClientCSIGetVolumeRequest{
		PluginID:   "ebs",
		ExternalID: id,
	})
	if err == nil || !strings.Contains(err.Error(), "GET_VOLUME") {
		t.Errorf("the volume of a plugin that does not tell of one: %v", err)
	}
	_, err = call(r, nodecalls.ClientCSIControllerCapacity, &nodecalls.ClientCSICapacityRequest{
		PluginID: "ebs",
		Capability: &structs.CSIVolumeCapability{
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		},
	})
	if structs.CodeOf(err) != "Unimplemented" {
		t.Errorf("the capacity of a plugin that does not know it: %v", err)
	}
	_, err = call(r, nodecalls.ClientCSIControllerDelete, &nodecalls.ClientCSIDeleteRequest{
		PluginID:   "ebs",
		ExternalID: id,
	})
	kit.Must(t, err)
	if left := r.plugin.Volumes(); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

func TestController_UnhealthyIsUnavailableAtOnce(t *testing.T) {
	r := newServed(t)
	_, err := call(r, nodecalls.ClientCSIControllerDelete, &nodecalls.ClientCSIDeleteRequest{
		PluginID:   "other",
		ExternalID: "x",
	})
	if !structs.IsKind(err, structs.KindUnavailable) ||
		!strings.Contains(err.Error(), `"other"`) {
		t.Errorf("got %v", err)
	}
}

func TestDuty_C15_AnOutcomeThatIsNotKnownCrossesTheWireAsSuch(t *testing.T) {
	r := newServed(t)
	for code, want := range map[string]structs.Kind{"Unknown": structs.KindTimeout,
		"Aborted": structs.KindTimeout, "Unavailable": structs.KindTimeout,
		"ResourceExhausted": structs.KindTimeout, "DeadlineExceeded": structs.KindTimeout,
		"NotFound": structs.KindNotFound, "InvalidArgument": structs.KindInvalid,
		"Internal": structs.KindInternal} {
		r.plugin.Fail("DeleteVolume", csitest.Error(code, "x"))
		_, err := call(r, nodecalls.ClientCSIControllerDelete, &nodecalls.ClientCSIDeleteRequest{
			PluginID:   "ebs",
			ExternalID: "x",
		})
		if structs.KindOf(err) != want || structs.CodeOf(err) != code ||
			!strings.HasSuffix(err.Error(), "DeleteVolume: "+code+": x") {
			t.Errorf("%s: got %v of kind %s and code %q, want %s", code, err, structs.KindOf(err),
				structs.CodeOf(err), want)
		}
	}
	r.plugin.Answer("CreateVolume", &spec.CreateVolumeResponse{})
	_, err := call(r, nodecalls.ClientCSIControllerCreate, &nodecalls.ClientCSICreateRequest{
		PluginID:     "ebs",
		Name:         "v",
		Capabilities: writer,
	})
	if !structs.IsKind(err, structs.KindTimeout) {
		t.Errorf("nonsense: got %v", err)
	}
}

func TestDuty_F14_AVolumeOfTheWrongSizeIsDeletedAgain(t *testing.T) {
	r := newServed(t)
	r.plugin.Answer("CreateVolume", &spec.CreateVolumeResponse{Volume: &spec.Volume{
		VolumeId:      "small",
		CapacityBytes: 5,
	}})
	_, err := call(r, nodecalls.ClientCSIControllerCreate, &nodecalls.ClientCSICreateRequest{
		PluginID:     "ebs",
		Name:         "v",
		Capabilities: writer,
		Capacity:     nodecalls.CSICapacityRange{RequiredBytes: 10},
	})
	if !structs.IsKind(err, structs.KindInvalid) ||
		!strings.Contains(err.Error(), `"small" that was made is deleted again`) {
		t.Errorf("got %v of kind %s", err, structs.KindOf(err))
	}
	calls := r.plugin.Calls("DeleteVolume")
	if len(calls) != 1 || calls[0].Get("volume_id") != "small" {
		t.Errorf("deletes %v", calls)
	}
}

func TestDuty_C1_OneCallInFlightPerVolumeAndOthersAreNotHeldUp(t *testing.T) {
	r := newServed(t)
	r.plugin.AddVolume("x", 1)
	release := r.plugin.Hang("ControllerExpandVolume")
	ended := make(chan error, 1)
	go func() {
		_, err := call(r, nodecalls.ClientCSIControllerExpand, &nodecalls.ClientCSIExpandRequest{
			PluginID:   "ebs",
			ExternalID: "x",
			Capacity:   nodecalls.CSICapacityRange{RequiredBytes: 4 << 20},
		})
		ended <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	kit.Must(t, r.plugin.Await(ctx, "ControllerExpandVolume", 1))
	impatient, stop := context.WithCancel(context.Background())
	second := make(chan error, 1)
	go func() {
		_, err := rpc.Call(impatient, r, nodecalls.ClientCSIControllerDelete,
			&nodecalls.ClientCSIDeleteRequest{PluginID: "ebs", ExternalID: "x"})
		second <- err
	}()
	_, err := call(r, nodecalls.ClientCSIControllerDelete, &nodecalls.ClientCSIDeleteRequest{
		PluginID:   "ebs",
		ExternalID: "y",
	})
	kit.Must(t, err)
	stop()
	if err := <-second; !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a wait that was cut short: %v", err)
	}
	for _, c := range r.plugin.Calls("DeleteVolume") {
		if c.Get("volume_id") == "x" {
			t.Error("two calls in flight for one volume")
		}
	}
	release()
	kit.Must(t, <-ended)
}

func TestNodeDetach_ReleasesForEndedAllocations(t *testing.T) {
	r := newServed(t, "alive")
	k := VolumeKey{Namespace: "default", ID: "data"}
	r.plugin.AddVolume("ext", 1)
	for _, alloc := range []string{"alive", "ended", "gone"} {
		_, err := r.m.Volumes().Up(context.Background(), &Use{
			VolumeKey:      k,
			AllocID:        alloc,
			PluginID:       "ebs",
			ExternalID:     "ext",
			AccessMode:     structs.CSIMultiNodeMultipleWriter,
			AttachmentMode: structs.CSIFileSystem,
		}, nil)
		kit.Must(t, err)
	}
	detach := func(alloc string) error {
		_, err := call(r, nodecalls.ClientCSINodeDetach, &nodecalls.ClientCSINodeDetachRequest{
			VolumeID: "data",
			AllocID:  alloc,
		})
		return err
	}
	if err := detach("alive"); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v", err)
	}
	kit.Must(t, detach("ended"))
	kit.Must(t, detach("ended"))
	if err := detach(""); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v", err)
	}
	if users, err := r.m.Volumes().Users(k); err != nil || len(users) != 1 || users[0] != "alive" {
		t.Errorf("users %q, %v", users, err)
	}
	_, staged, published, _ := r.plugin.Volume("ext")
	if len(staged) != 1 || len(published) != 1 {
		t.Errorf("staged %q, published %q", staged, published)
	}
}

func TestDuty_B10_AControllerOfAnotherDriverIsNotCalled(t *testing.T) {
	r := newServed(t)
	r.plugin.Forget()
	_, err := call(r, nodecalls.ClientCSIControllerDelete, &nodecalls.ClientCSIDeleteRequest{
		PluginID:   "ebs",
		ExternalID: "x",
		Provider:   "other.csi",
	})
	if !structs.IsKind(err, structs.KindUnavailable) ||
		!strings.Contains(err.Error(), `the instance on this node is driver "test.csi.berth"`) {
		t.Errorf("got %v", err)
	}
	_, err = call(r, nodecalls.ClientCSIControllerList, &nodecalls.ClientCSIListRequest{
		PluginID: "ebs",
		Provider: "other.csi",
	})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("got %v", err)
	}
	if calls := r.plugin.Calls("DeleteVolume", "ListVolumes"); len(calls) != 0 {
		t.Errorf("called: %v", calls)
	}
	_, err = call(r, nodecalls.ClientCSIControllerDelete, &nodecalls.ClientCSIDeleteRequest{
		PluginID:   "ebs",
		ExternalID: "x",
		Provider:   "test.csi.berth",
	})
	kit.Must(t, err)
}

func TestController_ExhaustedIsAnAnswer(t *testing.T) {
	r := newServed(t)
	for _, rpc := range []string{"CreateVolume", "ControllerExpandVolume"} {
		r.plugin.FailAlways(rpc, csitest.Error("ResourceExhausted", "the pool is full"))
	}
	made, err := call(r, nodecalls.ClientCSIControllerCreate, &nodecalls.ClientCSICreateRequest{
		PluginID:     "ebs",
		Name:         "v",
		Capabilities: writer,
	})
	kit.Must(t, err)
	grown, err := call(r, nodecalls.ClientCSIControllerExpand, &nodecalls.ClientCSIExpandRequest{
		PluginID:   "ebs",
		ExternalID: "x",
		Capacity:   nodecalls.CSICapacityRange{RequiredBytes: 1},
	})
	kit.Must(t, err)
	for _, text := range []string{made.Exhausted, grown.Exhausted} {
		if !strings.Contains(text, "the pool is full") {
			t.Errorf("answered %q", text)
		}
	}
}

func TestNodeExpand_ExpandsAPublishedVolume(t *testing.T) {
	r := newServed(t)
	use := &Use{
		VolumeKey:      VolumeKey{Namespace: "default", ID: "v"},
		AllocID:        "a",
		PluginID:       "ebs",
		ExternalID:     "x",
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}
	r.plugin.AddVolume("x", 1)
	_, err := r.m.Volumes().Up(t.Context(), use, nil)
	kit.Must(t, err)
	grown, err := call(r, nodecalls.ClientCSINodeExpand, &nodecalls.ClientCSINodeExpandRequest{
		VolumeID:       "v",
		AllocID:        "a",
		PluginID:       "ebs",
		ExternalID:     "x",
		RequiredBytes:  8,
		AccessMode:     use.AccessMode,
		AttachmentMode: use.AttachmentMode,
	})
	kit.Must(t, err)
	if grown.Capacity != 8 {
		t.Errorf("answered %+v", grown)
	}
	kit.Must(t, r.m.Volumes().Down(t.Context(), use.VolumeKey, "a"))
}

// The server disconnects while the plugin detaches: the attach that follows waits until the detach has ended.
func TestNodeVolume_NamesMountsAndPendingCalls(t *testing.T) {
	r := newServed(t, "a1")
	r.plugin.AddVolume("ext", 1)
	_, err := r.m.Volumes().Up(t.Context(), &Use{
		VolumeKey:      VolumeKey{Namespace: "default", ID: "data"},
		AllocID:        "a1",
		PluginID:       "ebs",
		ExternalID:     "ext",
		AccessMode:     structs.CSIMultiNodeMultipleWriter,
		AttachmentMode: structs.CSIFileSystem,
	},
		nil)
	kit.Must(t, err)
	has, err := call(r, nodecalls.ClientCSINodeVolume, &nodecalls.ClientCSINodeVolumeRequest{VolumeID: "data"})
	if err != nil || len(has.Held) != 2 || len(has.Mounts) != 0 {
		t.Errorf("%+v, %v", has, err)
	}
}

// A frozen node finds such calls in its connections. The servers may have called another controller since.
func TestController_RejectsACallOfAnEarlierEpoch(t *testing.T) {
	r := newServed(t)
	stale := structs.NodeEpoch{Epoch: epochNow - 1}
	late := map[string]error{}
	_, late["create"] = call(r, nodecalls.ClientCSIControllerCreate,
		&nodecalls.ClientCSICreateRequest{PluginID: "ebs", Name: "v", Capabilities: writer, NodeEpoch: stale})
	_, late["delete"] = call(r, nodecalls.ClientCSIControllerDelete,
		&nodecalls.ClientCSIDeleteRequest{PluginID: "ebs", ExternalID: "x", NodeEpoch: stale})
	_, late["attach"] = call(r, nodecalls.ClientCSIControllerAttach,
		&nodecalls.ClientCSIAttachRequest{PluginID: "ebs", ExternalID: "x", NodeEpoch: stale})
	_, late["detach"] = call(r, nodecalls.ClientCSIControllerDetach,
		&nodecalls.ClientCSIDetachRequest{PluginID: "ebs", ExternalID: "x", NodeEpoch: stale})
	_, late["expand"] = call(r, nodecalls.ClientCSIControllerExpand,
		&nodecalls.ClientCSIExpandRequest{PluginID: "ebs", ExternalID: "x", NodeEpoch: stale})
	for name, err := range late {
		if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "epoch 8") {
			t.Errorf("%s: got %v, want a rejection that says that the plugin was not called", name, err)
		}
	}
	if made := r.plugin.Volumes(); len(made) != 0 {
		t.Errorf("the plugin made %q", made)
	}
	_, err := call(r, nodecalls.ClientCSIControllerCreate, &nodecalls.ClientCSICreateRequest{
		PluginID:     "ebs",
		Name:         "v",
		Capabilities: writer,
		NodeEpoch:    structs.NodeEpoch{Epoch: epochNow},
	})
	kit.Must(t, err)
}
