package csihooks

import (
	"slices"
	"strings"
	"testing"

	"berth/client/guard/watch"
	"berth/structs"
	"berth/test/kit"
)

// fakeGuard notes its orders.
type fakeGuard struct {
	errs    []error // of the first orders
	orders  [][]watch.OrderedVolume
	volumes []watch.OrderedVolume // of the present order
	ordered func()
	stays   error // of Withdraw
}

func (g *fakeGuard) Order(_ string, _ *structs.TaskGroup, volumes []watch.OrderedVolume) error {
	g.orders = append(g.orders, volumes)
	if len(g.errs) > 0 {
		err := g.errs[0]
		g.errs = g.errs[1:]
		return err
	}
	g.volumes = volumes
	if g.ordered != nil {
		g.ordered()
	}
	return nil
}

func (g *fakeGuard) Has(_ string, v watch.OrderedVolume) (bool, error) {
	return slices.Contains(g.volumes, v), nil
}

func (g *fakeGuard) Withdraw(_ string, _ *structs.TaskGroup, v watch.OrderedVolume) error {
	if g.stays != nil {
		return g.stays
	}
	isIt := func(other watch.OrderedVolume) bool { return other == v }
	g.volumes = slices.DeleteFunc(slices.Clone(g.volumes), isIt)
	return nil
}

func (s *fakeServers) anyGuarded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		if c.Guarded {
			return true
		}
	}
	return false
}

