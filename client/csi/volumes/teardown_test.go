package volumes

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

func TestDuty_K28_APluginThatLostItsStagingGetsItAgain(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	p.Fail("NodePublishVolume", csitest.Error("FailedPrecondition", "not staged"))
	u := use("data", "a1")
	r.up(u)
	if got, want := shortCalls(p), "Stage Publish Stage Publish"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

func TestDuty_K7_K14_AfterAFailedUnstageTheVolumeIsStagedAgainBeforeThePublish(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	r.up(a)
	p.Fail("NodeUnstageVolume", csitest.Error("Internal", "half"))
	if err := r.v.Down(r.ctx(), a.VolumeKey, "a1"); err == nil ||
		!strings.Contains(err.Error(), "unstaging: plugin") {
		t.Fatalf("got %v", err)
	}
	p.Forget()
	r.up(b)
	if got, want := shortCalls(p), "Stage Publish"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.down(a)
	if p.Count("NodeUnstageVolume") != 0 {
		t.Error("unstaged under the other allocation")
	}
	r.down(b)
	r.clean(p, "ext-data")
}

func TestDuty_K15_K34_NotFoundIsDone(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	r.up(u)
	unmountBelow(r.root)
	p.Fail("NodeUnpublishVolume", csitest.Error("NotFound", "?"))
	p.Fail("NodeUnstageVolume", csitest.Error("NotFound", "?"))
	r.down(u)
	r.clean(nil, "")
}

func TestDuty_K30_APluginsWordIsHeldAgainstTheMountTable(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	// A plugin that is not idempotent has mounted more than once: it is called until no mount is left.
	kit.Must(t, unix.Mount(target, target, "", unix.MS_BIND, ""))
	p.Script("NodeUnpublishVolume", func(_ context.Context, _ any) (any, error) {
		_ = unix.Unmount(target, 0)
		return nil, csitest.Error("NotFound", "one less")
	})
	kit.Must(t, r.v.Down(r.ctx(), u.VolumeKey, u.AllocID))
	if n := p.Count("NodeUnpublishVolume"); n < 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestDuty_K30_AWrongAnswerDoesNotCountAsUnpublished(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	p.Script("NodeUnpublishVolume",
		func(context.Context, any) (any, error) {
			return nil, csitest.Error("NotFound", "")
		})
	err := r.v.Down(r.ctx(), u.VolumeKey, u.AllocID)
	if err == nil || !strings.Contains(err.Error(), "still mounted") ||
		p.Count("NodeUnstageVolume") != 0 {
		t.Fatalf("got %v, calls %s", err, shortCalls(p))
	}
	if err := r.v.Forget(u.VolumeKey, u.AllocID); !structs.IsKind(err, structs.KindPrecondition) ||
		!r.mounted(target) {
		t.Errorf("Forget: got %v, want precondition", err)
	}
	p.Script("NodeUnpublishVolume", nil)
	r.down(u)
	r.clean(p, "ext-data")
}

func TestDuty_K32_TheContentOfADirectoryIsNeverRemoved(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	p.Script("NodeUnpublishVolume", func(context.Context, any) (any, error) {
		_ = unix.Unmount(target, 0)
		// the plugin leaves the directory, with data
		_ = os.WriteFile(filepath.Join(target, "precious"), nil, 0o600)
		return nil, csitest.Error("NotFound", "")
	})
	r.down(u)
	if _, err := os.Stat(filepath.Join(target, "precious")); err != nil {
		t.Error(err)
	}
}

func TestUp_RejectsAMountThatTheHostDoesNotSee(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", csitest.Config{Node: true}) // mounts nothing
	u := use("data", "a1")
	_, err := r.v.Up(r.ctx(), u, nil)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "the host sees nothing mounted") {
		t.Errorf("got %v", err)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

func TestUp_PublishesABlockDeviceAsAFile(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs",
		"plug", csitest.Config{Node: true, Mounts: true,
			NodeCaps: []string{}, HostPath: func(path string) string {
				host := r.hostPath(path)
				if _, err := os.Lstat(host); err == nil {
					return host
				}
				err := unix.Mknod(host, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250)))
				if err != nil {
					t.Error(err)
				}
				return filepath.Join(r.dir, "outside", path) // keeps the fake from mounting over it
			}})
	u := use("disk", "a1")
	u.AttachmentMode, u.MountOptions = structs.CSIBlockDevice, nil
	m, err := r.v.Up(r.ctx(), u, nil)
	kit.Must(t, err)
	fi, err := os.Lstat(m.HostPath)
	if !m.Device || err != nil || fi.Mode()&os.ModeDevice == 0 {
		t.Errorf("%+v: %v, %v", m, fi, err)
	}
	r.down(u) // also removes the device file, which this plugin leaves
	r.clean(nil, "")
}

