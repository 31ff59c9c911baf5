package csitest_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moby/sys/mountinfo"
	"go.uber.org/goleak"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/csitrace"
	"berth/test/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// With Mounts a file written at the target is a file of the volume, a read-only publication rejects
// writes, and Close leaves no mount behind.
func TestPlugin_MountsForReal(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it binds mounts")
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

// Two instances of a plugin have one set of volumes, and the interceptor of each gets its own calls.
func TestPlugin_SharesVolumesWithAnotherInstance(t *testing.T) {
	var trace csitrace.Recorder
	start := func(node string, other *csitest.Plugin) (*csitest.Plugin, *csi.Client) {
		p := csitest.Start(t, csitest.Config{
			Controller: true,
			NodeID:     node,
			Volumes:    other,
			Intercept:  trace.Intercept("plugin-"+node, node, nil),
		})
		c, err := csi.Dial(p.Endpoint(), csi.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return p, c
	}
	one, first := start("n1", nil)
	_, second := start("n2", one)
	one.Fail("CreateVolume", csitest.Error("Aborted", "busy"), nil)
	use := &structs.CSIVolumeCapability{
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}
	req := &nodecalls.ClientCSICreateRequest{Name: "data", Capabilities: []*structs.CSIVolumeCapability{use}}
	for range 2 {
		_, err := first.CreateVolume(t.Context(), req)
		if err == nil {
			continue
		}
		if structs.CodeOf(err) != "Aborted" {
			t.Fatal(err)
		}
	}
	remove := &nodecalls.ClientCSIDeleteRequest{ExternalID: "vol-1"}
	if err := second.DeleteVolume(t.Context(), remove); err != nil {
		t.Fatal(err)
	}
	if left := one.Volumes(); len(left) > 0 {
		t.Errorf("volumes are left: %q", left)
	}
	var codes []string
	for _, c := range trace.Trace() {
		codes = append(codes, c.Instance+" "+c.RPC+" "+c.Code)
	}
	want := []string{"plugin-n1 ControllerGetCapabilities OK", "plugin-n1 CreateVolume Aborted",
		"plugin-n1 CreateVolume OK", "plugin-n2 DeleteVolume OK"}
	if !slices.Equal(codes, want) {
		t.Errorf("the calls are %q, want %q", codes, want)
	}
}

func TestPlugin_LosesThePathsOfOneMachine(t *testing.T) {
	p := csitest.Start(t, csitest.Config{Node: true})
	c, err := csi.Dial(p.Endpoint(), csi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := t.TempDir()
	u := csi.Use{VolumeID: "v", AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem}
	for _, machine := range []string{"m1", "m10"} {
		staging := filepath.Join(dir, machine, "s")
		err := c.NodeStageVolume(t.Context(), &csi.StageRequest{Use: u, StagingPath: staging})
		if err != nil {
			t.Fatal(err)
		}
		err = c.NodePublishVolume(t.Context(), &csi.PublishRequest{Use: u, StagingPath: staging,
			TargetPath: filepath.Join(dir, machine, "t")})
		if err != nil {
			t.Fatal(err)
		}
	}
	p.LosePower(filepath.Join(dir, "m1"))
	_, staged, published, _ := p.Volume("v")
	if len(staged) != 1 || len(published) != 1 || published[0] != filepath.Join(dir, "m10", "t") {
		t.Errorf("staged at %q and published at %q", staged, published)
	}
}
