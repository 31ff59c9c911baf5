package csitest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/sys/mountinfo"
	"go.uber.org/goleak"

	"berth/csi"
	"berth/csi/csitest"
	"berth/internal/testskip"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// With Mounts a file written at the target is a file of the volume, a read-only publication rejects
// writes, and Close leaves no mount behind.
func TestPlugin_MountsForReal(t *testing.T) {
	if os.Geteuid() != 0 {
		testskip.Lacking(t, "root: it binds mounts")
	}
	p, err := csitest.New(csitest.Config{Node: true, Mounts: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	c, err := csi.Dial(p.Endpoint(), csi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := t.TempDir()
	u := csi.Use{VolumeID: "v", AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem}
	staging := filepath.Join(dir, "s")
	rw := filepath.Join(dir, "rw")
	ro := filepath.Join(dir, "ro")
	for range 2 { // idempotent
		err := c.NodeStageVolume(t.Context(),
			&csi.StageRequest{Use: u, StagingPath: staging})
		if err != nil {
			t.Fatal(err)
		}
		for target, readOnly := range map[string]bool{rw: false, ro: true} {
			if err := c.NodePublishVolume(t.Context(), &csi.PublishRequest{Use: u, StagingPath: staging,
				TargetPath: target, ReadOnly: readOnly}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(rw, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(ro, "f"), nil, 0o600); err == nil {
		t.Fatal("wrote to a read-only publication")
	}
	if _, err := os.Stat(filepath.Join(p.Dir(), "v", "f")); err != nil {
		t.Fatal(err)
	}
	if err := c.NodeUnpublishVolume(t.Context(), "v", ro); err != nil {
		t.Fatal(err)
	}
	_, staged, published, _ := p.Volume("v")
	if len(staged) != 1 || len(published) != 1 {
		t.Fatal(staged, published)
	}
	p.Close()
	left, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil || len(left) > 0 {
		t.Fatalf("left: %v %v", left, err)
	}
}