func TestVolumes_AreGuardedBeforeTheyAreMounted(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	r.servers.policy = structs.LossLease
	g := &fakeGuard{errs: []error{structs.Unavailablef("no lease"), nil}}
	g.ordered = func() { t.Error("ordered too often") }
	r.guard = g
	release := p.Hang("NodePublishVolume")
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	done := make(chan error, 1)
	go func() { done <- h.Up(r.ctx(), e) }()
	kit.Must(t, p.Await(r.ctx(), "NodePublishVolume", 1))
	if !r.servers.anyGuarded() {
		t.Error("the claim has no mark before the mount")
	}
	release()
	kit.Must(t, <-done)
	m, _ := e.Volume("d")
	if len(g.orders) != 2 || len(g.orders[1]) != 1 || g.orders[1][0].Target != m.HostPath ||
		!strings.HasPrefix(g.orders[1][0].Stage, r.m.Volumes().Root()) {
		t.Errorf("the orders are %+v, the volume is at %s", g.orders, m.HostPath)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_UnderAnotherPolicyAreNotGuarded(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	r.servers.policy = structs.LossHold
	g := &fakeGuard{}
	r.guard = g
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	if len(g.orders) > 0 || r.servers.anyGuarded() {
		t.Errorf("the orders are %+v", g.orders)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_UnderLeaseAreRejectedForATaskWithoutACgroup(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	r.servers.policy = structs.LossLease
	r.guard = &fakeGuard{errs: []error{structs.Preconditionf("task \"t\" runs in the driver \"podman\"")}}
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	err := h.Up(r.ctx(), e)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), `volume default/data with on_node_loss = "lease"`) {
		t.Errorf("got %v", err)
	}
	if p.Count("NodeStageVolume") > 0 || r.servers.anyGuarded() {
		t.Error("the volume is used")
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// served has each mount point served by a process.
func served(kind string) func(string) (string, error) {
	return func(string) (string, error) { return kind, nil }
}

// claimOf returns the claim of the only volume.
func (s *fakeServers) claimOf(t *testing.T) *structs.CSIClaim {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.claims) != 1 {
		t.Fatalf("there are %d claims", len(s.claims))
	}
	for _, c := range s.claims {
		return c.Copy()
	}
	return nil
}

func TestVolumes_WithAFileSystemOfAProcessHold(t *testing.T) {
	for kind, held := range map[string]bool{
		"ext4":        false,
		"":            false,
		"fuse.s3fs":   true,
		"fuseblk":     true,
		"fuse.ceph-9": true,
	} {
		t.Run("a "+kind, func(t *testing.T) {
			r := newFixture(t)
			r.plugin("ebs")
			r.servers.policy = structs.LossLease
			g := &fakeGuard{}
			r.guard = g
			r.fileSystem = served(kind)
			e := allocEnv("a1", map[string]string{"d": "data"})
			h := r.volumes(e)
			kit.Must(t, h.Up(r.ctx(), e))

			c := r.servers.claimOf(t)
			if c.Guarded == held || (c.Unguarded != "") != held || len(g.volumes) == 0 != held {
				t.Errorf("the claim is guarded: %v, with the reason %q; the order is %+v",
					c.Guarded, c.Unguarded, g.volumes)
			}
			if held && !strings.Contains(c.Unguarded, kind) {
				t.Errorf("the reason is %q", c.Unguarded)
			}
			kit.Must(t, h.Down(r.ctx()))
			r.clean()
		})
	}
}

// The agent ends between the mount and the look at its file system.
func TestVolumes_WithAFileSystemOfAProcessHoldAfterARestart(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	r.servers.policy = structs.LossLease
	g := &fakeGuard{}
	r.guard = g
	r.fileSystem = func(string) (string, error) { return "", structs.Internalf("the agent ends") }
	e := allocEnv("a1", map[string]string{"d": "data"})
	if err := r.volumes(e).Up(r.ctx(), e); err == nil || !r.servers.claimOf(t).Guarded {
		t.Fatalf("got %v", err)
	}

	r.fileSystem = served("fuse.s3fs")
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	if c := r.servers.claimOf(t); c.Guarded || c.Unguarded == "" || len(g.volumes) > 0 {
		t.Errorf("the claim is %+v, the order %+v", c, g.volumes)
	}
	asked := r.servers.count("CSIVolume.Claim")
	kit.Must(t, r.volumes(e).Up(r.ctx(), e))
	if r.servers.count("CSIVolume.Claim") > asked {
		t.Error("a later agent asks the servers again")
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// The agent ends after the servers know that the volume holds, and before its order does.
func TestVolumes_ThatHoldLeaveTheOrderAfterARestart(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	r.servers.policy = structs.LossLease
	g := &fakeGuard{stays: structs.Internalf("the agent ends")}
	r.guard = g
	r.fileSystem = served("fuse.s3fs")
	e := allocEnv("a1", map[string]string{"d": "data"})
	if err := r.volumes(e).Up(r.ctx(), e); err == nil || r.servers.claimOf(t).Guarded || len(g.volumes) != 1 {
		t.Fatalf("got %v with the order %+v", err, g.volumes)
	}

	g.stays = nil
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	if len(g.volumes) > 0 {
		t.Errorf("the order is %+v", g.volumes)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// The servers release a claim by the end of the lease while the node tells them that the volume holds.
func TestVolumes_WithAFileSystemOfAProcessNeedTheirGrant(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	r.servers.policy = structs.LossLease
	r.guard = &fakeGuard{}
	r.fileSystem = func(string) (string, error) {
		r.servers.change(func() { clear(r.servers.claims) })
		return "fuse.s3fs", nil
	}
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	if err := h.Up(r.ctx(), e); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v", err)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_OfANodeWithoutAWorkingGuardHold(t *testing.T) {
	later := structs.Unavailablef("%w: its program is gone", watch.ErrNoGuard)
	never := structs.Preconditionf("%w: the agent does not run as root", watch.ErrNoGuard)
	for name, errs := range map[string][]error{
		"no guard":       nil,
		"after a while":  {later, later, later},
		"at once":        {never},
		"for other ones": {structs.Unavailablef("no lease"), never},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.plugin("ebs")
			r.servers.policy = structs.LossLease
			g := &fakeGuard{errs: errs}
			if errs != nil {
				r.guard = g
			}
			e := allocEnv("a1", map[string]string{"d": "data"})
			h := r.volumes(e)
			kit.Must(t, h.Up(r.ctx(), e))
			c := r.servers.claimOf(t)
			if c.Guarded || !strings.Contains(c.Unguarded, "no guard works") || len(g.orders) != len(errs) {
				t.Errorf("the claim is %+v after %d orders", c, len(g.orders))
			}
			kit.Must(t, h.Down(r.ctx()))
			r.clean()
		})
	}
}
