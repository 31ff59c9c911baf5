package csihooks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/csi/volumes"
	"berth/client/hooks"
	"berth/client/store"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

const inlineAllocID = "11111111-2222-3333-4444-555555555555"

// inlineFixture is a node with its records and a plugin that makes inline volumes and also has a staging
// step.
type inlineFixture struct {
	t      *testing.T
	dir    string
	plugin *csitest.Plugin
	db     *store.DB
	m      *volumes.Manager
	end    func()
}

func newInlineFixture(t *testing.T) *inlineFixture {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	kit.Must(t, err)
	dir, err = mounts.Resolve(dir)
	kit.Must(t, err)
	r := &inlineFixture{t: t, dir: dir}
	t.Cleanup(func() {
		if table, err := mounts.Read(); err == nil {
			for _, m := range slices.Backward(table.Below(dir)) {
				_ = unix.Unmount(m, unix.MNT_DETACH)
			}
		}
		_ = os.RemoveAll(dir)
	})
	t.Cleanup(func() {
		if r.end != nil {
			r.end()
		}
	})
	r.startPlugin()
	r.boot()
	return r
}

// boot starts an agent, in the place of the one before.
func (r *inlineFixture) boot() {
	r.t.Helper()
	if r.end != nil {
		r.end()
	}
	var err error
	r.db, err = store.Open(r.dir)
	kit.Must(r.t, err)
	instances := registry.New(r.db, hclog.NewNullLogger())
	r.m = volumes.New(volumes.Config{
		DB:       r.db,
		Registry: instances,
		Root:     r.root(),
		NodeID:   "n1",
		Logger:   hclog.NewNullLogger(),
		RetryMin: time.Millisecond,
		RetryMax: 5 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.m.Run(ctx) })
	r.end = func() {
		cancel()
		wg.Wait()
		_ = r.db.Close()
	}
	r.register(instances)
}

func (r *inlineFixture) root() string { return filepath.Join(r.dir, "v") }

func (r *inlineFixture) onHost(path string) string {
	return filepath.Join(r.root(), strings.TrimPrefix(path, scope+"/"))
}

func (r *inlineFixture) startPlugin() {
	r.plugin = csitest.Start(r.t, csitest.Config{Node: true, Mounts: true, HostPath: r.onHost})
	r.plugin.Script("NodePublishVolume", func(_ context.Context, req any) (any, error) {
		target := r.onHost(req.(*spec.NodePublishVolumeRequest).GetTargetPath())
		err := errors.Join(os.Mkdir(target, 0o700), unix.Mount("none", target, "tmpfs", 0, "size=1m"))
		return &spec.NodePublishVolumeResponse{}, err
	})
	r.plugin.Script("NodeUnpublishVolume", func(_ context.Context, req any) (any, error) {
		target := r.onHost(req.(*spec.NodeUnpublishVolumeRequest).GetTargetPath())
		err := unix.Unmount(target, 0)
		if err == unix.EINVAL || err == unix.ENOENT { // nothing is mounted
			err = nil
		}
		_ = os.Remove(target)
		return &spec.NodeUnpublishVolumeResponse{}, err
	})
}

func (r *inlineFixture) register(instances *registry.Registry) {
	r.t.Helper()
	kit.Must(r.t, instances.Register(&registry.Instance{
		Kind:            structs.CSIKindNode,
		ID:              "scratch",
		AllocID:         "plugin",
		SocketPath:      r.plugin.Socket(),
		HostMountPath:   r.m.Volumes().Root(),
		PluginMountPath: scope,
	}))
}

func (r *inlineFixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r.t.Cleanup(cancel)
	return ctx
}

// env is an allocation with the inline volume "tmp" and another volume.
func env() *hooks.AllocEnv {
	return &hooks.AllocEnv{
		Alloc: &structs.Allocation{
			ID:        inlineAllocID,
			Namespace: "prod",
			JobID:     "sort",
			Name:      "sort.g[0]",
		},
		Group: &structs.TaskGroup{Name: "g", Volumes: map[string]*structs.VolumeRequest{
			"data": {Type: structs.VolumeTypeCSI, Source: "data"},
			"tmp": {
				Type:           structs.VolumeTypeCSI,
				Lifecycle:      structs.LifecycleInline,
				PluginID:       "scratch",
				Parameters:     map[string]string{"size": "1Mi"},
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			},
		}},
	}
}

// hook is that of the present agent.
func (r *inlineFixture) hook(e *hooks.AllocEnv) hooks.Alloc {
	return NewInline(InlineConfig{
		Volumes:  r.m.Volumes(),
		Signer:   TokenSigner{Node: func() (string, string) { return "n1", "secret" }},
		Progress: func(string, string) {},
	}, e)
}

// checkClean holds that nothing of the volume is left on the node.
func (r *inlineFixture) checkClean() {
	r.t.Helper()
	table, err := mounts.Read()
	kit.Must(r.t, err)
	if left := table.Below(r.root()); len(left) > 0 {
		r.t.Errorf("mounts are left: %q", left)
	}
	if left, err := os.ReadDir(r.root()); err != nil || len(left) > 0 {
		r.t.Errorf("directories are left: %v, %v", left, err)
	}
	if used, err := r.m.Volumes().InUse("scratch"); err != nil || len(used) > 0 {
		r.t.Errorf("the plugin is in use: %v, %v", used, err)
	}
}

