package volumes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/store"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scope is where the plugins of these tests see the node's root.
const scope = "/local/csi"

// fixture is a node: its records, its registry and a running manager. boot and crash end and begin an agent
// endedContext the same records, while plugins and mounts stay.
type fixture struct {
	t    *testing.T
	dir  string
	root string
	cfg  Config

	db       *store.DB
	registry *registry.Registry
	m        *Manager
	v        *Volumes
	end      func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b")
	kit.Must(t, err)
	dir, err = mounts.Resolve(dir)
	kit.Must(t, err)
	r := &fixture{t: t, dir: dir, root: filepath.Join(dir, "v")}
	r.cfg = Config{
		Root:                r.root,
		NodeID:              "n1",
		Logger:              hclog.NewNullLogger(),
		FingerprintInterval: time.Minute,
		ProbeTimeout:        2 * time.Minute,
		CallTimeout:         time.Minute,
		LateWait:            time.Nanosecond,
		StopWait:            time.Nanosecond,
		ClientWait:          2 * time.Minute,
		RetryMin:            time.Millisecond,
		RetryMax:            5 * time.Millisecond,
	}
	t.Cleanup(func() { unmountBelow(dir); _ = os.RemoveAll(dir) })
	t.Cleanup(func() { r.crash() })
	r.boot()
	return r
}

func unmountBelow(dir string) {
	table, err := mounts.Read()
	if err != nil {
		return
	}
	for _, m := range table.Below(dir) {
		_ = unix.Unmount(m, unix.MNT_DETACH)
	}
}

// boot starts an agent.
func (r *fixture) boot() {
	r.t.Helper()
	var err error
	r.db, err = store.Open(r.dir)
	kit.Must(r.t, err)
	r.registry = registry.New(r.db, hclog.NewNullLogger())
	cfg := r.cfg
	cfg.DB, cfg.Registry = r.db, r.registry
	r.m = New(cfg)
	r.v = r.m.Volumes()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.m.Run(ctx) })
	r.end = func() { cancel(); wg.Wait(); _ = r.db.Close() }
}

// restartWithPause starts the agent with a pause between two tries of a step.
func (r *fixture) restartWithPause(pause time.Duration) {
	r.t.Helper()
	r.crash()
	r.cfg.RetryMin = pause
	r.cfg.RetryMax = pause
	r.boot()
}

// crash ends the agent without any cleanup.
func (r *fixture) crash() {
	if r.end != nil {
		r.end()
		r.end = nil
	}
}

// plugin starts a plugin and registers it as run by an allocation.
func (r *fixture) plugin(id, allocID string, cfg csitest.Config) *csitest.Plugin {
	r.t.Helper()
	if cfg.Mounts && os.Geteuid() != 0 {
		kit.SkipLacking(r.t, "root: the plugin mounts")
	}
	if cfg.HostPath == nil {
		cfg.HostPath = r.hostPath
	}
	p := csitest.Start(r.t, cfg)
	r.register(id, allocID, p, cfg)
	return p
}

func (r *fixture) register(id, allocID string, p *csitest.Plugin, cfg csitest.Config) {
	r.t.Helper()
	for kind, on := range map[structs.CSIKind]bool{
		structs.CSIKindController: cfg.Controller, structs.CSIKindNode: cfg.Node,
	} {
		if on {
			kit.Must(r.t, r.registry.Register(&registry.Instance{
				Kind:            kind,
				ID:              id,
				AllocID:         allocID,
				SocketPath:      p.Socket(),
				HostMountPath:   r.v.Root(),
				PluginMountPath: scope,
			}))
		}
	}
}

// hostPath undoes the plugin's scope. It does not translate a path outside of it, so the mounts of a plugin
// there stay invisible.
func (r *fixture) hostPath(path string) string {
	if rest, ok := strings.CutPrefix(path, scope+"/"); ok {
		return filepath.Join(r.root, rest)
	}
	return filepath.Join(r.dir, "outside", path)
}

func (r *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	r.t.Cleanup(cancel)
	return ctx
}

// up must succeed.
func (r *fixture) up(u *Use) string {
	r.t.Helper()
	m, err := r.v.Up(r.ctx(), u, nil)
	kit.Must(r.t, err)
	return m.HostPath
}

// down releases the volume completely, as the hook does.
func (r *fixture) down(u *Use) {
	r.t.Helper()
	kit.Must(r.t, r.v.downAndForget(r.ctx(), u.VolumeKey, u.AllocID))
}

// clean checks that nothing is left: no record, no mount, no directory, nothing at the plugin.
func (r *fixture) clean(p *csitest.Plugin, volume string) {
	r.t.Helper()
	r.consistent()
	if all, err := r.v.store.publishes(""); err != nil || len(all) > 0 {
		r.t.Errorf("publish records are left: %+v, %v", all, err)
	}
	if all, err := stageTable.All(r.db, ""); err != nil || len(all) > 0 {
		r.t.Errorf("stage records are left: %+v, %v", all, err)
	}
	table, err := mounts.Read()
	kit.Must(r.t, err)
	if left := table.Below(r.root); len(left) > 0 {
		r.t.Errorf("mounts are left: %q", left)
	}
	if left, err := os.ReadDir(r.root); err != nil || len(left) > 0 {
		r.t.Errorf("directories are left: %v, %v", left, err)
	}
	if p != nil {
		_, staged, published, _ := p.Volume(volume)
		if len(staged)+len(published) > 0 {
			r.t.Errorf("the plugin still has %s staged at %q and published at %q", volume, staged, published)
		}
	}
}

func (r *fixture) consistent() {
	r.t.Helper()
	faults, err := faultsOf(r.v)
	kit.Must(r.t, err)
	for _, f := range faults {
		r.t.Error("check: " + f)
	}
}

func (r *fixture) mounted(path string) bool {
	r.t.Helper()
	table, err := mounts.Read()
	kit.Must(r.t, err)
	return table.Mounted(path)
}

// use is the default for most tests: a multi-writer file system of plugin "ebs".
func use(volume, allocID string) *Use {
	return &Use{
		VolumeKey:      VolumeKey{"default", volume},
		AllocID:        allocID,
		PluginID:       "ebs",
		ExternalID:     "ext-" + volume,
		AccessMode:     structs.CSIMultiNodeMultipleWriter,
		AttachmentMode: structs.CSIFileSystem,
		MountOptions:   &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
		VolumeContext:  map[string]string{"k": "v"},
		PublishContext: structs.Secrets{"dev": "/dev/x"},
		Secrets:        structs.Secrets{"pw": "hunter22"},
	}
}

func shortCalls(p *csitest.Plugin) string {
	var names []string
	for _, c := range p.Calls("NodeStageVolume",
		"NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume") {
		names = append(names,
			strings.TrimSuffix(strings.TrimPrefix(c.RPC, "Node"), "Volume"))
	}
	return strings.Join(names, " ")
}

var nodeOnly = csitest.Config{Node: true, Mounts: true}

// waitFor waits for a condition after each change of the manager.
func waitFor(t *testing.T, r *fixture, cond func() bool) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		r.m.mu.Lock()
		changed := r.m.changed
		r.m.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatal("the condition did not become true")
		}
	}
}

// detach releases a volume as the servers request it.
func (r *fixture) detach(ctx context.Context, k VolumeKey, allocID string, running func(string) bool) error {
	return r.v.Detach(ctx, Detachment{VolumeKey: k, AllocID: allocID, Running: running})
}
