package csihooks

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/client/csi/helper"
	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/csi/upkeep"
	"berth/client/csi/volumes"
	"berth/client/hooks"
	"berth/client/store"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/access"
	"berth/test/kit"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == kit.FUSEArg {
		os.Exit(kit.ServeFUSE(os.Args[2:]))
	}
	if len(os.Args) == 2 && os.Args[1] == helper.ProbeArg {
		os.Exit(helper.Probe(nil))
	}
	if len(os.Args) == 3 && os.Args[1] == helper.CutArg {
		os.Exit(helper.Cut(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

const scope = "/local/csi"

// fixture is a node with its records, a running manager and servers.
type fixture struct {
	nodeCaps []string // capabilities of the node halves of its plugins; nil for the usual ones
	// refresh is the pause before the fingerprint of a plugin whose node is full; then no other one is due.
	refresh time.Duration

	t        *testing.T
	dir      string
	db       *store.DB
	registry *registry.Registry
	m        *volumes.Manager
	servers  *fakeServers
	end      func()

	guard        Guard
	fileSystem   func(string) (string, error)
	confirmAfter time.Duration
	renewals     *TokenRenewals // of the agent
	healer       *upkeep.Healer
	now          func() time.Time

	mu       sync.Mutex
	progress []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	kit.Must(t, err)
	dir, err = mounts.Resolve(dir)
	kit.Must(t, err)
	r := &fixture{t: t, dir: dir, servers: newFakeServers()}
	t.Cleanup(func() {
		if table, err := mounts.Read(); err == nil {
			for _, m := range slices.Backward(table.Below(dir)) {
				_ = unix.Unmount(m, unix.MNT_DETACH)
			}
		}
		_ = os.RemoveAll(dir)
	})
	t.Cleanup(func() { r.crash() })
	r.boot()
	return r
}

func (r *fixture) boot() {
	r.t.Helper()
	var err error
	r.db, err = store.Open(r.dir)
	kit.Must(r.t, err)
	r.registry = registry.New(r.db, hclog.NewNullLogger())
	cfg := volumes.Config{
		DB:       r.db,
		Registry: r.registry,
		Root:     r.root(),
		NodeID:   "n1",
		Logger:   hclog.NewNullLogger(),
		RetryMin: time.Millisecond,
		RetryMax: 5 * time.Millisecond,
	}
	if r.refresh != 0 {
		cfg.RefreshMin = r.refresh
		cfg.FingerprintInterval = time.Hour
	}
	r.m = volumes.New(cfg)
	r.renewals = &TokenRenewals{}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.m.Run(ctx) })
	r.end = func() { cancel(); wg.Wait(); _ = r.db.Close() }
}

func (r *fixture) crash() {
	if r.end != nil {
		r.end()
		r.end = nil
	}
}

func (r *fixture) root() string {
	return filepath.Join(r.dir, "v")
}

// plugin runs a plugin that is registered already.
func (r *fixture) plugin(id string, edits ...func(*registry.Instance)) *csitest.Plugin {
	r.t.Helper()
	p := csitest.Start(r.t, csitest.Config{
		Node:     true,
		Mounts:   true,
		NodeCaps: r.nodeCaps,
		HostPath: func(path string) string {
			return filepath.Join(r.root(), strings.TrimPrefix(path, scope+"/"))
		},
	})
	i := &registry.Instance{
		Kind:            structs.CSIKindNode,
		ID:              id,
		AllocID:         "plug-" + id,
		SocketPath:      p.Socket(),
		HostMountPath:   r.m.Volumes().Root(),
		PluginMountPath: scope,
	}
	for _, edit := range edits {
		edit(i)
	}
	kit.Must(r.t, r.registry.Register(i))
	return p
}

func (r *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	r.t.Cleanup(cancel)
	return ctx
}

// volumes makes the hook of an allocation, as an agent does that has just started or restarted.
func (r *fixture) volumes(env *hooks.AllocEnv) hooks.Alloc {
	return NewVolumes(r.config(), env)
}

// config is that of the present agent.
func (r *fixture) config() VolumesConfig {
	return VolumesConfig{
		Volumes:      r.m.Volumes(),
		Servers:      r.servers,
		Node:         func() (string, string) { return "n1", "secret" },
		Progress:     r.note,
		RetryMin:     time.Millisecond,
		RetryMax:     5 * time.Millisecond,
		ConfirmAfter: r.confirmAfter,
		Now:          r.now,
		Guard:        r.guard,
		FileSystem:   r.fileSystem,
		Renewals:     r.renewals,
		Healer:       r.healer,
	}
}

// down takes a hook down whose plugin was restarted: the first calls may still go to the previous process.
func (r *fixture) down(h hooks.Alloc) {
	r.t.Helper()
	ctx := r.ctx()
	err := h.Down(ctx)
	for structs.IsKind(err, structs.KindUnavailable) && ctx.Err() == nil {
		err = h.Down(ctx)
	}
	kit.Must(r.t, err)
}

func (r *fixture) note(_, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, reason)
}

