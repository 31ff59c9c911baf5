package volumes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/client/csi/registry"
	"berth/csi/csitest"
	"berth/internal/keylock"
	"berth/structs"
	"berth/test/kit"
)

var both = csitest.Config{
	Controller: true,
	Node:       true,
	NodeID:     "i-123",
	MaxVolumes: 7,
	Topology:   map[string]string{"zone": "a"},
}

func (r *fixture) instance(kind structs.CSIKind, id string) *structs.CSIPluginInstance {
	for _, i := range r.m.Instances() {
		if i.Kind == kind && i.PluginID == id {
			return i
		}
	}
	return nil
}

// serving waits until the allocation's instance is the one that is used.
func (r *fixture) serving(kind structs.CSIKind, id, allocID string) {
	r.t.Helper()
	waitFor(r.t, r, func() bool {
		c, err := r.m.Healthy(kind, id)
		return err == nil && c.Info.AllocID == allocID
	})
}

func TestFingerprint_ReportsAllProperties(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs", "plug", both)
	r.serving(structs.CSIKindController, "ebs", "plug")
	r.serving(structs.CSIKindNode, "ebs", "plug")
	all := r.m.Instances()
	if len(all) != 2 || all[0].Kind != structs.CSIKindController ||
		all[1].Kind != structs.CSIKindNode {
		t.Fatalf("instances %+v", all)
	}
	c, n := all[0], all[1]
	for _, i := range all {
		if !i.Healthy || i.NodeID != "n1" ||
			i.Provider != "test.csi.berth" || i.ProviderVersion != "1.0" ||
			!i.RequiresControllerPlugin || !i.RequiresTopologies || i.UpdateTime == 0 {
			t.Errorf("%+v", i)
		}
	}
	if c.NodeInfo != nil || c.ControllerInfo == nil || !c.ControllerInfo.SupportsAttachDetach {
		t.Errorf("controller %+v", c)
	}
	if n.ControllerInfo != nil || n.NodeInfo == nil ||
		n.NodeInfo.ID != "i-123" || n.NodeInfo.MaxVolumes != 7 ||
		n.NodeInfo.AccessibleTopology.Segments["zone"] != "a" || !n.NodeInfo.RequiresNodeStageVolume {
		t.Errorf("node %+v", n.NodeInfo)
	}
}

// An expansion blocks the use of a volume only if the plugin cannot expand volumes in use.
func TestDuty_E5_AFingerprintHasTheKindOfExpansion(t *testing.T) {
	r := newFixture(t)
	for name, c := range map[string]struct {
		announced []string
		offline   bool
	}{
		"neither": {[]string{}, false},
		"online":  {[]string{"ONLINE"}, false},
		"offline": {[]string{"OFFLINE"}, true},
		"either":  {[]string{"OFFLINE", "ONLINE"}, false},
	} {
		cfg := csitest.Config{Controller: true, PluginCaps: append(c.announced, "CONTROLLER_SERVICE")}
		r.plugin(name, name, cfg)
		r.serving(structs.CSIKindController, name, name)
		if i := r.instance(structs.CSIKindController, name); i.ExpandsOffline != c.offline {
			t.Errorf("%s: %+v", name, i)
		}
	}
}

// A node plugin that runs as a controller by a mistake in its job is not called as one.
func TestDuty_A2_AControllerIsCalledOnlyWhereAnnounced(t *testing.T) {
	r := newFixture(t)
	cfg := both
	cfg.PluginCaps = []string{"VOLUME_ACCESSIBILITY_CONSTRAINTS"}
	p := r.plugin("ebs", "plug", cfg)
	r.serving(structs.CSIKindNode, "ebs", "plug")
	waitFor(t, r, func() bool {
		i := r.instance(structs.CSIKindController, "ebs")
		return i != nil && !i.Healthy &&
			strings.Contains(i.HealthDescription, "does not announce CONTROLLER_SERVICE")
	})
	for _, call := range p.Calls() {
		if strings.HasPrefix(call.RPC, "Controller") {
			t.Errorf("called %s", call.RPC)
		}
	}
}