func TestDuty_C1_ACancelledWaitForAVolumeIsAnErrorAndDoesNothing(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	r.up(a)
	release := p.Hang("NodePublishVolume")
	defer release()
	done := make(chan error, 1)
	go func() {
		_, err := r.v.Up(r.ctx(), b, nil)
		done <- err
	}()
	kit.Must(t, p.Await(r.ctx(), "NodePublishVolume", 2))
	ctx, cancel := context.WithCancel(context.Background())
	waiting := make(chan error, 1)
	go func() {
		waiting <- r.detach(ctx, a.VolumeKey, "a1", func(string) bool {
			return false
		})
	}()
	cancel()
	if err := <-waiting; err == nil || structs.KindOf(err).Final() {
		t.Errorf("an interrupted wait has the final result %v", err)
	}
	if p.Count("NodeUnpublishVolume") != 0 {
		t.Error("two calls in flight for one volume")
	}
	release()
	kit.Must(t, <-done)
	r.down(a)
	r.down(b)
	r.clean(p, "ext-data")
}

func TestDetach_ReleasesEndedAllocations(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a := use("data", "a1")
	b := use("data", "b2")
	c := use("data", "c3")
	r.up(a)
	r.up(b)
	r.up(c)
	running := func(id string) bool { return id == "b2" }
	err := r.detach(r.ctx(), a.VolumeKey, "b2", running)
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("Detach of a running allocation's volume: got %v, want conflict", err)
	}
	for range 2 {
		kit.Must(t, r.detach(r.ctx(), a.VolumeKey, "a1", running))
	}
	if err := r.detach(r.ctx(), a.VolumeKey, "", running); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("Detach while an allocation uses the volume: got %v, want conflict", err)
	}
	got, _ := r.v.Users(a.VolumeKey)
	if len(got) != 1 || got[0] != "b2" || p.Count("NodeUnstageVolume") != 0 {
		t.Errorf("users %q", got)
	}
	kit.Must(t, r.detach(r.ctx(), a.VolumeKey, "", func(string) bool {
		return false
	}))
	kit.Must(t, r.detach(r.ctx(), VolumeKey{"default", "never"}, "", running))
	r.clean(p, "ext-data")
}

func TestDetach_WithoutRecordsReportsMounts(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	r.up(u)
	kit.Must(t, r.v.store.deletePublish(u.VolumeKey, "a1"))
	kit.Must(t, r.v.store.deleteStage(u.VolumeKey))
	err := r.detach(r.ctx(), u.VolumeKey, "a1", func(string) bool {
		return false
	})
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "the node has no record of its allocation") {
		t.Errorf("got %v", err)
	}
}

func TestReconcile_ReleasesUnknownAllocations(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	known := use("data", "a1")
	orphan := use("data", "gone")
	claim := use("other", "gone")
	r.up(known)
	r.up(orphan)
	r.up(claim)
	kit.Must(t, r.v.Claim(VolumeKey{"default", "claimed"}, "gone"))
	r.crash()
	r.boot()
	rep, err := r.v.Reconcile(r.ctx(), func(id string) bool { return id == "a1" })
	kit.Must(t, err)
	if rep.Recognised != 1 || len(rep.Orphans) != 3 {
		t.Errorf("report %+v", rep)
	}
	if got := strings.Count(shortCalls(p), "Unstage"); got != 1 {
		t.Errorf("%d volumes unstaged, want the orphan's alone: %s", got, shortCalls(p))
	}
	r.consistent()
	r.down(known)
	r.clean(p, "ext-data")
}

