package csihooks

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/helper"
	mounthealth "berth/client/csi/upkeep"
	"berth/client/csi/volumes"
	"berth/client/hooks"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/storage"
	"berth/test/kit"
)

// heals gives the node a monitor and a healer that are fast.
func (r *fixture) heals(edits ...func(*mounthealth.MonitorConfig)) {
	pool := helper.New([]string{os.Args[0]})
	cfg := mounthealth.MonitorConfig{
		List:     r.m.Volumes().Mounts,
		Helpers:  pool,
		Interval: 20 * time.Millisecond,
		Wait:     200 * time.Millisecond,
	}
	for _, edit := range edits {
		edit(&cfg)
	}
	m := mounthealth.NewMonitor(cfg)
	r.healer = mounthealth.NewHealer(m, pool)
	r.healer.MinPause = time.Millisecond
	r.healer.MaxPause = 10 * time.Millisecond
	r.healer.CutAfter = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		m.Run(ctx)
		close(ended)
	}()
	r.t.Cleanup(func() { cancel(); <-ended })
}

// source is a FUSE file system in which a plugin keeps a volume.
type source struct {
	t   *testing.T
	dir string
	fs  *kit.FUSE
}

func newSource(t *testing.T, p *csitest.Plugin, volumeID, content string) *source {
	t.Helper()
	s := &source{t: t, dir: filepath.Join(p.Dir(), "ext-"+volumeID)}
	kit.Must(t, os.MkdirAll(s.dir, 0o755))
	s.mount(content)
	t.Cleanup(func() {
		for unix.Unmount(s.dir, unix.MNT_DETACH) == nil { // each of replace
		}
	})
	return s
}

func (s *source) mount(content string) { s.fs = kit.MountFUSE(s.t, s.dir, content) }

// replace ends the server, as kill -9 does, and has the plugin serve the volume again. It mounts over the
// dead file system: without a mount, the node would stage an empty directory meanwhile.
func (s *source) replace(content string) {
	s.t.Helper()
	s.fs.Die()
	s.mount(content)
}

// running is a task as its runner runs it, without a process.
type running struct {
	hooks.Control
	t    *testing.T
	ctx  context.Context
	end  context.CancelFunc
	hook hooks.Task
	env  *hooks.TaskEnv
	name string

	mu       sync.Mutex
	changed  chan struct{}
	events   []string
	restarts int
	starts   int
	wg       sync.WaitGroup
}

// run starts a task of an allocation whose volumes are up.
func (r *fixture) run(e *hooks.AllocEnv) *running {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	task := &structs.Task{Name: "t", VolumeMounts: []*structs.VolumeMount{{Volume: "d", Destination: "/d"}}}
	u := &running{t: r.t, ctx: ctx, end: cancel, name: e.Alloc.ID, changed: make(chan struct{})}
	u.hook = NewIllness(r.config(), e, task)
	u.env = &hooks.TaskEnv{AllocEnv: e, Task: task, FirstStart: true, Emit: u.Emit}
	if u.hook == nil {
		r.t.Fatal("the task has no hook")
	}
	u.start()
	r.t.Cleanup(func() {
		cancel()
		u.wg.Wait()
	})
	return u
}

func (u *running) note(edit func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	edit()
	close(u.changed)
	u.changed = make(chan struct{})
}

func (u *running) start() {
	u.hook.(hooks.Started).Started(u.ctx, u)
	u.note(func() { u.starts++ })
}

// Emit implements hooks.Control.
func (u *running) Emit(e *structs.TaskEvent) {
	u.note(func() { u.events = append(u.events, e.Message) })
}

// RestartNow implements hooks.Control: the process ends, and starts again once the volume is ready.
func (u *running) RestartNow(reason string) {
	u.note(func() {
		u.restarts++
		u.events = append(u.events, "restart: "+reason)
	})
	u.wg.Go(func() {
		u.hook.(hooks.Started).Stopped()
		u.env.FirstStart = false
		v, _ := u.env.Volume("d")
		if err := v.Healer.Heal(u.ctx, u.env); err != nil {
			if u.ctx.Err() == nil {
				u.t.Errorf("%s: %v", u.name, err)
			}
			return
		}
		u.start()
	})
}