func TestDuty_E8_AnUnhealthyPluginHasAReasonAndKeepsItsFacts(t *testing.T) {
	r := newFixture(t)
	r.cfg.FingerprintInterval = 2 * time.Millisecond
	r.crash()
	r.boot()
	p := r.plugin("ebs", "plug", both)
	r.serving(structs.CSIKindNode, "ebs", "plug")
	p.FailAlways("Probe", csitest.Error("FailedPrecondition", "no kernel module"))
	waitFor(t, r, func() bool {
		return !r.instance(structs.CSIKindNode, "ebs").Healthy
	})
	i := r.instance(structs.CSIKindNode, "ebs")
	if !strings.Contains(i.HealthDescription, "no kernel module") || i.NodeInfo == nil ||
		i.NodeInfo.ID != "i-123" {
		t.Errorf("%+v", i)
	}
	_, err := r.m.Healthy(structs.CSIKindNode, "ebs")
	if !structs.IsKind(err, structs.KindUnavailable) ||
		!strings.Contains(err.Error(), "no kernel module") {
		t.Errorf("got %v", err)
	}
	p.Script("Probe", nil)
	waitFor(t, r, func() bool {
		return r.instance(structs.CSIKindNode, "ebs").Healthy
	})
}

func TestDuty_E7_NotReadyIsStarting(t *testing.T) {
	r := newFixture(t)
	p, err := csitest.New(both)
	kit.Must(t, err)
	t.Cleanup(p.Close)
	p.Answer("Probe", &spec.ProbeResponse{Ready: wrapperspb.Bool(false)})
	kit.Must(t, p.Restart())
	r.register("ebs", "plug", p, both)
	waitFor(t, r, func() bool {
		return r.instance(structs.CSIKindNode, "ebs") != nil
	})
	if i := r.instance(structs.CSIKindNode, "ebs"); i.Healthy ||
		!strings.Contains(i.HealthDescription, "starting") {
		t.Errorf("%+v", i)
	}
	p.Script("Probe", nil)
	r.serving(structs.CSIKindNode, "ebs", "plug") // found out by itself, soon
}

func TestManager_NotifiesOnlyOfChanges(t *testing.T) {
	r := newFixture(t)
	r.cfg.FingerprintInterval = time.Millisecond
	r.crash()
	r.boot()
	p := r.plugin("ebs", "plug", csitest.Config{Node: true})
	<-r.m.Changes()
	before := r.instance(structs.CSIKindNode, "ebs")
	kit.Must(t, p.Await(r.ctx(), "Probe", 10))
	select {
	case <-r.m.Changes():
		t.Error("got a notification without a change")
	default:
	}
	if after := r.instance(structs.CSIKindNode, "ebs"); after.UpdateTime != before.UpdateTime {
		t.Error("UpdateTime moved")
	}
	kit.Must(t, r.registry.Deregister(registry.Key{
		Kind: structs.CSIKindNode,
		ID:   "ebs",
	}, "plug"))
	<-r.m.Changes()
	if got := r.m.Instances(); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
}

func TestManager_ANewerAllocationTakesOver(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs", "old", csitest.Config{Node: true, NodeID: "old"})
	r.serving(structs.CSIKindNode, "ebs", "old")
	var mu sync.Mutex
	var unhealthy []string
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // reads every change
		for {
			r.m.mu.Lock()
			changed := r.m.changed
			r.m.mu.Unlock()
			if i := r.instance(structs.CSIKindNode, "ebs"); i == nil || !i.Healthy {
				mu.Lock()
				unhealthy = append(unhealthy, "blip")
				mu.Unlock()
			}
			select {
			case <-changed:
			case <-stop:
				return
			}
		}
	})
	p, err := csitest.New(csitest.Config{Node: true, NodeID: "new"})
	kit.Must(t, err)
	t.Cleanup(p.Close)
	release := p.Hang("NodeGetInfo")
	kit.Must(t, p.Restart())
	r.register("ebs", "new", p, csitest.Config{Node: true})
	kit.Must(t, p.Await(r.ctx(), "NodeGetInfo", 1))
	if c, err := r.m.Client(r.ctx(), structs.CSIKindNode, "ebs"); err != nil || c.Info.AllocID != "old" {
		t.Errorf("before the first fingerprint of the newer instance: got %+v, %v", c, err)
	}
	release()
	r.serving(structs.CSIKindNode, "ebs", "new")
	kit.Must(t, r.registry.Deregister(registry.Key{
		Kind: structs.CSIKindNode,
		ID:   "ebs",
	}, "new"))
	r.serving(structs.CSIKindNode, "ebs", "old") // the one below, at once
	close(stop)
	wg.Wait()
	if len(unhealthy) > 0 {
		t.Errorf("%d unhealthy moments", len(unhealthy))
	}
}