func (r *fixture) hasProgress(part string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.progress, func(s string) bool {
		return strings.Contains(s, part)
	})
}

// clean checks that the node has released everything.
func (r *fixture) clean() {
	r.t.Helper()
	table, err := mounts.Read()
	kit.Must(r.t, err)
	if left := table.Below(r.root()); len(left) > 0 {
		r.t.Errorf("mounts are left: %q", left)
	}
	if left, err := os.ReadDir(r.root()); err != nil || len(left) > 0 {
		r.t.Errorf("directories are left: %v, %v", left, err)
	}
	inventory, err := r.m.Volumes().Inventory()
	if err != nil || len(inventory.Held) > 0 {
		r.t.Errorf("volumes are held: %+v, %v", inventory, err)
	}
	if left := r.servers.held(); len(left) > 0 {
		r.t.Errorf("claims are left: %q", left)
	}
}

// allocEnv is an allocation of a group with volumes: alias -> source.
func allocEnv(allocID string, sources map[string]string) *hooks.AllocEnv {
	g := &structs.TaskGroup{
		Name:    "g",
		Volumes: map[string]*structs.VolumeRequest{},
	}
	for alias, source := range sources {
		g.Volumes[alias] = &structs.VolumeRequest{
			Name:           alias,
			Type:           "csi",
			Source:         source,
			AccessMode:     structs.CSIMultiNodeMultipleWriter,
			AttachmentMode: structs.CSIFileSystem,
		}
	}
	return &hooks.AllocEnv{
		Group: g,
		Alloc: &structs.Allocation{
			ID:        allocID,
			Namespace: "default",
			JobID:     "j",
			TaskGroup: "g",
			Name:      structs.AllocName("j", "g", 2),
			Job: &structs.Job{
				ID: "j", TaskGroups: []*structs.TaskGroup{g},
			},
		},
	}
}

// fakeServers is a fake of the servers' side of claims. It grants at once, unless the volume is blocked.
type fakeServers struct {
	mu       sync.Mutex
	index    uint64
	changed  chan struct{}
	asked    chan struct{} // closed by the next request
	volumes  map[string]*structs.CSIVolume
	blocked  map[string]string // volume -> why
	claims   map[structs.CSIClaimKey]*structs.CSIClaim
	requests []string
	indexes  []uint64           // the MinIndexes of blocking queries for claims
	fail     map[string][]error // by method
	publish  structs.Secrets
	failed   *structs.OperationError // of the attach
	provider string
	claimed  bool
	policy   string        // for the loss of the node
	timeout  time.Duration // of the plugin's calls
	grows    int64         // ExpandBytes of claims that are granted
	grown    []*structs.CSINodeExpandOutcome
	readOnly []structs.CSIClaimKey // under which a file system turned so
	signed   int                   // tokens
	life     time.Duration         // of tokens
	rejects  string                // the reason for which no token is signed
}

func newFakeServers() *fakeServers {
	s := &fakeServers{
		index:   1,
		changed: make(chan struct{}),
		asked:   make(chan struct{}),
		volumes: map[string]*structs.CSIVolume{},
		blocked: map[string]string{},
		claims:  map[structs.CSIClaimKey]*structs.CSIClaim{},
		fail:    map[string][]error{},
	}
	for _, id := range []string{"data", "logs", "data[2]"} {
		s.volumes[id] = &structs.CSIVolume{
			ID: id, Namespace: "default",
			CSIVolumeSpec: structs.CSIVolumeSpec{
				PluginID:     "ebs",
				ExternalID:   "ext-" + id,
				MountOptions: &structs.CSIMountOptions{FSType: "ext4"},
				Secrets:      structs.Secrets{"pw": "x"},
			},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
		}
	}
	return s
}

