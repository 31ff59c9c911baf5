package volumes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// nodeCallOrder are the node's calls, in their order.
func nodeCallOrder(p *csitest.Plugin) string {
	var names []string
	for _, c := range p.Calls("NodeStageVolume", "NodePublishVolume", "NodeExpandVolume") {
		names = append(names,
			strings.TrimSuffix(strings.TrimPrefix(c.RPC, "Node"), "Volume"))
	}
	return strings.Join(names, " ")
}

func TestDuty_J8_J9_TheNodesStepComesAfterStageOrAfterPublish(t *testing.T) {
	for name, c := range map[string]struct {
		caps   []string
		block  bool
		want   string
		staged bool // volume_path is where it is staged
	}{
		"a file system that is staged": {nil, false, "Stage Expand Publish", true},
		"a device that is staged":      {nil, true, "Stage Publish Expand", false},
		"a plugin that does not stage": {[]string{"EXPAND_VOLUME"}, false, "Publish Expand", false},
		"a plugin that cannot expand":  {[]string{"STAGE_UNSTAGE_VOLUME"}, false, "Stage Publish", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			cfg := nodeOnly
			cfg.NodeCaps = c.caps
			p := r.plugin("ebs", "plug", cfg)
			u := use("data", "a1")
			if c.block {
				u.AttachmentMode, u.MountOptions = structs.CSIBlockDevice, nil
			}
			var grown []int64
			u.ExpandBytes = 4 << 20
			u.Expanded = func(_ context.Context, n int64, err error) {
				kit.Must(t, err)
				grown = append(grown, n)
			}
			r.up(u)
			if nodeCallOrder(p) != c.want || len(grown) != 1 {
				t.Fatalf("calls %q, want %q; reported %v", nodeCallOrder(p), c.want, grown)
			}
			for _, call := range p.Calls("NodeExpandVolume") {
				stage := r.inPlugin(mounts.StagePath(volumeDir(u.VolumeKey)))
				want := map[string]string{
					"volume_id":                          "ext-data",
					"capacity_range.required_bytes":      "4194304",
					"secrets.pw":                         "hunter22",
					"volume_capability.access_mode.mode": "MULTI_NODE_MULTI_WRITER",
					"staging_target_path":                stage,
					"volume_path":                        r.inPlugin(mounts.TargetPath(volumeDir(u.VolumeKey), "a1")),
				}
				if c.caps != nil {
					want["staging_target_path"] = ""
				}
				if c.staged {
					want["volume_path"] = stage
				}
				for field, v := range want {
					if got := call.Get(field); got != v {
						t.Errorf("%s is %q, want %q", field, got, v)
					}
				}
			}
			r.down(u)
			r.clean(p, "ext-data")
		})
	}
}

func (r *fixture) inPlugin(rel string) string {
	return filepath.Join(scope, rel)
}

func TestUp_UsesAVolumeThatDidNotGrow(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	p.FailAlways("NodeExpandVolume", csitest.Error("FailedPrecondition", "not online"))
	u := use("data", "a1")
	u.ExpandBytes = 4 << 20
	var reported error
	u.Expanded = func(_ context.Context, _ int64, err error) { reported = err }
	r.up(u)
	if !structs.IsKind(reported, structs.KindPrecondition) {
		t.Errorf("reported %v", reported)
	}
	r.down(u)
}

