package csihooks

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/client/csi/registry"
	"berth/client/csi/volumes"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// fakeControl records the events and restarts of a hook, which uses no other method.
type fakeControl struct {
	hooks.Control
	events   chan *structs.TaskEvent
	restarts chan string
}

func newFakeControl() *fakeControl {
	return &fakeControl{
		events:   make(chan *structs.TaskEvent, 100),
		restarts: make(chan string, 10),
	}
}

func (c *fakeControl) Emit(e *structs.TaskEvent) { c.events <- e }
func (c *fakeControl) Restart(reason string)     { c.restarts <- reason }

// patience is how long a test waits for a condition.
const patience = 2 * time.Minute

// next is the next event.
func (c *fakeControl) next(t *testing.T) *structs.TaskEvent {
	t.Helper()
	select {
	case e := <-c.events:
		return e
	case <-time.After(patience):
		t.Fatal("got no event")
		return nil
	}
}

// restarted is the reason with which the task is restarted.
func (c *fakeControl) restarted(t *testing.T) string {
	t.Helper()
	select {
	case reason := <-c.restarts:
		return reason
	case <-time.After(patience):
		t.Fatal("the plugin was not restarted")
		return ""
	}
}

func (r *fixture) supervisor(
	allocID string, edit func(*structs.CSIPluginConfig, *SupervisorConfig),
) (*supervisor, *hooks.TaskEnv) {
	task := &structs.Task{
		Name:            "plugin",
		CSIPluginConfig: &structs.CSIPluginConfig{ID: "ebs", Type: structs.CSIPluginMonolith},
	}
	cfg := SupervisorConfig{
		Dir:           r.dir,
		Registry:      r.registry,
		Volumes:       r.m.Volumes(),
		StartInterval: time.Millisecond,
		ProbeInterval: time.Millisecond,
		ProbeTimeout:  2 * time.Minute,
	}
	if edit != nil {
		edit(task.CSIPluginConfig, &cfg)
	}
	e := allocEnv(allocID, nil)
	s := NewPluginSupervisor(cfg, e, task).(*supervisor)
	return s, &hooks.TaskEnv{
		AllocEnv:   e,
		Task:       task,
		Config:     &driver.TaskConfig{},
		FirstStart: true,
	}
}

// startPlugin starts the plugin's process, which listens on the hook's socket.
func startPlugin(t *testing.T, s *supervisor) *csitest.Plugin {
	t.Helper()
	p, err := csitest.New(csitest.Config{
		Controller: true,
		Node:       true,
		SocketDir:  s.socketDir,
	})
	kit.Must(t, err)
	t.Cleanup(p.Close)
	return p
}

var nodeKey = registry.Key{Kind: structs.CSIKindNode, ID: "ebs"}
var controllerKey = registry.Key{Kind: structs.CSIKindController, ID: "ebs"}

func TestDuty_A3_A5_A8_A9_A10_A17_TheEnvironmentOfAPlugin(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	for range 2 { // also before a restart
		te.Config = &driver.TaskConfig{}
		kit.Must(t, s.Up(r.ctx(), te))
	}
	c := te.Config
	if got := c.Env["CSI_ENDPOINT"]; got != "unix:///csi/csi.sock" {
		t.Errorf("CSI_ENDPOINT=%s", got)
	}
	for k := range c.Env {
		if strings.HasPrefix(k, "CSI_") && k != "CSI_ENDPOINT" {
			t.Errorf("own setting %s with the specification's prefix", k)
		}
	}
	fi, err := os.Stat(s.socketDir)
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("socket directory %v, %v", fi, err)
	}
	want := map[string]driver.Mount{
		"/csi":       {HostPath: s.socketDir, TaskPath: "/csi", Propagation: "private"},
		"/local/csi": {HostPath: r.root(), TaskPath: "/local/csi", Propagation: "bidirectional"},
		pluginData:   {HostPath: filepath.Join(r.dir, "d", "ebs"), TaskPath: pluginData, Propagation: "private"},
	}
	if !c.Privileged || len(c.Mounts) != len(want) {
		t.Errorf("privileged %v, mounts %+v", c.Privileged, c.Mounts)
	}
	for _, m := range c.Mounts {
		if m != want[m.TaskPath] {
			t.Errorf("mount %+v, want %+v", m, want[m.TaskPath])
		}
		if _, err := os.Stat(m.HostPath); err != nil {
			t.Error(err)
		}
	}
	kit.Must(t, s.Down(r.ctx()))
	kit.Must(t, s.Down(r.ctx()))
	if _, err := os.Stat(s.socketDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket directory is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "d", "ebs")); err != nil {
		t.Errorf("the plugin's own directory is gone: %v", err)
	}
}

