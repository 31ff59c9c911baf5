package csihooks

import (
	"context"
	"testing"
	"time"

	"berth/client/csi/upkeep"
	"berth/client/csi/volumes"
	"berth/structs"
	"berth/structs/storage"
	"berth/test/kit"
)

// TestTrim_IsOfWritableMounts has a volume that is to be trimmed, for two allocations.
func TestTrim_IsOfWritableMounts(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	r.servers.volumes["data"].Trim = new(24 * time.Hour)
	list := func() []upkeep.TrimmedVolume {
		all, err := upkeep.TrimmedVolumes(r.m.Volumes())()
		kit.Must(t, err)
		return all
	}
	up := func(allocID string, edit func(*structs.VolumeRequest)) (down func()) {
		e := allocEnv(allocID, map[string]string{"d": "data", "l": "logs"})
		edit(e.Group.Volumes["d"])
		h := r.volumes(e)
		kit.Must(t, h.Up(r.ctx(), e))
		return func() { kit.Must(t, r.volumes(e).Down(r.ctx())) }
	}

	leaveReader := up("a1", func(v *structs.VolumeRequest) { v.ReadOnly = true })
	if all := list(); len(all) != 0 {
		t.Errorf("of a reader: %+v", all)
	}
	leaveWriter := up("a2", func(*structs.VolumeRequest) {})
	r.crash()
	r.boot() // and the records stay
	r.servers.change(func() { r.servers.volumes["data"].Trim = new(time.Hour) })
	leaveSecond := up("a3", func(*structs.VolumeRequest) {})
	all := list()
	key := storage.UsageKey{Namespace: "default", VolumeID: "data"}
	_, staged := r.m.Volumes().MountPoints(volumes.VolumeKey{Namespace: "default", ID: "data"}, "a2")
	if len(all) != 1 || all[0].Key != key || all[0].Path != staged || all[0].Every != time.Hour ||
		len(all[0].Users) != 2 || all[0].PluginID != "ebs" {
		t.Errorf("of two writers: %+v, staged at %s", all, staged)
	}
	leaveSecond()
	if all := list(); len(all) != 1 || all[0].Every != 24*time.Hour || len(all[0].Users) != 1 {
		t.Errorf("of the first writer: %+v", all)
	}
	leaveWriter()
	leaveReader()
	r.clean()
}

// TestTrim_YieldsToThePublishesOfItsVolume: a step of the volume ends the work beside it, and none begins
// while a step is in work.
func TestTrim_YieldsToThePublishesOfItsVolume(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	aside := upkeep.Aside(r.m.Volumes())
	key := storage.UsageKey{Namespace: "default", VolumeID: "data"}
	works := func(k storage.UsageKey) bool { return aside(r.ctx(), k, func(context.Context) {}) }
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)

	release := p.Hang("NodePublishVolume")
	done := make(chan error, 1)
	go func() { done <- h.Up(r.ctx(), e) }()
	kit.Must(t, p.Await(r.ctx(), "NodePublishVolume", 1))
	if works(key) {
		t.Error("work beside a publish")
	}
	if !works(storage.UsageKey{Namespace: "default", VolumeID: "logs"}) {
		t.Error("no work on another volume")
	}
	release()
	kit.Must(t, <-done)

	begun := make(chan struct{})
	ended := make(chan bool, 1)
	go func() {
		ended <- aside(r.ctx(), key, func(ctx context.Context) {
			close(begun)
			<-ctx.Done()
		})
	}()
	<-begun
	kit.Must(t, h.Down(r.ctx()))
	if <-ended {
		t.Error("work that an unpublish has ended counts as done")
	}
	r.clean()
}

// A block device has no file system of ours.
func TestTrim_IsOfNoBlockDevice(t *testing.T) {
	r := newFixture(t)
	h := r.volumes(allocEnv("a1", nil)).(*volumesHook)
	claim := &structs.CSIClaimGetResponse{
		Claim: &structs.CSIClaim{},
		Volume: &structs.CSIVolume{
			ID:            "data",
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "ebs", Trim: new(time.Hour)},
		},
	}
	for mode, want := range map[structs.CSIAttachmentMode]time.Duration{
		structs.CSIFileSystem:  time.Hour,
		structs.CSIBlockDevice: 0,
	} {
		w := &requiredVolume{request: &structs.VolumeRequest{AttachmentMode: mode}}
		if got := h.useOf(w, claim, time.Now()).Trim; got != want {
			t.Errorf("%s: got %s, want %s", mode, got, want)
		}
	}
}