func TestDuty_J2_AVolumeInUseGrowsAtTheServersWord(t *testing.T) {
	for name, caps := range map[string][]string{"staged": nil, "not staged": {"EXPAND_VOLUME"}} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			cfg := nodeOnly
			cfg.NodeCaps = caps
			p := r.plugin("ebs", "plug", cfg)
			u := use("data", "a1")
			u.ExpandBytes = 4 << 20
			if _, err := r.v.Expand(r.ctx(), u); !structs.IsKind(err, structs.KindUnavailable) ||
				p.Count("NodeExpandVolume") != 0 {
				t.Errorf("it is not mounted yet: %v", err)
			}
			before := *u
			before.ExpandBytes = 0
			r.up(&before)
			if n, err := r.v.Expand(r.ctx(), u); err != nil || n != 4<<20 {
				t.Errorf("got %d, %v", n, err)
			}
			r.down(u)
			if _, err := r.v.Expand(r.ctx(), u); !structs.IsKind(err, structs.KindUnavailable) ||
				p.Count("NodeExpandVolume") != 1 {
				t.Errorf("it is gone: %v", err)
			}
			r.clean(p, "ext-data")
		})
	}
}

// An agent that is killed during the node's step repeats it: at the next Up while the volume is not marked
// published, and after that at the request of the servers.
func TestCrash_TheNodesStepIsRepeated(t *testing.T) {
	for name, caps := range map[string][]string{"staged": nil, "not staged": {"EXPAND_VOLUME"}} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			cfg := nodeOnly
			cfg.NodeCaps = caps
			p := r.plugin("ebs", "plug", cfg)
			u := use("data", "a1")
			u.ExpandBytes = 4 << 20
			release := p.Hang("NodeExpandVolume")
			defer release()
			ctx, kill := context.WithCancel(r.ctx())
			ended := make(chan error, 1)
			go func() {
				_, err := r.v.Up(ctx, u, nil)
				ended <- err
			}()
			kit.Must(t, p.Await(r.ctx(), "NodeExpandVolume", 1))
			kill()
			<-ended
			r.crash()
			release()
			r.boot()
			r.register("ebs", "plug", p, cfg)
			if _, there, err := r.v.Published(u.VolumeKey, "a1"); err != nil || there {
				t.Fatalf("the volume counts as published before its expansion: %v", err)
			}
			r.up(u)
			if n := p.Count("NodeExpandVolume"); n != 2 {
				t.Errorf("%d calls", n)
			}
			if err := os.WriteFile(filepath.Join(r.v.hostPath(mounts.TargetPath(volumeDir(u.VolumeKey), "a1")), "f"),
				nil, 0o600); err != nil {
				t.Error(err)
			}
			r.down(u)
			r.clean(p, "ext-data")
		})
	}
}

func TestExpand_WaitsForOtherWorkOnTheVolume(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	r.up(u)
	release := p.Hang("NodeUnpublishVolume")
	ended := make(chan error, 1)
	go func() { ended <- r.v.Down(r.ctx(), u.VolumeKey, "a1") }()
	kit.Must(t, p.Await(r.ctx(), "NodeUnpublishVolume", 1))
	u.ExpandBytes = 4 << 20
	ctx, cancel := context.WithCancel(r.ctx())
	cancel()
	_, err := r.v.Expand(ctx, u)
	if err == nil || p.Count("NodeExpandVolume") != 0 {
		t.Errorf("two calls in flight for one volume: %v", err)
	}
	release()
	kit.Must(t, <-ended)
}

// The record keeps whether the file system was writable when it was published. One that was mounted read-only
// on purpose has not turned read-only.
func TestUp_RemembersWhetherTheFileSystemCouldBeWritten(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	dir := filepath.Join(p.Dir(), "ext-data")
	kit.Must(t, os.Mkdir(dir, 0o700))
	kit.Must(t, unix.Mount("none", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	for _, c := range []struct {
		flags uintptr
		want  bool
	}{{0, true}, {unix.MS_RDONLY, false}} {
		kit.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|c.flags, ""))
		m, err := r.v.Up(r.ctx(), use("data", "a1"), nil)
		again, there, err2 := r.v.Published(use("data", "a1").VolumeKey, "a1")
		if err != nil || err2 != nil || !there ||
			m.Writable != c.want || again.Writable != c.want {
			t.Errorf("writable %v, %v; want %v (%v, %v)", m.Writable, again.Writable, c.want, err, err2)
		}
		r.down(use("data", "a1"))
	}
}