// The env block of the job configures the plugin. The endpoint is not a setting of the operator.
func TestDuty_A11_TheEnvironmentOfTheJobReachesThePlugin(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	te.Config.Env = map[string]string{"DRIVER_LOG": "debug", "CSI_ENDPOINT": "unix:///elsewhere"}
	kit.Must(t, s.Up(r.ctx(), te))
	if env := te.Config.Env; env["DRIVER_LOG"] != "debug" || env["CSI_ENDPOINT"] != "unix:///csi/csi.sock" {
		t.Errorf("the environment is %v", env)
	}
	kit.Must(t, s.Down(r.ctx()))
}

func TestPluginSupervisor_GivesPathsByKindAndDriver(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1",
		func(p *structs.CSIPluginConfig, _ *SupervisorConfig) { p.Type = structs.CSIPluginController })
	kit.Must(t, s.Up(r.ctx(), te))
	if len(te.Config.Mounts) != 2 {
		t.Errorf("mounts %+v", te.Config.Mounts)
	}
	kit.Must(t, s.Down(r.ctx()))
	s, te = r.supervisor("a2", func(_ *structs.CSIPluginConfig, c *SupervisorConfig) {
		c.HostPaths = func(*structs.Task) bool { return true }
	})
	kit.Must(t, s.Up(r.ctx(), te))
	if len(te.Config.Mounts) != 0 ||
		te.Config.Env["CSI_ENDPOINT"] != "unix://"+s.socket() {
		t.Errorf("%+v", te.Config)
	}
	kit.Must(t, s.Down(r.ctx()))
}