func TestInline_OnlyPublishesAndUnpublishes(t *testing.T) {
	r := newInlineFixture(t)
	e := env()
	h := r.hook(e)
	kit.Must(t, h.Up(r.ctx(), e))

	calls := r.plugin.Calls("NodePublishVolume")
	if len(calls) != 1 {
		t.Fatalf("NodePublishVolume was called %d times", len(calls))
	}
	for field, want := range map[string]string{
		"volume_id":           volumeID(inlineAllocID, "tmp"),
		"staging_target_path": "",
		"readonly":            "false",
		"volume_context.size": "1Mi",
		"volume_context.csi.storage.k8s.io/ephemeral":           "true",
		"volume_context.csi.storage.k8s.io/pod.name":            "sort.g[0]",
		"volume_context.csi.storage.k8s.io/pod.namespace":       "prod",
		"volume_context.csi.storage.k8s.io/pod.uid":             inlineAllocID,
		"volume_context.csi.storage.k8s.io/serviceAccount.name": "sort",
		"volume_capability.access_mode.mode":                    "SINGLE_NODE_WRITER",
	} {
		if got := calls[0].Get(field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	m, ok := e.Volume("tmp")
	if !ok || m.Folders == nil {
		t.Errorf("the tasks get %+v", m)
	}
	kit.Must(t, os.WriteFile(filepath.Join(m.HostPath, "file"), []byte("x"), 0o600))

	// The servers do not know the volume, so no list for them has it.
	inventory, err := r.m.Volumes().Inventory()
	mounted, mountsErr := r.m.Volumes().Mounts()
	claimed, claimsErr := r.m.Volumes().ForAlloc(inlineAllocID)
	kit.Must(t, errors.Join(err, mountsErr, claimsErr))
	if len(inventory.Held)+len(inventory.Left)+len(mounted)+len(claimed) > 0 {
		t.Errorf("got %+v, %+v, %+v", inventory, mounted, claimed)
	}
	if used, err := r.m.Volumes().InUse("scratch"); err != nil || len(used) != 1 {
		t.Errorf("the plugin may stop: %v, %v", used, err)
	}

	kit.Must(t, h.Down(r.ctx()))
	kit.Must(t, h.Down(r.ctx()))
	if n := r.plugin.Count("NodeUnpublishVolume"); n != 1 {
		t.Errorf("NodeUnpublishVolume was called %d times", n)
	}
	if n := r.plugin.Count("NodeStageVolume") + r.plugin.Count("NodeUnstageVolume"); n != 0 {
		t.Errorf("%d calls of the staging step", n)
	}
	r.checkClean()
}

// A restarted agent recognises the volume, and its Down releases it.
func TestInline_IsRecognisedByTheNextAgent(t *testing.T) {
	r := newInlineFixture(t)
	e := env()
	kit.Must(t, r.hook(e).Up(r.ctx(), e))
	r.boot()

	e = env()
	h := r.hook(e)
	kit.Must(t, h.Up(r.ctx(), e))
	if _, ok := e.Volume("tmp"); !ok || r.plugin.Count("NodePublishVolume") != 1 {
		t.Errorf("the volume was published %d times", r.plugin.Count("NodePublishVolume"))
	}
	kit.Must(t, h.Down(r.ctx()))
	r.checkClean()
}

// The node releases the volume of an allocation that it does not have any more.
func TestInline_AStrayIsUnpublished(t *testing.T) {
	r := newInlineFixture(t)
	e := env()
	kit.Must(t, r.hook(e).Up(r.ctx(), e))
	r.boot()

	_, err := r.m.Volumes().Reconcile(r.ctx(), func(string) bool { return false })
	kit.Must(t, err)
	if n := r.plugin.Count("NodeUnpublishVolume"); n != 1 {
		t.Errorf("NodeUnpublishVolume was called %d times", n)
	}
	r.checkClean()
}

// A call that has failed may have made the volume all the same.
func TestInline_DownFollowsAFailedUp(t *testing.T) {
	r := newInlineFixture(t)
	r.plugin.FailAlways("NodePublishVolume", csitest.Error("InvalidArgument", "no such volume"))
	e := env()
	h := r.hook(e)
	err := h.Up(r.ctx(), e)
	if err == nil || !strings.Contains(err.Error(), "volume lifecycle mode Ephemeral") {
		t.Errorf("got %v", err)
	}
	kit.Must(t, h.Down(r.ctx()))
	if n := r.plugin.Count("NodeUnpublishVolume"); n != 1 {
		t.Errorf("NodeUnpublishVolume was called %d times", n)
	}
	r.checkClean()
}

func TestInline_AnAllocationWithoutOneHasNoHook(t *testing.T) {
	e := env()
	delete(e.Group.Volumes, "tmp")
	if h := NewInline(InlineConfig{}, e); h != nil {
		t.Errorf("got the hook %s", h.Name())
	}
}

func TestVolumeID_TellsAllocationsAndBlocksApart(t *testing.T) {
	ids := []string{
		volumeID("a", "tmp"),
		volumeID("b", "tmp"),
		volumeID("a", "other"),
		volumeID("a", strings.Repeat("x", structs.MaxName)),
	}
	for _, id := range ids {
		if len(id) > 128 {
			t.Errorf("%s has %d bytes", id, len(id))
		}
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 4 {
		t.Errorf("equal IDs: %q", ids)
	}
}