func (s *fakeServers) change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	s.index++
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *fakeServers) held() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.claims {
		out = append(out, fmt.Sprint(k))
	}
	return out
}

func (s *fakeServers) count(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.requests {
		if m == method {
			n++
		}
	}
	return n
}

// await waits until a method has been called n times.
func (s *fakeServers) await(ctx context.Context, method string, n int) error {
	for {
		s.mu.Lock()
		asked := s.asked
		s.mu.Unlock()
		if s.count(method) >= n {
			return nil
		}
		select {
		case <-asked:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *fakeServers) Call(ctx context.Context, method string, req, resp any) error {
	s.mu.Lock()
	s.requests = append(s.requests, method)
	close(s.asked)
	s.asked = make(chan struct{})
	if q := s.fail[method]; len(q) > 0 {
		s.fail[method] = q[1:]
		s.mu.Unlock()
		return q[0]
	}
	s.mu.Unlock()
	switch r := req.(type) {
	case *structs.CSIVolumeClaimRequest:
		return s.claim(r, resp.(*structs.CSIVolumeClaimResponse))
	case *structs.CSIClaimGetRequest:
		s.mu.Lock()
		s.indexes = append(s.indexes, r.MinIndex)
		s.mu.Unlock()
		return s.get(ctx, r, resp.(*structs.CSIClaimGetResponse))
	case *structs.CSINodeExpandOutcome:
		s.change(func() { s.grown = append(s.grown, r) })
		return nil
	case *structs.CSIVolumeUnpublishRequest:
		s.change(func() {
			for _, k := range r.Claims {
				delete(s.claims, k)
			}
			s.readOnly = append(s.readOnly, r.TurnedReadOnly...)
		})
		return nil
	case *access.SignRequest:
		return s.sign(r, resp.(*access.SignResponse))
	}
	return structs.Errorf(structs.KindInvalid, "no method %s", method)
}

func (s *fakeServers) claim(
	r *structs.CSIVolumeClaimRequest, resp *structs.CSIVolumeClaimResponse,
) (err error) {
	if r.NodeID != "n1" || r.SecretID != "secret" {
		return structs.Errorf(structs.KindDenied, "who is asking?")
	}
	s.change(func() {
		s.claimed = true
		for _, c := range r.Claims {
			if s.volumes[c.VolumeID] == nil {
				err = structs.Errorf(structs.KindNotFound, "no volume %q", c.VolumeID)
				return
			}
			row := c.Copy()
			row.State, row.GrantIndex = structs.ClaimGranted, s.index
			row.ExpandBytes = s.grows
			old := s.claims[c.Key()]
			if old != nil {
				row.GrantIndex = old.GrantIndex
				row.Unguarded = cmp.Or(old.Unguarded, row.Unguarded)
				row.Guarded = row.Unguarded == "" && (old.Guarded || row.Guarded)
			}
			s.claims[c.Key()] = row
			resp.Claims = append(resp.Claims, row)
		}
	})
	return err
}

func (s *fakeServers) get(
	ctx context.Context, r *structs.CSIClaimGetRequest, resp *structs.CSIClaimGetResponse,
) error {
	for {
		s.mu.Lock()
		c := s.claims[structs.CSIClaimKey{
			Namespace: r.Namespace,
			VolumeID:  r.VolumeID,
			AllocID:   r.AllocID,
		}]
		index := s.index
		changed := s.changed
		why := s.blocked[r.VolumeID]
		if c == nil || index > r.MinIndex || why == "" {
			resp.Claim = c
			resp.Volume = s.volumes[r.VolumeID]
			resp.Index = index
			resp.Ready = why == ""
			resp.Blocked = why
			resp.Provider = s.provider
			resp.LossPolicy = s.policy
			resp.CallTimeout = s.timeout
			if s.failed != nil {
				resp.Attachment = &structs.CSIAttachment{PluginID: "ebs", LastError: s.failed}
			}
			if s.publish != nil {
				resp.Attachment = &structs.CSIAttachment{
					State: structs.AttachmentAttached, PublishContext: s.publish, ExternalNodeID: "i-1",
				}
			}
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return structs.Errorf(structs.KindTimeout, "waiting: %w", ctx.Err())
		}
	}
}