func TestPluginSupervisor_RejectsInvalidSettings(t *testing.T) {
	r := newFixture(t)
	for want, edit := range map[string]func(*structs.CSIPluginConfig, *SupervisorConfig){
		"not an absolute path": func(p *structs.CSIPluginConfig, _ *SupervisorConfig) { p.MountDir = "csi" },
		"is within mount_dir": func(p *structs.CSIPluginConfig,
			_ *SupervisorConfig) {
			p.StagePublishBaseDir = "/csi/stage"
		},
		"at most 80": func(p *structs.CSIPluginConfig, _ *SupervisorConfig) {
			p.StagePublishBaseDir = "/" + strings.Repeat("x", 90)
		},
		"shorter data_dir": func(_ *structs.CSIPluginConfig, c *SupervisorConfig) {
			c.Dir += "/" + strings.Repeat("x", 90)
		},
	} {
		s, te := r.supervisor("a1", edit)
		if err := s.Up(r.ctx(), te); !structs.IsKind(err, structs.KindInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestDuty_A12_A16_APluginIsRegisteredWhenItIsHealthyAndLeavesWithItsProcess(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	kit.Must(t, s.Up(r.ctx(), te))
	c := newFakeControl()
	s.Started(r.ctx(), c) // the socket appears late
	p := startPlugin(t, s)
	kit.Must(t, p.Restart())
	e := c.next(t)
	if e.Type != structs.TaskEventPluginHealthy || e.Details["plugin_id"] != "ebs" {
		t.Errorf("event %+v", e)
	}
	for _, k := range []registry.Key{nodeKey, controllerKey} {
		i := r.registry.Get(k)
		if i == nil || i.AllocID != "a1" || i.Provider != "test.csi.berth" || i.Version != "1.0" ||
			i.HostMountPath != r.root() || i.PluginMountPath != "/local/csi" ||
			i.SocketPath != s.socket() {
			t.Errorf("%v: %+v", k, i)
		}
	}
	_, err := r.m.Client(r.ctx(), structs.CSIKindController, "ebs")
	if err != nil {
		t.Error(err)
	}
	s.Stopped()
	s.Stopped()
	if len(r.registry.Serving()) != 0 {
		t.Error("still registered")
	}
	kit.Must(t, s.Down(r.ctx()))
}

func TestDuty_A13_AStaleSocketIsRemovedAndALiveOneIsNot(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	kit.Must(t, s.Up(r.ctx(), te))
	l, err := net.Listen("unix", s.socket())
	kit.Must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	kit.Must(t, s.Up(r.ctx(), te)) // the agent restarted, the plugin runs
	if _, err := os.Stat(s.socket()); err != nil {
		t.Errorf("the socket of a live plugin was removed: %v", err)
	}
	kit.Must(t, l.Close()) // the plugin is killed
	kit.Must(t, s.Up(r.ctx(), te))
	if _, err := os.Lstat(s.socket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stale socket is left: %v", err)
	}
	kit.Must(t, s.Down(r.ctx()))
}

func TestPluginSupervisor_KeepsAPluginHealthyAcrossAgents(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	kit.Must(t, s.Up(r.ctx(), te))
	p := startPlugin(t, s)
	kit.Must(t, p.Restart())
	c := newFakeControl()
	ctx, cancel := context.WithCancel(r.ctx())
	s.Started(ctx, c)
	c.next(t)
	cancel() // the agent ends; the process does not
	s.Stopped()
	r.crash()
	r.boot()
	kit.Must(t, r.m.WaitFirst(r.ctx()))
	for _, i := range r.m.Instances() {
		if !i.Healthy {
			t.Errorf("%+v", i)
		}
	}
	s, _ = r.supervisor("a1", nil)
	n := p.Count("Probe")
	c = newFakeControl()
	before := r.registry.Get(nodeKey)
	kit.Must(t, s.Up(r.ctx(), &hooks.TaskEnv{
		AllocEnv: te.AllocEnv,
		Task:     te.Task,
		Config:   &driver.TaskConfig{},
	}))
	s.Started(r.ctx(), c)
	kit.Must(t, p.Await(r.ctx(), "Probe", n+3))
	if len(c.events)+len(c.restarts) != 0 || r.registry.Get(nodeKey) != before {
		t.Errorf("%d events, %d restarts, registered anew %v",
			len(c.events), len(c.restarts), r.registry.Get(nodeKey) != before)
	}
	s.Stopped()
	kit.Must(t, s.Down(r.ctx()))
}

func TestPluginSupervisor_RemovesOnlyItsOwnRegistration(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	kit.Must(t, s.Up(r.ctx(), te))
	p := startPlugin(t, s)
	kit.Must(t, p.Restart())
	c := newFakeControl()
	s.Started(r.ctx(), c)
	c.next(t)
	kit.Must(t,
		r.registry.Register(&registry.Instance{
			Kind:       structs.CSIKindNode,
			ID:         "ebs",
			AllocID:    "newer",
			SocketPath: p.Socket(),
		}))
	s.Stopped()
	kit.Must(t, s.Down(r.ctx()))
	if i := r.registry.Get(nodeKey); i == nil || i.AllocID != "newer" {
		t.Errorf("serving %+v", i)
	}
}

func TestPluginSupervisor_WarnsOfVolumesInUse(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	kit.Must(t, s.Up(r.ctx(), te))
	p, err := csitest.New(csitest.Config{
		Node:      true,
		Mounts:    true,
		SocketDir: s.socketDir,
		HostPath: func(path string) string {
			return filepath.Join(r.root(), strings.TrimPrefix(path, scope+"/"))
		},
	})
	kit.Must(t, err)
	t.Cleanup(p.Close)
	kit.Must(t, p.Restart())
	s.plugin.Type = structs.CSIPluginNode
	c := newFakeControl()
	s.Started(r.ctx(), c)
	c.next(t)
	u := &volumes.Use{
		VolumeKey:      volumes.VolumeKey{Namespace: "default", ID: "data"},
		AllocID:        "user",
		PluginID:       "ebs",
		ExternalID:     "x",
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}
	_, err = r.m.Volumes().Up(r.ctx(), u, nil)
	kit.Must(t, err)
	s.Stopped()
	if e := c.next(t); !strings.Contains(e.Message, "default/data") {
		t.Errorf("event %+v", e)
	}
}

func TestPluginSupervisor_DefaultTimeouts(t *testing.T) {
	r := newFixture(t)
	s, _ := r.supervisor("a1", nil)
	if s.plugin.HealthTimeout != 30*time.Second ||
		s.plugin.HangTimeout != 2*time.Minute {
		t.Errorf("health_timeout %s, hang_timeout %s", s.plugin.HealthTimeout, s.plugin.HangTimeout)
	}
}

func TestPluginSupervisor_HasAPrivateSocketDirectory(t *testing.T) {
	r := newFixture(t)
	seen := map[string]string{}
	for _, alloc := range []string{"a1", "a2"} {
		for _, task := range []string{"plugin", "other"} {
			e := allocEnv(alloc, nil)
			s := NewPluginSupervisor(SupervisorConfig{
				Dir:      r.dir,
				Registry: r.registry,
				Volumes:  r.m.Volumes(),
			}, e,
				&structs.Task{
					Name:            task,
					CSIPluginConfig: &structs.CSIPluginConfig{ID: "ebs", Type: structs.CSIPluginNode},
				}).(*supervisor)
			if other := seen[s.socketDir]; other != "" {
				t.Errorf("%s of %s shares its directory with %s", task, alloc, other)
			}
			seen[s.socketDir] = task + " of " + alloc
		}
	}
}

func TestPluginSupervisors_OfTwoAllocationsServeOnAcrossAgents(t *testing.T) {
	r := newFixture(t)
	ctx, cancel := context.WithCancel(r.ctx())
	var first []*supervisor
	for _, alloc := range []string{"a1", "a2"} {
		s, te := r.supervisor(alloc, nil)
		kit.Must(t, s.Up(r.ctx(), te))
		kit.Must(t, startPlugin(t, s).Restart())
		c := newFakeControl()
		s.Started(ctx, c)
		c.next(t)
		first = append(first, s)
	}
	cancel() // the agent ends; the processes do not
	for _, s := range first {
		s.Stopped()
	}
	r.crash()
	r.boot()
	kit.Must(t, r.m.WaitFirst(r.ctx()))
	if i := r.m.Instances(); len(i) != 2 || i[0].AllocID != "a2" || !i[0].Healthy || !i[1].Healthy {
		t.Errorf("after the restart: %+v", i)
	}
	var again []*supervisor
	for _, alloc := range []string{"a1", "a2"} {
		s, te := r.supervisor(alloc, nil)
		kit.Must(t, s.Up(r.ctx(), te))
		c := newFakeControl()
		s.Started(r.ctx(), c)
		again = append(again, s)
	}
	again[1].Stopped() // the newer one ends: the older one serves at once
	kit.Must(t, again[1].Down(r.ctx()))
	if i := r.registry.Get(nodeKey); i == nil || i.AllocID != "a1" {
		t.Errorf("serving %+v", i)
	}
	_, err := r.m.Client(r.ctx(), structs.CSIKindController, "ebs")
	if err != nil {
		t.Error(err)
	}
	again[0].Stopped()
	kit.Must(t, again[0].Down(r.ctx()))
	if len(r.registry.Serving()) != 0 {
		t.Error("still registered")
	}
}

func TestPluginSupervisors_OfTwoPluginsInOneAllocationServeBoth(t *testing.T) {
	r := newFixture(t)
	for _, id := range []string{"ebs", "efs"} {
		e := allocEnv("a1", nil)
		task := &structs.Task{
			Name:            id,
			CSIPluginConfig: &structs.CSIPluginConfig{ID: id, Type: structs.CSIPluginMonolith},
		}
		s := NewPluginSupervisor(SupervisorConfig{
			Dir:           r.dir,
			Registry:      r.registry,
			Volumes:       r.m.Volumes(),
			StartInterval: time.Millisecond,
		}, e, task).(*supervisor)
		kit.Must(t, s.Up(r.ctx(), &hooks.TaskEnv{
			AllocEnv: e,
			Task:     task,
			Config:   &driver.TaskConfig{},
		}))
		p, err := csitest.New(csitest.Config{
			Name:       id + ".csi",
			Controller: true,
			Node:       true,
			SocketDir:  s.socketDir,
		})
		kit.Must(t, err)
		t.Cleanup(p.Close)
		kit.Must(t, p.Restart())
		c := newFakeControl()
		s.Started(r.ctx(), c)
		defer s.Stopped()
		c.next(t)
	}
	for _, id := range []string{"ebs", "efs"} {
		c, err := r.m.Client(r.ctx(), structs.CSIKindNode, id)
		if err != nil || c.Info.Provider != id+".csi" {
			t.Errorf("%s: %+v, %v", id, c, err)
		}
	}
}
