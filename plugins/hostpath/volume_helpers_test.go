package hostpath

import (
	"bytes"
	"os"
	"testing"

	"berth/csi"
	"berth/internal/testskip"
	"berth/structs"
)

// kind is a sort of volume, as tests vary it.
type kind struct {
	name   string
	typ    string
	fsType string
	block  bool
	size   int64
}

var (
	aDirectory = kind{"directory", typeDirectory, "", false, 16 << 20}
	anImage    = kind{"image", typeImage, "ext4", false, 16 << 20}
	aBlock     = kind{"block", typeImage, "", true, 16 << 20}
	anXFS      = kind{"xfs", typeImage, "xfs", false, 300 << 20}
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
	if k.typ == typeImage {
		needLoops(t)
	}
	if k.fsType == "" {
		return
	}
	if _, err := findTool("mkfs." + k.fsType); err != nil {
		testskip.Lacking(t, err.Error())
	}
}

func (k kind) createRequest(name string) *structs.ClientCSICreateRequest {
	params := map[string]string{"type": k.typ}
	if k.fsType == "xfs" { // it is large
		params["provisioning"] = "thin"
	}
	return &structs.ClientCSICreateRequest{Name: name, Capacity: structs.CSICapacityRange{RequiredBytes: k.size},
		Parameters: params, MountOptions: k.options(),
		Capabilities: []*structs.CSIVolumeCapability{{AttachmentMode: k.attachment(),
			AccessMode: structs.CSIMultiNodeMultipleWriter}}}
}

func (k kind) use(id string) csi.Use {
	return csi.Use{VolumeID: id, AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: k.attachment(),
		MountOptions: k.options()}
}

// testVolume is one volume being worked on.
type testVolume struct {
	*fixture
	kind
	id            string
	stage, target string
}

// volume makes a volume of a kind; its paths carry its name.
func (w *fixture) volume(k kind, name string, change ...func(*structs.ClientCSICreateRequest)) *testVolume {
	w.t.Helper()
	req := k.createRequest(name)
	for _, c := range change {
		c(req)
	}
	v, err := w.CreateVolume(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.known(k, name, v.ExternalID)
}

func (w *fixture) known(k kind, name, id string) *testVolume {
	w.t.Helper()
	o := &testVolume{w, k, id, w.path("stage", name), w.path("targets", name)}
	if err := os.MkdirAll(o.stage, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (o *testVolume) doStage() error {
	return o.NodeStageVolume(o.t.Context(), &csi.StageRequest{Use: o.use(o.id), StagingPath: o.stage})
}

func (o *testVolume) doPublish(target string, readOnly bool) error {
	return o.NodePublishVolume(o.t.Context(), &csi.PublishRequest{Use: o.use(o.id), StagingPath: o.stage,
		TargetPath: target, ReadOnly: readOnly})
}

func (o *testVolume) doUnpublish(target string) error {
	return o.NodeUnpublishVolume(o.t.Context(), o.id, target)
}

func (o *testVolume) doUnstage() error { return o.NodeUnstageVolume(o.t.Context(), o.id, o.stage) }

func (o *testVolume) doDelete() error {
	return o.DeleteVolume(o.t.Context(), &structs.ClientCSIDeleteRequest{ExternalID: o.id})
}

func (o *testVolume) doExpand(size int64) (needNode bool, err error) {
	r, err := o.ControllerExpandVolume(o.t.Context(), &structs.ClientCSIExpandRequest{ExternalID: o.id,
		Capacity: structs.CSICapacityRange{RequiredBytes: size}})
	if err != nil {
		return false, err
	}
	return r.NodeExpansionRequired, nil
}

func (o *testVolume) doNodeExpand(size int64) error {
	_, err := o.NodeExpandVolume(o.t.Context(), &csi.NodeExpandRequest{
		Use: csi.Use{VolumeID: o.id, AccessMode: structs.CSIMultiNodeMultipleWriter,
			AttachmentMode: o.attachment()},
		VolumePath: o.target, StagingPath: o.stage,
		Capacity: structs.CSICapacityRange{RequiredBytes: size}})
	return err
}

// must fails the test for an error.
func (w *fixture) must(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// refused fails the test unless an error has the code.
func (w *fixture) refused(what, code string, err error) {
	w.t.Helper()
	if codeName(err) != code {
		w.t.Fatalf("%s: want %s, got %v", what, code, err)
	}
}

// up stages and publishes.
func (o *testVolume) up() {
	o.t.Helper()
	o.must("stage", o.doStage())
	o.must("publish", o.doPublish(o.target, false))
}

// down removes a volume completely.
func (o *testVolume) down() {
	o.t.Helper()
	o.must("unpublish", o.doUnpublish(o.target))
	o.must("unstage", o.doUnstage())
	o.must("delete", o.doDelete())
}

// write puts text on a volume, at a target, and to its disk.
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

// holds fails the test unless the volume has a text at a target.
func (o *testVolume) holds(target, text string) {
	o.t.Helper()
	path := target + "/file"
	if o.block {
		path = target
	}
	f, err := os.Open(path)
	if err != nil {
		o.t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, len(text))
	if _, err := f.Read(b); err != nil || !bytes.Equal(b, []byte(text)) {
		o.t.Fatalf("%s holds %q (%v), want %q", path, b, err, text)
	}
}
