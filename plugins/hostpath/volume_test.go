package hostpath

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/csi"
	"berth/plugins/hostpath/disk"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// newRunningFixture prepares a driver and starts it in this process.
func newRunningFixture(t *testing.T, change ...func(*Config)) *fixture {
	t.Helper()
	w := newFixture(t)
	for _, c := range change {
		c(&w.cfg)
	}
	w.startHere()
	return w
}

func forEachKind(t *testing.T, list []kind, test func(t *testing.T, k kind)) {
	t.Helper()
	for _, k := range list {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.needs(t)
			test(t, k)
		})
	}
}

func TestVolume_DataOutlivesTheProcess(t *testing.T) {
	forEachKind(t, append(kinds, anXFS), func(t *testing.T, k kind) {
		w := newFixture(t)
		w.start()
		v := w.volume(k, "v")
		v.stageAndPublish()
		w.must("write", v.write(v.target, "precious"))
		w.terminate()
		v.mustHold(v.target, "precious") // mounts do not need the driver
		w.startHere()
		w.must("stage what is staged", v.doStage())
		w.must("publish what is published", v.doPublish(v.target, false))
		if n := len(mountsBelow(t, v.target)); n != 1 {
			t.Fatalf("got %d mounts on the target, want 1", n)
		}
		w.must("unpublish", v.doUnpublish(v.target))
		w.must("unstage", v.doUnstage())
		w.must("unpublish again", v.doUnpublish(v.target))
		w.must("unstage again", v.doUnstage())
		v.stageAndPublish()
		v.mustHold(v.target, "precious")
		v.remove()
		w.must("delete again", whileBusy(v.doDelete))
	})
}

func TestPublish_ReadOnly(t *testing.T) {
	forEachKind(t, kinds, func(t *testing.T, k kind) {
		w := newRunningFixture(t)
		v := w.volume(k, "v")
		v.stageAndPublish()
		w.must("write", v.write(v.target, "precious"))
		if k.block {
			w.must("unpublish the writer", v.doUnpublish(v.target)) // its device has its own cache
		}
		ro := w.path("targets", "ro")
		w.must("publish read-only", v.doPublish(ro, true))
		v.mustHold(ro, "precious")
		err := v.write(ro, "changed")
		rejected := errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
		if !rejected {
			t.Fatalf("wrote through a read-only publication: %v", err)
		}
		v.mustHold(ro, "precious")
		w.mustFail("publish there in another way", "AlreadyExists", v.doPublish(ro, false))
		w.must("unpublish", v.doUnpublish(ro))
		v.remove()
	})
}

func TestPublish_ReaderModesReadOnly(t *testing.T) {
	w := newRunningFixture(t)
	v := w.volume(aDirectory, "v")
	w.must("stage", v.doStage())
	u := v.use(v.id)
	u.AccessMode = structs.CSIMultiNodeReader
	w.must("publish", w.NodePublishVolume(t.Context(), &csi.PublishRequest{
		Use:         u,
		StagingPath: v.stage,
		TargetPath:  v.target,
	}))
	if err := v.write(v.target, "x"); !errors.Is(err, unix.EROFS) {
		t.Fatalf("a write in a reader mode: got %v, want EROFS", err)
	}
	v.remove()
}

func TestPublish_ASingleWriterOnce(t *testing.T) {
	w := newRunningFixture(t)
	v := w.volume(aDirectory, "v")
	w.must("stage", v.doStage())
	u := v.use(v.id)
	u.AccessMode = structs.CSISingleNodeWriter
	publish := func(target string) error {
		return w.NodePublishVolume(t.Context(), &csi.PublishRequest{
			Use:         u,
			StagingPath: v.stage,
			TargetPath:  target,
		})
	}
	w.must("publish", publish(v.target))
	w.mustFail("publish elsewhere", "FailedPrecondition", publish(w.path("targets", "other")))
	if _, err := os.Stat(w.path("targets", "other")); err == nil {
		t.Fatal("a rejected publication left its target")
	}
	v.remove()
}

func TestDelete_NotThroughALiveMount(t *testing.T) {
	forEachKind(t, kinds, func(t *testing.T, k kind) {
		w := newRunningFixture(t)
		v := w.volume(k, "v")
		v.stageAndPublish()
		w.must("write", v.write(v.target, "precious"))
		w.mustFail("delete what is published", "FailedPrecondition", v.doDelete())
		w.mustFail("unstage what is published", "FailedPrecondition", v.doUnstage())
		w.must("unpublish", v.doUnpublish(v.target))
		w.mustFail("delete what is staged", "FailedPrecondition", v.doDelete())
		w.must("publish", v.doPublish(v.target, false))
		v.mustHold(v.target, "precious")
		v.remove()
	})
}