// await waits until a condition of the task holds.
func (u *running) await(what string, holds func() bool) {
	u.t.Helper()
	limit := time.After(time.Minute)
	for {
		u.mu.Lock()
		changed := u.changed
		ok := holds()
		events := slices.Clone(u.events)
		u.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit:
			u.t.Fatalf("%s: not %s; the events are\n%s", u.name, what, strings.Join(events, "\n"))
		}
	}
}

func (u *running) awaitStarts(n int) {
	u.t.Helper()
	u.await("started again", func() bool { return u.starts >= n })
}

func (u *running) awaitEvent(part string) {
	u.t.Helper()
	u.await("told "+part, func() bool {
		return slices.ContainsFunc(u.events, func(e string) bool { return strings.Contains(e, part) })
	})
}

// count returns the restarts so far.
func (u *running) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.restarts
}

// stop ends a task that runs.
func (u *running) stop() { u.hook.(hooks.Started).Stopped() }

// up mounts a volume for an allocation, under the alias d and with a policy, and runs a task with it.
func (r *fixture) up(allocID, volumeID, policy string, edits ...func(*structs.VolumeRequest)) (
	hooks.Alloc, *running,
) {
	r.t.Helper()
	e := allocEnv(allocID, map[string]string{"d": volumeID})
	e.Group.Volumes["d"].OnDeadMount = policy
	for _, edit := range edits {
		edit(e.Group.Volumes["d"])
	}
	h := r.volumes(e)
	kit.Must(r.t, h.Up(r.ctx(), e))
	return h, r.run(e)
}

// read reads the file of a FUSE volume through the mount of a task.
func (u *running) read() string {
	u.t.Helper()
	v, _ := u.env.Volume("d")
	text, err := os.ReadFile(filepath.Join(v.HostPath, kit.FUSEFile))
	kit.Must(u.t, err)
	return string(text)
}

// rpcs are the calls that mount and unmount a volume.
func rpcs(p *csitest.Plugin, volumeID string) (list []string) {
	all := p.Calls("NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume")
	for _, c := range all {
		if c.Get("volume_id") == "ext-"+volumeID {
			list = append(list, strings.TrimSuffix(strings.TrimPrefix(c.RPC, "Node"), "Volume"))
		}
	}
	return list
}

func TestHeal_RestartsAllUsersOfADeadMountAndNobodyElse(t *testing.T) {
	r := newFixture(t)
	r.heals()
	p := r.plugin("ebs")
	dead := newSource(t, p, "data", "old")
	newSource(t, p, "logs", "other")
	h1, one := r.up("a1", "data", "")
	h2, two := r.up("a2", "data", storage.DeadMountRestart)
	h3, sibling := r.up("a3", "logs", "")
	p.Forget()

	dead.replace("new")
	one.awaitStarts(2)
	two.awaitStarts(2)
	one.awaitEvent("volume d: the mount does not answer: transport endpoint is not connected, since ")
	one.awaitEvent("volume d: it is mounted again")
	if got := one.read() + two.read(); got != "newnew" {
		t.Errorf("the tasks read %q", got)
	}
	want := []string{"Unpublish", "Unpublish", "Unstage", "Stage", "Publish", "Publish"}
	if got := rpcs(p, "data"); !slices.Equal(got, want) {
		t.Errorf("the calls are %v", got)
	}
	if one.count() != 1 || two.count() != 1 || sibling.count() != 0 || len(rpcs(p, "logs")) != 0 ||
		len(sibling.events) != 0 {
		t.Errorf("restarts %d, %d; the sibling: %d, %v, %v", one.count(), two.count(), sibling.count(),
			rpcs(p, "logs"), sibling.events)
	}
	for _, u := range []*running{one, two, sibling} {
		u.stop()
	}
	for _, h := range []hooks.Alloc{h1, h2, h3} {
		kit.Must(t, h.Down(r.ctx()))
	}
	r.clean()
}

