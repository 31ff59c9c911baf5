package csihooks

import (
	"strings"
	"testing"

	"berth/client/guard/order"
	"berth/structs"
)

// fakeGuard notes its orders.
type fakeGuard struct {
	errs    []error // of the first orders
	orders  [][]order.Volume
	ordered func()
}

func (g *fakeGuard) Order(_ string, _ *structs.TaskGroup, volumes []order.Volume) error {
	g.orders = append(g.orders, volumes)
	if len(g.errs) > 0 {
		err := g.errs[0]
		g.errs = g.errs[1:]
		return err
	}
	if g.ordered != nil {
		g.ordered()
	}
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
	must(t, p.Await(r.ctx(), "NodePublishVolume", 1))
	if !r.servers.anyGuarded() {
		t.Error("the claim has no mark before the mount")
	}
	release()
	must(t, <-done)
	m, _ := e.Volume("d")
	if len(g.orders) != 2 || len(g.orders[1]) != 1 || g.orders[1][0].Target != m.HostPath ||
		!strings.HasPrefix(g.orders[1][0].Stage, r.m.Volumes().Root()) {
		t.Errorf("the orders are %+v, the volume is at %s", g.orders, m.HostPath)
	}
	must(t, h.Down(r.ctx()))
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
	must(t, h.Up(r.ctx(), e))
	if len(g.orders) > 0 || r.servers.anyGuarded() {
		t.Errorf("the orders are %+v", g.orders)
	}
	must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_UnderLeaseAreRejectedWithoutAGuard(t *testing.T) {
	for name, g := range map[string]Guard{
		"no guard": nil,
		"a task without a cgroup": &fakeGuard{errs: []error{
			structs.Preconditionf("task \"t\" runs in the driver \"podman\""),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			p := r.plugin("ebs")
			r.servers.policy = structs.LossLease
			r.guard = g
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
			must(t, h.Down(r.ctx()))
			r.clean()
		})
	}
}

func TestVolumes_UnderLeaseAreRejectedWithAFileSystemOfAProcess(t *testing.T) {
	for kind, rejected := range map[string]bool{
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
			r.guard = &fakeGuard{}
			r.fileSystem = func(string) (string, error) { return kind, nil }
			e := allocEnv("a1", map[string]string{"d": "data"})
			h := r.volumes(e)
			err := h.Up(r.ctx(), e)
			if structs.IsKind(err, structs.KindPrecondition) != rejected {
				t.Errorf("got %v", err)
			}
			must(t, h.Down(r.ctx()))
			r.clean()
		})
	}
}