// A mount that is not in the driver's records also prevents the removal of the data.
func TestDelete_KeepsDataThatOthersMount(t *testing.T) {
	w := newRunningFixture(t)
	v := w.volume(aDirectory, "v")
	foreign := w.path("foreign")
	w.must("mkdir", os.Mkdir(foreign, 0o700))
	w.must("bind", unix.Mount(w.path("data/volumes", v.id, "data"), foreign, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(foreign, unix.MNT_DETACH) })
	w.mustFail("delete", "FailedPrecondition", v.doDelete())
	w.must("unbind", unix.Unmount(foreign, 0))
	w.must("delete", whileBusy(v.doDelete))
}

func TestUnpublish_RejectsABusyVolume(t *testing.T) {
	w := newRunningFixture(t)
	v := w.volume(aDirectory, "v")
	v.stageAndPublish()
	f, err := os.Create(filepath.Join(v.target, "open"))
	w.must("open", err)
	w.mustFail("unpublish", "Unavailable", v.doUnpublish(v.target))
	_ = f.Close()
	v.remove()
}

func TestDriver_LeavesForeignMountsAlone(t *testing.T) {
	w := newRunningFixture(t)
	v := w.volume(aDirectory, "v")
	w.must("stage", v.doStage())
	other := w.path("other")
	w.must("mkdir", os.Mkdir(other, 0o700))
	w.must("mkdir", os.Mkdir(v.target, 0o700))
	w.must("bind", unix.Mount(other, v.target, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(v.target, unix.MNT_DETACH) })
	w.mustFail("publish over another mount", "Internal", v.doPublish(v.target, false))
	w.mustFail("unpublish another mount", "Internal", v.doUnpublish(v.target))
	w.must("unbind", unix.Unmount(v.target, 0))
	w.must("write", os.WriteFile(filepath.Join(v.target, "theirs"), []byte("x"), 0o600))
	w.mustFail("remove a directory with files", "FailedPrecondition", v.doUnpublish(v.target))
	w.must("remove", os.Remove(filepath.Join(v.target, "theirs")))
	v.remove()
}

func TestCheckPath_RejectsBadPaths(t *testing.T) {
	w := newRunningFixture(t)
	v := w.volume(aDirectory, "v")
	w.must("stage", v.doStage())
	link := w.path("targets", "link")
	w.must("link", os.Symlink("/etc", link))
	for name, target := range map[string]string{
		"in the data directory": w.path("data", "volumes", v.id, "x"),
		"a link":                link,
		"no parent":             w.path("nowhere", "x"),
		"the root":              "/",
	} {
		if err := v.doPublish(target, false); csi.Code(err) != "InvalidArgument" {
			t.Errorf("%s: %v", name, err)
		}
	}
	v.stage = w.path("nowhere")
	w.mustFail("publish from where it is not staged", "FailedPrecondition", v.doPublish(v.target, false))
	v.stage = w.path("stage", "v")
	v.remove()
}