func TestUp_RejectsAPathThatIsTooLong(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	i := *r.registry.Serving()[0]
	i.PluginMountPath = "/" + strings.Repeat("x", 110)
	kit.Must(t, r.registry.Register(&i))
	u := use("data", "a1")
	waitFor(t, r, func() bool {
		c, err := r.m.Healthy(structs.CSIKindNode, "ebs")
		return err == nil && c.Registration.PluginMountPath == i.PluginMountPath
	})
	if _, err := r.v.Up(r.ctx(), u, nil); !structs.IsKind(err, structs.KindInvalid) || shortCalls(p) != "" {
		t.Errorf("got %v, calls %q", err, shortCalls(p))
	}
}

func TestUp_IgnoresAWaitingAllocation(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "b2")
	a.AccessMode, b.AccessMode = structs.CSISingleNodeWriter, structs.CSISingleNodeWriter
	kit.Must(t, r.v.Claim(b.VolumeKey, "b2"))
	r.up(a)
	kit.Must(t, r.v.Down(r.ctx(), a.VolumeKey, "a1"))
	// else it would be detached while it is staged
	if _, staged, _, _ := p.Volume("ext-data"); len(staged) != 0 {
		t.Error("the volume stays staged for an allocation that only claims it")
	}
	kit.Must(t, r.v.Forget(a.VolumeKey, "a1"))
	r.up(b)
	r.down(b)
	r.clean(p, "ext-data")
}

func TestDuty_B2_D3_NothingSecretIsOnDisk(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	u.Secrets = structs.Secrets{"k": "TOPSECRET"}
	u.PublishContext = structs.Secrets{"k": "TOPSECRET"}
	u.MountOptions.MountFlags = []string{"password=TOPSECRET"}
	r.up(u)
	r.crash()
	b, err := os.ReadFile(filepath.Join(r.dir, "client.db"))
	if err != nil || strings.Contains(string(b), "TOPSECRET") ||
		!strings.Contains(string(b), "ext-data") {
		t.Errorf("client.db has %d bytes with a secret or without the volume: %v", len(b), err)
	}
	r.boot()
	r.down(u)
	r.clean(nil, "")
}

// A file system whose server never answers covers a path that berth reads: no call waits for it.
func TestVolumes_ADeadFileSystemBlocksNothing(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	stage := filepath.Join(filepath.Dir(filepath.Dir(target)), "stage")
	dead := []string{target, stage}
	for _, path := range dead {
		deadFUSE(t, path)
	}
	for _, rpc := range []string{"NodeUnpublishVolume", "NodeUnstageVolume"} {
		path := dead[0]
		if rpc == "NodeUnstageVolume" {
			path = dead[1]
		}
		p.Script(rpc, func(context.Context, any) (any, error) {
			_ = unix.Unmount(path, unix.MNT_DETACH)
			return nil, csitest.Error("NotFound", "")
		})
	}
	if _, ok, err := r.v.Published(u.VolumeKey, "a1"); !ok || err != nil {
		t.Errorf("published %v, %v", ok, err)
	}
	r.up(u)
	r.crash()
	r.boot()
	_, err := r.v.Reconcile(r.ctx(), func(string) bool { return true })
	kit.Must(t, err)
	r.consistent()
	s, err := r.v.store.getStage(u.VolumeKey) // as if it had been interrupted while it was staged
	kit.Must(t, err)
	s.State = staging
	kit.Must(t, r.v.store.putStage(s))
	r.up(u)
	r.down(u)
}

// deadFUSE mounts a file system that answers nothing.
func deadFUSE(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENODEV) ||
		errors.Is(err, unix.ENXIO) {
		kit.SkipLacking(t, "this machine gives no FUSE: "+err.Error())
	}
	kit.Must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	kit.Must(t,
		unix.Mount("dead", path, "fuse.dead", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"))
}