// A plugin whose process has mounted the file system may not be able to unmount it.
func TestHeal_DetachesAMountWhoseServerIsGone(t *testing.T) {
	r := newFixture(t)
	r.heals()
	p := r.plugin("ebs")
	dead := newSource(t, p, "data", "old")
	h, one := r.up("a1", "data", "")
	target, stage := r.m.Volumes().MountPoints(one.key(), "a1")
	for rpc, path := range map[string]string{"NodeUnpublishVolume": target, "NodeUnstageVolume": stage} {
		p.Script(rpc, func(context.Context, any) (any, error) {
			if _, err := os.Stat(path); err != nil {
				return nil, csitest.Error("Internal", "%v", err)
			}
			p.Script(rpc, nil)
			return nil, csitest.Error("Internal", "the next call succeeds")
		})
	}

	dead.replace("new")
	one.awaitStarts(2)
	if got := one.read(); got != "new" {
		t.Errorf("the task reads %q", got)
	}
	one.stop()
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func (u *running) key() volumes.VolumeKey {
	return volumes.VolumeKey{Namespace: "default", ID: u.env.Group.Volumes["d"].Source}
}

func TestHeal_LeavesTheMountAsThePolicySays(t *testing.T) {
	r := newFixture(t)
	r.heals()
	dead := newSource(t, r.plugin("ebs"), "data", "old")
	h, one := r.up("a1", "data", storage.DeadMountIgnore)
	v, _ := one.env.Volume("d")
	if v.Healer != nil {
		t.Error("the next start would repair the volume")
	}
	dead.replace("new")
	one.awaitEvent("the mount does not answer")
	if n := one.count(); n != 0 {
		t.Errorf("%d restarts", n)
	}
	one.stop()
	kit.Must(t, h.Down(r.ctx()))
}

func TestHeal_TellsThatRepublishRestarts(t *testing.T) {
	r := newFixture(t)
	r.heals()
	dead := newSource(t, r.plugin("ebs"), "data", "old")
	h, one := r.up("a1", "data", storage.DeadMountRepublish)
	dead.replace("new")
	one.awaitStarts(2)
	one.awaitEvent(`on_dead_mount = "republish" restarts the task`)
	one.stop()
	kit.Must(t, h.Down(r.ctx()))
}

func singleNode(v *structs.VolumeRequest) { v.AccessMode = structs.CSISingleNodeWriter }

func TestHeals_NeedsTheWordOfTheJob(t *testing.T) {
	const (
		shared = structs.CSIMultiNodeMultipleWriter
		single = structs.CSISingleNodeWriter
	)
	for _, c := range []struct {
		policy, state string
		mode          structs.CSIAccessMode
		want          bool
	}{
		{"", storage.MountHealthy, single, false},
		{"", storage.MountDead, shared, true},
		{"", storage.MountGone, shared, true},
		{"", storage.MountReadOnly, single, false},
		{"", storage.MountHung, single, false},
		{"republish", storage.MountDead, shared, true},
		{"republish", storage.MountReadOnly, single, false},
		{"republish", storage.MountHung, single, false},
		{"restart", storage.MountReadOnly, shared, true},
		{"restart", storage.MountHung, single, true},
		{"restart", storage.MountHung, shared, false},
		{"ignore", storage.MountDead, single, false},
		{"ignore", storage.MountGone, single, false},
	} {
		r := &structs.VolumeRequest{OnDeadMount: c.policy, AccessMode: c.mode}
		if got := heals(r, c.state); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A task that has ended because of the dead mount does not wait for the second look at it.
func TestHeal_RepairsBeforeTheRestartOfATask(t *testing.T) {
	r := newFixture(t)
	r.heals()
	r.healer.Health = mounthealth.NewMonitor(mounthealth.MonitorConfig{ // it never looks by itself
		List:    r.m.Volumes().Mounts,
		Helpers: r.healer.Helpers,
	})
	dead := newSource(t, r.plugin("ebs"), "data", "old")
	h, one := r.up("a1", "data", "")
	// This look knows the mount.
	r.healer.Health.Look()
	dead.replace("new")
	one.RestartNow("it has failed")
	one.awaitStarts(2)
	if got := one.read(); got != "new" {
		t.Errorf("the task reads %q", got)
	}
	one.stop()
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// The agent ends before each step of a repair. The next one mounts the volume, and leaves nothing behind.
func TestHeal_GoesOnAfterAKillOfTheAgent(t *testing.T) {
	for _, rpc := range []string{
		"NodeUnpublishVolume", "NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume",
	} {
		t.Run(rpc, func(t *testing.T) {
			r := newFixture(t)
			r.heals()
			p := r.plugin("ebs")
			dead := newSource(t, p, "data", "old")
			_, one := r.up("a1", "data", "")
			p.Forget()
			p.Script(rpc, func(context.Context, any) (any, error) {
				return nil, csitest.Error("Unavailable", "not now")
			})
			dead.replace("new")
			kit.Must(t, p.Await(r.ctx(), rpc, 1))
			one.end()
			one.wg.Wait()
			r.crash()
			p.Script(rpc, nil)

			r.boot()
			r.heals()
			e := allocEnv("a1", map[string]string{"d": "data"})
			h := r.volumes(e)
			kit.Must(t, h.Up(r.ctx(), e))
			v, _ := e.Volume("d")
			text, err := os.ReadFile(filepath.Join(v.HostPath, kit.FUSEFile))
			if err != nil || string(text) != "new" {
				t.Errorf("the next agent finds %q, %v", text, err)
			}
			kit.Must(t, h.Down(r.ctx()))
			r.clean()
		})
	}
}

func TestIllness_TellsOfTheConditionOfThePlugin(t *testing.T) {
	r := newFixture(t)
	r.heals()
	r.plugin("ebs")
	h, one := r.up("a1", "data", "")
	k := storage.UsageKey{Namespace: "default", VolumeID: "data"}
	abnormal := &storage.VolumeCondition{Abnormal: true, Message: "a disk is missing"}
	one.awaitStarts(1)
	r.awaitKnown("a1")
	r.healer.Health.SetCondition(k, abnormal)
	one.awaitEvent("volume d: the plugin reports it as abnormal: a disk is missing")
	r.healer.Health.SetCondition(k, nil)
	one.awaitEvent("volume d: the plugin does not report it as abnormal any more")
	if n := one.count(); n != 0 {
		t.Errorf("%d restarts", n)
	}
	one.stop()
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestIllness_TellsOfAFileSystemThatTurnsReadOnly(t *testing.T) {
	r := newFixture(t)
	r.heals()
	p := r.plugin("ebs")
	dir := filepath.Join(p.Dir(), "ext-data")
	kit.Must(t, os.MkdirAll(dir, 0o755))
	kit.Must(t, unix.Mount("none", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	h, one := r.up("a1", "data", "")
	r.awaitKnown("a1")
	kit.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	one.awaitEvent("volume d: the mount cannot be written any more: its file system has turned read-only, since ")
	if n := one.count(); n != 0 {
		t.Errorf("%d restarts", n)
	}
	one.stop()
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// Somebody sets the wall clock of the node forward by an hour after a mount has begun to hang.
func TestIllness_AStepOfTheClockCutsNoMount(t *testing.T) {
	r := newFixture(t)
	r.heals(func(c *mounthealth.MonitorConfig) {
		c.Now = func() time.Time { return time.Now().Add(-time.Hour) } // the times from before the step
	})
	r.healer.CutAfter = 20 * time.Minute
	served := newSource(t, r.plugin("ebs"), "data", "old")
	e := allocEnv("a1", map[string]string{"d": "data"})
	e.Group.Volumes["d"].OnDeadMount = storage.DeadMountRestart
	singleNode(e.Group.Volumes["d"])
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	task := &structs.Task{Name: "t", VolumeMounts: []*structs.VolumeMount{{Volume: "d", Destination: "/d"}}}
	hook := NewIllness(r.config(), e, task).(*illness)
	u := &running{t: t, changed: make(chan struct{})}
	served.fs.Hang()
	health := r.healer.Health
	k := hook.volumes[0].Usage()
	changed := health.Changed()
	for health.State(k, "a1").State != storage.MountHung {
		<-changed
		changed = health.Changed()
	}

	if left := hook.look(r.ctx(), u, hook.volumes[0]); left < 19*time.Minute {
		t.Errorf("the next look is in %s; the events are %q", left, u.events)
	}
	r.healer.CutAfter = time.Nanosecond
	hook.look(r.ctx(), u, hook.volumes[0])
	if n := len(u.events); n != 2 || !strings.Contains(u.events[1], "the node ends its connection") {
		t.Errorf("after the time of a mount that hangs the events are %q", u.events)
	}
	served.replace("new")
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// awaitKnown waits until the monitor knows the mount of an allocation.
func (r *fixture) awaitKnown(allocID string) {
	k := storage.UsageKey{Namespace: "default", VolumeID: "data"}
	for r.healer.Health.State(k, allocID).Since == 0 {
		time.Sleep(time.Millisecond) // no event tells of a look without a change
	}
}