func TestManager_IgnoresAnOlderAllocationsEnd(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs", "old", csitest.Config{Node: true})
	p := r.plugin("ebs", "new", csitest.Config{Node: true})
	r.serving(structs.CSIKindNode, "ebs", "new")
	n := p.Count("NodeGetInfo")
	k := registry.Key{Kind: structs.CSIKindNode, ID: "ebs"}
	kit.Must(t, r.registry.Deregister(k, "old"))
	kit.Must(t, r.registry.Deregister(k, "stranger"))
	if c, err := r.m.Healthy(structs.CSIKindNode, "ebs"); err != nil || c.Info.AllocID != "new" ||
		p.Count("NodeGetInfo") != n {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestManager_AnUnhealthyInstanceDoesNotTakeOver(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs", "old", csitest.Config{Node: true})
	r.serving(structs.CSIKindNode, "ebs", "old")
	p, err := csitest.New(csitest.Config{Node: true})
	kit.Must(t, err)
	t.Cleanup(p.Close)
	p.FailAlways("Probe", csitest.Error("Internal", "sick"))
	kit.Must(t, p.Restart())
	r.register("ebs", "new", p, csitest.Config{Node: true})
	kit.Must(t, p.Await(r.ctx(), "Probe", 3))
	r.serving(structs.CSIKindNode, "ebs", "old")
	p.Script("Probe", nil)
	r.serving(structs.CSIKindNode, "ebs", "new")
}

func TestManager_AHangingPluginDelaysOnlyItself(t *testing.T) {
	r := newFixture(t)
	hung, err := csitest.New(nodeOnly)
	kit.Must(t, err)
	t.Cleanup(hung.Close)
	hung.Hang("Probe")
	kit.Must(t, hung.Restart())
	r.register("stuck", "s", hung, nodeOnly)
	kit.Must(t, hung.Await(r.ctx(), "Probe", 1))
	waiting, cancel := context.WithCancel(context.Background())
	defer cancel() // also where the test is skipped for lack of root
	ended := make(chan error, 1)
	go func() {
		_, err := r.m.Client(waiting, structs.CSIKindNode, "stuck")
		ended <- err
	}()
	// Meanwhile all operations of the other plugins work: registration, volumes, replacement, removal.
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	r.up(u)
	r.register("ebs", "plug-2", p, nodeOnly)
	r.serving(structs.CSIKindNode, "ebs", "plug-2")
	r.down(u)
	kit.Must(t, r.registry.Deregister(registry.Key{
		Kind: structs.CSIKindNode,
		ID:   "ebs",
	}, "plug"))
	if len(r.m.Instances()) != 1 {
		t.Errorf("instances %+v", r.m.Instances())
	}
	cancel()
	if err := <-ended; !structs.IsKind(err, structs.KindUnavailable) ||
		!strings.Contains(err.Error(), `"stuck"`) {
		t.Errorf("got %v", err)
	}
	// And it can be taken away while it hangs.
	kit.Must(t, r.registry.Deregister(registry.Key{
		Kind: structs.CSIKindNode,
		ID:   "stuck",
	}, "s"))
	waitFor(t, r, func() bool {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		return len(r.m.slots) == 1
	})
}

func TestVolumes_AHangingVolumeDelaysOnlyItself(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	release := p.Hang("NodeStageVolume")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := r.v.Up(ctx, use("stuck", "a1"), nil)
		ended <- err
	}()
	kit.Must(t, p.Await(r.ctx(), "NodeStageVolume", 1))
	other := use("nostage", "a2")
	other.PluginID = "nfs"
	q := r.plugin("nfs", "plug-n", csitest.Config{
		Node:     true,
		Mounts:   true,
		NodeCaps: []string{},
	})
	r.up(other)
	r.down(other)
	cancel() // the allocation is stopped: its Up ends although the plugin hangs
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	release()
	r.down(use("stuck", "a1"))
	r.clean(q, "ext-nostage")
	if _, staged, _, _ := p.Volume("ext-stuck"); len(staged) > 0 {
		t.Errorf("left staged: %q", staged)
	}
}

func TestWaitFirst_WaitsForEveryRestoredPlugin(t *testing.T) {
	r := newFixture(t)
	kit.Must(t, r.m.WaitFirst(r.ctx())) // nothing was restored
	p := r.plugin("ebs", "plug", both)
	dead := r.plugin("dead", "x", csitest.Config{Node: true})
	r.serving(structs.CSIKindNode, "ebs", "plug")
	r.crash()
	dead.Stop()
	release := p.Hang("NodeGetInfo")
	r.boot()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var err error
	waitFor(t, r, func() bool {
		err = r.m.WaitFirst(ended)
		return err == nil || !strings.Contains(err.Error(), ", ")
	})
	if !structs.IsKind(err, structs.KindTimeout) || !strings.Contains(err.Error(), "yet: ebs (node):") {
		t.Errorf("got %v, want a wait for ebs (node) alone", err)
	}
	release()
	kit.Must(t, r.m.WaitFirst(r.ctx()))
	if i := r.instance(structs.CSIKindNode, "ebs"); i == nil || !i.Healthy {
		t.Errorf("the first fingerprint is not there: %+v", i)
	}
}

func TestManager_WaitsForEveryInstance(t *testing.T) {
	r := newFixture(t)
	var plugins []*csitest.Plugin
	for _, id := range []string{"a", "b", "c", "d"} {
		p := csitest.Start(t, csitest.Config{Node: true})
		p.Hang("Probe")
		r.register(id, "plug", p, csitest.Config{Node: true})
		plugins = append(plugins, p)
	}
	for _, p := range plugins {
		kit.Must(t, p.Await(r.ctx(), "Probe", 1))
	}
	begin := time.Now()
	r.crash() // returns when Run has
	if took := time.Since(begin); took > r.cfg.ProbeTimeout {
		t.Errorf("took %s", took)
	}
}

func TestAcquire_NamesTheHolder(t *testing.T) {
	var l keylock.Map
	release, err := acquireLock(context.Background(), &l, "v", "staging it")
	kit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = acquireLock(ctx, &l, "v", "growing it")
	if !structs.IsKind(err, structs.KindUnavailable) ||
		!errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "growing it was not begun: earlier work on it, staging it since") {
		t.Errorf("got %v", err)
	}
	release()
	release, err = acquireLock(ctx, &l, "v", "growing it")
	kit.Must(t, err)
	release()
}