func TestCapabilities_AreChecked(t *testing.T) {
	w := newRunningFixture(t)
	directory := w.volume(aDirectory, "d")
	block := w.volume(aBlock, "b")
	image := w.volume(anImage, "i")
	as := func(v *testVolume, k kind) error {
		return w.ValidateVolumeCapabilities(t.Context(), &nodecalls.ClientCSIValidateRequest{
			ExternalID:   v.id,
			Capabilities: k.createRequest("").Capabilities,
			MountOptions: k.options(),
		})
	}
	w.must("directory as directory", as(directory, aDirectory))
	w.must("block as block", as(block, aBlock))
	for name, err := range map[string]error{
		"directory as block": as(directory, aBlock),
		"block as image":     as(block, anImage),
		"directory as ext4":  as(directory, anImage),
	} {
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	directory.kind = aBlock
	w.mustFail("stage a directory as a device", "FailedPrecondition", directory.doStage())
	directory.kind = aDirectory
	image.kind = anXFS
	w.mustFail("stage ext4 as xfs", "FailedPrecondition", image.doStage())
	for name, c := range map[string]struct {
		parameters map[string]string
		options    structs.CSIMountOptions
	}{
		"unknown parameter":        {parameters: map[string]string{"sort": "x"}},
		"unknown type":             {parameters: map[string]string{"type": "tape"}},
		"unknown provisioning":     {parameters: map[string]string{"provisioning": "x"}},
		"unknown file system":      {options: structs.CSIMountOptions{FSType: "fat"}},
		"directory with ext4":      {options: structs.CSIMountOptions{FSType: "ext4"}},
		"flag of a file system":    {options: structs.CSIMountOptions{MountFlags: []string{"data=journal"}}},
		"flag that the driver has": {options: structs.CSIMountOptions{MountFlags: []string{"rbind"}}},
	} {
		req := aDirectory.createRequest("x")
		if c.parameters != nil {
			req.Parameters = c.parameters
		}
		req.MountOptions = &c.options
		_, err := w.CreateVolume(t.Context(), req)
		if csi.Code(err) != "InvalidArgument" {
			t.Errorf("%s: got %v, want InvalidArgument", name, err)
		}
	}
	for _, v := range []*testVolume{directory, block, image} {
		w.must("delete", whileBusy(v.doDelete))
	}
}

func TestMountFlags_TakeEffect(t *testing.T) {
	forEachKind(t, []kind{aDirectory, anImage}, func(t *testing.T, k kind) {
		w := newRunningFixture(t)
		v := w.volume(k, "v")
		u := v.use(v.id)
		u.MountOptions = &structs.CSIMountOptions{
			FSType:     k.fsType,
			MountFlags: []string{"nosuid,noexec", "nodev"},
		}
		w.must("stage", w.NodeStageVolume(t.Context(), &csi.StageRequest{
			Use:         u,
			StagingPath: v.stage,
		}))
		w.must("publish", w.NodePublishVolume(t.Context(), &csi.PublishRequest{
			Use:         u,
			StagingPath: v.stage,
			TargetPath:  v.target,
		}))
		var st unix.Statfs_t
		w.must("statfs", unix.Statfs(v.target, &st))
		want := int64(unix.ST_NOSUID | unix.ST_NOEXEC | unix.ST_NODEV)
		if st.Flags&want != want || st.Flags&unix.ST_RDONLY != 0 {
			t.Fatalf("got the mount flags %x, want %x and not read-only", st.Flags, want)
		}
		w.mustFail("stage with other flags", "AlreadyExists", v.doStage())
		v.remove()
	})
}

func TestSources_AreCopied(t *testing.T) {
	forEachKind(t, append(kinds, anXFS), func(t *testing.T, k kind) {
		w := newRunningFixture(t)
		v := w.volume(k, "v")
		v.stageAndPublish()
		w.must("write", v.write(v.target, "precious"))
		if k.block {
			w.must("unpublish", v.doUnpublish(v.target))
		}
		clone := w.volume(k, "clone", func(r *nodecalls.ClientCSICreateRequest) {
			r.CloneID = v.id
		})
		s, err := w.snapshot(v.id, "s")
		w.must("snapshot", err)
		w.must("publish", v.doPublish(v.target, false))
		w.must("write", v.write(v.target, "changed!"))
		restored := w.volume(k, "restored", func(r *nodecalls.ClientCSICreateRequest) {
			r.SnapshotID = s
		})
		for _, c := range []*testVolume{clone, restored} {
			c.stageAndPublish()
			c.mustHold(c.target, "precious")
		}
		v.mustHold(v.target, "changed!")
		w.must("delete the snapshot", w.deleteSnapshot(s))
		v.remove()
		clone.remove()
		restored.mustHold(restored.target, "precious")
		restored.remove()
	})
}

func TestSnapshot_RejectsAWrittenDevice(t *testing.T) {
	needLoops(t)
	w := newRunningFixture(t)
	if disk.CanReflink(w.dir) {
		kit.SkipLacking(t, "a file system without reflinks: with them every copy is of one instant")
	}
	v := w.volume(aBlock, "v")
	v.stageAndPublish()
	_, err := w.snapshot(v.id, "s")
	w.mustFail("snapshot", "FailedPrecondition", err)
	v.remove()
}

func TestClone_LargerGrowsItsFileSystem(t *testing.T) {
	anImage.needs(t)
	w := newRunningFixture(t)
	v := w.volume(anImage, "v")
	clone := w.volume(anImage, "clone", func(r *nodecalls.ClientCSICreateRequest) {
		r.CloneID = v.id
		r.Capacity.RequiredBytes = 48 << 20
	})
	clone.stageAndPublish()
	if got := fsSize(t, clone.target); got < 40<<20 {
		t.Fatalf("the file system has %d bytes, want at least %d", got, 40<<20)
	}
	req := anImage.createRequest("small")
	req.CloneID = v.id
	req.Capacity = nodecalls.CSICapacityRange{
		RequiredBytes: 1 << 20,
		LimitBytes:    8 << 20,
	}
	_, err := w.CreateVolume(t.Context(), req)
	w.mustFail("a clone smaller than its source", "OutOfRange", err)
	clone.remove()
	w.must("delete", whileBusy(v.doDelete))
}

func fsSize(t *testing.T, path string) int64 {
	t.Helper()
	total, _, err := disk.FreeSpace(path)
	if err != nil {
		t.Fatal(err)
	}
	return total
}

func isThin(r *nodecalls.ClientCSICreateRequest) {
	r.Parameters["provisioning"] = "thin"
}

func TestCreate_ThickImagesReserveBlocks(t *testing.T) {
	anImage.needs(t)
	w := newRunningFixture(t)
	thin := w.volume(anImage, "thin", isThin)
	thick := w.volume(anImage, "thick")
	used := func(v *testVolume) int64 {
		var st unix.Stat_t
		w.must("stat", unix.Stat(w.path("data/volumes", v.id, "image"), &st))
		return st.Blocks * 512
	}
	thinBytes := used(thin)
	thickBytes := used(thick)
	if thinBytes > anImage.size/2 || thickBytes < anImage.size {
		t.Fatalf("the thin image uses %d bytes, the thick one %d of %d", thinBytes, thickBytes, anImage.size)
	}
	w.must("delete", errors.Join(whileBusy(thin.doDelete), whileBusy(thick.doDelete)))
}

func TestCapacity_IsBooked(t *testing.T) {
	w := newRunningFixture(t, func(c *Config) { c.Capacity = 40 << 20 })
	a := w.volume(aDirectory, "a")
	free, err := w.capacity(nil)
	w.must("get capacity", err)
	const want = 24 << 20
	if free.GetAvailableCapacity() != want ||
		free.GetMaximumVolumeSize().GetValue() != want ||
		free.GetMinimumVolumeSize().GetValue() != minDirectory {
		t.Fatalf("got the capacity %+v, want %d", free, want)
	}
	req := aDirectory.createRequest("b")
	req.Capacity.RequiredBytes = 30 << 20
	_, err = w.CreateVolume(t.Context(), req)
	w.mustFail("create", "ResourceExhausted", err)
	_, err = a.doExpand(60 << 20)
	w.mustFail("expand", "ResourceExhausted", err)
	elsewhere, err := w.capacity(map[string]string{DefaultTopologyKey: "node-b"})
	if err != nil || elsewhere.GetAvailableCapacity() != 0 {
		t.Fatalf("got the capacity %+v, %v on another node, want none", elsewhere, err)
	}
	rows, _ := filepath.Glob(w.path("data/volumes/*"))
	if len(rows) != 1 {
		t.Fatalf("a rejected volume left %v", rows)
	}
	w.must("delete", whileBusy(a.doDelete))
}

func TestVolume_IsOnItsNodeOnly(t *testing.T) {
	w := newRunningFixture(t)
	info, err := w.NodeInfo(t.Context())
	w.must("get node info", err)
	if info.ID != "node-a" || info.AccessibleTopology.Segments[DefaultTopologyKey] != "node-a" {
		t.Fatalf("got the node %+v, want node-a", info)
	}
	create := func(nodes ...string) (*nodecalls.ClientCSICreateResponse, error) {
		req := aDirectory.createRequest("v")
		req.Topologies = &structs.CSITopologyRequest{}
		for _, n := range nodes {
			req.Topologies.Required = append(req.Topologies.Required,
				&structs.CSITopology{Segments: map[string]string{DefaultTopologyKey: n}})
		}
		return w.CreateVolume(t.Context(), req)
	}
	_, err = create("node-b", "node-c")
	w.mustFail("create for other nodes", "ResourceExhausted", err)
	v, err := create("node-b", "node-a")
	w.must("create for this node", err)
	if len(v.Topologies) != 1 || v.Topologies[0].Segments[DefaultTopologyKey] != "node-a" {
		t.Fatalf("got the volume %+v, want it on node-a", v)
	}
	other := strings.TrimSuffix(v.ExternalID, nodeMark("node-a")) + nodeMark("node-b")
	o := w.testVolume(aDirectory, "other", other)
	w.mustFail("delete another node's volume", "Unavailable", o.doDelete())
	w.mustFail("stage another node's volume", "Unavailable", o.doStage())
	_, err = w.capacity(nil)
	w.must("capacity", err)
	w.must("delete a volume that never existed", w.testVolume(aDirectory, "x", "no-such").doDelete())
	w.must("delete", w.testVolume(aDirectory, "v", v.ExternalID).doDelete())
}
