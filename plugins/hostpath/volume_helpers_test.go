package hostpath

import (
	"fmt"
	"os"
	"testing"

	"berth/csi"
	"berth/plugins/hostpath/disk"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// kind is a type of volume that a test uses.
type kind struct {
	name   string
	typ    string
	fsType string
	block  bool
	size   int64
}

var (
	aDirectory = kind{"directory", disk.Directory, "", false, 16 << 20}
	anImage    = kind{"image", disk.Image, "ext4", false, 16 << 20}
	aBlock     = kind{"block", disk.Image, "", true, 16 << 20}
	anXFS      = kind{"xfs", disk.Image, "xfs", false, 300 << 20}
	kinds      = []kind{aDirectory, anImage, aBlock}
)

func (k kind) attachment() structs.CSIAttachmentMode {
	if k.block {
		return structs.CSIBlockDevice
	}
	return structs.CSIFileSystem
}

func (k kind) options() *structs.CSIMountOptions {
	return &structs.CSIMountOptions{FSType: k.fsType}
}

func (k kind) needs(t *testing.T) {
	t.Helper()
	if k.typ == disk.Image {
		needLoops(t)
	}
	if k.fsType == "" {
		return
	}
	if _, err := disk.FindTool("mkfs." + k.fsType); err != nil {
		kit.SkipLacking(t, err.Error())
	}
}

func (k kind) createRequest(name string) *nodecalls.ClientCSICreateRequest {
	params := map[string]string{"type": k.typ}
	if k.fsType == "xfs" { // it is large
		params["provisioning"] = "thin"
	}
	capability := &structs.CSIVolumeCapability{
		AttachmentMode: k.attachment(),
		AccessMode:     structs.CSIMultiNodeMultipleWriter,
	}
	return &nodecalls.ClientCSICreateRequest{
		Name:         name,
		Capacity:     nodecalls.CSICapacityRange{RequiredBytes: k.size},
		Parameters:   params,
		MountOptions: k.options(),
		Capabilities: []*structs.CSIVolumeCapability{capability},
	}
}

func (k kind) use(id string) csi.Use {
	return csi.Use{
		VolumeID:       id,
		AccessMode:     structs.CSIMultiNodeMultipleWriter,
		AttachmentMode: k.attachment(),
		MountOptions:   k.options(),
	}
}

// testVolume is a volume and its paths.
type testVolume struct {
	*fixture
	kind
	id            string
	stage, target string
}

// Volume makes a volume of a kind. Its paths have its name.
func (w *fixture) volume(k kind, name string, change ...func(*nodecalls.ClientCSICreateRequest)) *testVolume {
	w.t.Helper()
	req := k.createRequest(name)
	for _, c := range change {
		c(req)
	}
	v, err := w.CreateVolume(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.testVolume(k, name, v.ExternalID)
}

// testVolume returns a volume that exists.
func (w *fixture) testVolume(k kind, name, id string) *testVolume {
	w.t.Helper()
	o := &testVolume{w, k, id, w.path("stage", name), w.path("targets", name)}
	if err := os.MkdirAll(o.stage, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (o *testVolume) doStage() error {
	return o.NodeStageVolume(o.t.Context(), &csi.StageRequest{
		Use:         o.use(o.id),
		StagingPath: o.stage,
	})
}

func (o *testVolume) doPublish(target string, readOnly bool) error {
	return o.NodePublishVolume(o.t.Context(), &csi.PublishRequest{
		Use:         o.use(o.id),
		StagingPath: o.stage,
		TargetPath:  target,
		ReadOnly:    readOnly,
	})
}

func (o *testVolume) doUnpublish(target string) error {
	return o.NodeUnpublishVolume(o.t.Context(), o.id, target)
}

func (o *testVolume) doUnstage() error { return o.NodeUnstageVolume(o.t.Context(), o.id, o.stage) }

func (o *testVolume) doDelete() error {
	req := &nodecalls.ClientCSIDeleteRequest{ExternalID: o.id}
	return o.DeleteVolume(o.t.Context(), req)
}

func (o *testVolume) doExpand(size int64) (needNode bool, err error) {
	r, err := o.ControllerExpandVolume(o.t.Context(), &nodecalls.ClientCSIExpandRequest{
		ExternalID: o.id,
		Capacity:   nodecalls.CSICapacityRange{RequiredBytes: size},
	})
	if err != nil {
		return false, err
	}
	return r.NodeExpansionRequired, nil
}

func (o *testVolume) doNodeExpand(size int64) error {
	_, err := o.NodeExpandVolume(o.t.Context(), &csi.NodeExpandRequest{
		Use: csi.Use{
			VolumeID:       o.id,
			AccessMode:     structs.CSIMultiNodeMultipleWriter,
			AttachmentMode: o.attachment(),
		},
		VolumePath:  o.target,
		StagingPath: o.stage,
		Capacity:    nodecalls.CSICapacityRange{RequiredBytes: size},
	})
	return err
}

// must fails the test for an error.
func (w *fixture) must(action string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", action, err)
	}
}

// mustFail fails the test unless an error has the code.
func (w *fixture) mustFail(call, code string, err error) {
	w.t.Helper()
	if codeName(err) != code {
		w.t.Fatalf("%s: got %v, want %s", call, err, code)
	}
}

// stageAndPublish stages a volume and publishes it at its target.
func (o *testVolume) stageAndPublish() {
	o.t.Helper()
	o.must("stage", o.doStage())
	o.must("publish", o.doPublish(o.target, false))
}

// remove unpublishes, unstages and deletes a volume.
func (o *testVolume) remove() {
	o.t.Helper()
	o.must("unpublish", o.doUnpublish(o.target))
	o.must("unstage", o.doUnstage())
	o.must("delete", whileBusy(o.doDelete))
}

// write writes text to a volume at a target, durably.
func (o *testVolume) write(target, text string) error {
	path, flags := target+"/file", os.O_CREATE|os.O_TRUNC
	if o.block {
		path, flags = target, 0
	}
	f, err := os.OpenFile(path, os.O_WRONLY|flags, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write([]byte(text)); err != nil {
		return err
	}
	return f.Sync()
}

// mustHold fails the test unless the volume has a text at a target.
func (o *testVolume) mustHold(target, text string) {
	o.t.Helper()
	o.must("read", o.checkText(target, text))
}

// checkText returns an error unless the volume has a text at a target.
func (o *testVolume) checkText(target, text string) error {
	path := target + "/file"
	if o.block {
		path = target
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, len(text))
	_, err = f.Read(b)
	if err != nil || string(b) != text {
		return fmt.Errorf("%s: got %q (%v), want %q", path, b, err, text)
	}
	return nil
}