func TestManager_FindsMissedChangesAtTheNextResync(t *testing.T) {
	r := newFixture(t)
	r.cfg.FingerprintInterval = 2 * time.Millisecond
	r.crash()
	r.boot()
	r.plugin("ebs", "plug", csitest.Config{Node: true})
	r.serving(structs.CSIKindNode, "ebs", "plug")
	k := registry.Key{Kind: structs.CSIKindNode, ID: "ebs"}
	r.m.mu.Lock() // as if the registration had not arrived
	r.m.slots[k].current.stop()
	delete(r.m.slots, k)
	r.m.mu.Unlock()
	r.serving(structs.CSIKindNode, "ebs", "plug")
}

func TestManager_DefaultsAreTheDocumentedOnes(t *testing.T) {
	c := Config{}.withDefaults()
	got := []time.Duration{
		c.FingerprintInterval, c.RefreshMin, c.ProbeTimeout, c.CallTimeout,
		c.ClientWait, c.RetryMin, c.RetryMax, c.LateWait, c.StopWait,
	}
	want := []time.Duration{
		30 * time.Second, 5 * time.Second, 10 * time.Second,
		2 * time.Minute, 30 * time.Second, 250 * time.Millisecond,
		30 * time.Second, 4 * time.Minute, 5 * time.Second,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestManager_RunEndsAfterItsInstances(t *testing.T) {
	r := newFixture(t)
	r.crash()
	var entered, runEnded = make(chan struct{}), make(chan struct{})
	var once sync.Once
	early := false
	r.cfg.Metrics = func(_, rpc, code string, _ time.Duration) {
		if rpc != "Probe" || code != "Canceled" {
			return
		}
		once.Do(func() {
			close(entered)
			select {
			case <-runEnded:
				early = true
			case <-time.After(100 * time.Millisecond): // Run has had the time to return, and waits
			}
		})
	}
	r.boot()
	p, err := csitest.New(nodeOnly)
	kit.Must(t, err)
	t.Cleanup(p.Close)
	p.Hang("Probe")
	kit.Must(t, p.Restart())
	r.register("ebs", "plug", p, nodeOnly)
	kit.Must(t, p.Await(r.ctx(), "Probe", 1))
	go func() { r.crash(); close(runEnded) }()
	<-entered
	<-runEnded
	if early {
		t.Error("Run returned before an instance had ended")
	}
}
