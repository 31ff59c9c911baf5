package hostpath

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/csi"
	"berth/structs"
)

// running is a world with a driver in it.
func running(t *testing.T, change ...func(*Config)) *fixture {
	t.Helper()
	w := newFixture(t)
	for _, c := range change {
		c(&w.cfg)
	}
	w.start()
	return w
}

func each(t *testing.T, list []kind, test func(t *testing.T, k kind)) {
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
	each(t, append(kinds, anXFS), func(t *testing.T, k kind) {
		w := running(t)
		v := w.volume(k, "v")
		v.up()
		w.must("write", v.write(v.target, "precious"))
		w.term()
		v.holds(v.target, "precious") // mounts do not need the driver
		w.start()
		w.must("stage what is staged", v.doStage())
		w.must("publish what is published", v.doPublish(v.target, false))
		if n := len(mountsBelow(t, v.target)); n != 1 {
			t.Fatalf("%d mounts are stacked on the target", n)
		}
		w.must("unpublish", v.doUnpublish(v.target))
		w.must("unstage", v.doUnstage())
		w.must("unpublish again", v.doUnpublish(v.target))
		w.must("unstage again", v.doUnstage())
		v.up()
		v.holds(v.target, "precious")
		v.down()
		w.must("delete again", v.doDelete())
	})
}

func TestPublish_ReadOnly(t *testing.T) {
	each(t, kinds, func(t *testing.T, k kind) {
		w := running(t)
		v := w.volume(k, "v")
		v.up()
		w.must("write", v.write(v.target, "precious"))
		if k.block {
			w.must("unpublish the writer", v.doUnpublish(v.target)) // its device has its own cache
		}
		ro := w.path("targets", "ro")
		w.must("publish read-only", v.doPublish(ro, true))
		v.holds(ro, "precious")
		if err := v.write(ro, "spoilt"); !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EPERM) &&
			!errors.Is(err, unix.EACCES) {
			t.Fatalf("wrote through a read-only publication: %v", err)
		}
		v.holds(ro, "precious")
		w.refused("publish there in another way", "AlreadyExists", v.doPublish(ro, false))
		w.must("unpublish", v.doUnpublish(ro))
		v.down()
	})
}

func TestPublish_ReaderModesReadOnly(t *testing.T) {
	w := running(t)
	v := w.volume(aDirectory, "v")
	w.must("stage", v.doStage())
	u := v.use(v.id)
	u.AccessMode = structs.CSIMultiNodeReader
	w.must("publish", w.NodePublishVolume(t.Context(), &csi.PublishRequest{Use: u, StagingPath: v.stage,
		TargetPath: v.target}))
	if err := v.write(v.target, "x"); !errors.Is(err, unix.EROFS) {
		t.Fatal(err)
	}
	v.down()
}

func TestPublish_ASingleWriterOnce(t *testing.T) {
	w := running(t)
	v := w.volume(aDirectory, "v")
	w.must("stage", v.doStage())
	u := v.use(v.id)
	u.AccessMode = structs.CSISingleNodeWriter
	publish := func(target string) error {
		return w.NodePublishVolume(t.Context(), &csi.PublishRequest{Use: u, StagingPath: v.stage,
			TargetPath: target})
	}
	w.must("publish", publish(v.target))
	w.refused("publish elsewhere", "FailedPrecondition", publish(w.path("targets", "other")))
	if _, err := os.Stat(w.path("targets", "other")); err == nil {
		t.Fatal("a refused publication left its target")
	}
	v.down()
}

func TestDelete_NotThroughALiveMount(t *testing.T) {
	each(t, kinds, func(t *testing.T, k kind) {
		w := running(t)
		v := w.volume(k, "v")
		v.up()
		w.must("write", v.write(v.target, "precious"))
		w.refused("delete what is published", "FailedPrecondition", v.doDelete())
		w.refused("unstage what is published", "FailedPrecondition", v.doUnstage())
		w.must("unpublish", v.doUnpublish(v.target))
		w.refused("delete what is staged", "FailedPrecondition", v.doDelete())
		w.must("publish", v.doPublish(v.target, false))
		v.holds(v.target, "precious")
		v.down()
	})
}

// A mount that is not in the driver's records also prevents the removal of the data.
func TestDelete_KeepsDataThatOthersMount(t *testing.T) {
	w := running(t)
	v := w.volume(aDirectory, "v")
	foreign := w.path("foreign")
	w.must("mkdir", os.Mkdir(foreign, 0o700))
	w.must("bind", unix.Mount(w.path("data/volumes", v.id, "data"), foreign, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(foreign, unix.MNT_DETACH) })
	w.refused("delete", "FailedPrecondition", v.doDelete())
	w.must("unbind", unix.Unmount(foreign, 0))
	w.must("delete", v.doDelete())
}

func TestUnpublish_RefusesABusyVolume(t *testing.T) {
	w := running(t)
	v := w.volume(aDirectory, "v")
	v.up()
	f, err := os.Create(filepath.Join(v.target, "open"))
	w.must("open", err)
	w.refused("unpublish", "Unavailable", v.doUnpublish(v.target))
	_ = f.Close()
	v.down()
}

func TestDriver_LeavesForeignMountsAlone(t *testing.T) {
	w := running(t)
	v := w.volume(aDirectory, "v")
	w.must("stage", v.doStage())
	other := w.path("other")
	w.must("mkdir", os.Mkdir(other, 0o700))
	w.must("mkdir", os.Mkdir(v.target, 0o700))
	w.must("bind", unix.Mount(other, v.target, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(v.target, unix.MNT_DETACH) })
	w.refused("publish over another mount", "Internal", v.doPublish(v.target, false))
	w.refused("unpublish another mount", "Internal", v.doUnpublish(v.target))
	w.must("unbind", unix.Unmount(v.target, 0))
	w.must("write", os.WriteFile(filepath.Join(v.target, "theirs"), []byte("x"), 0o600))
	w.refused("remove a directory with files", "FailedPrecondition", v.doUnpublish(v.target))
	w.must("remove", os.Remove(filepath.Join(v.target, "theirs")))
	v.down()
}

func TestCheckPath_RefusesBadPaths(t *testing.T) {
	w := running(t)
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
	w.refused("publish from where it is not staged", "FailedPrecondition", v.doPublish(v.target, false))
	v.stage = w.path("stage", "v")
	v.down()
}

func TestCapabilities_AreChecked(t *testing.T) {
	w := running(t)
	directory, block := w.volume(aDirectory, "d"), w.volume(aBlock, "b")
	as := func(v *testVolume, k kind) error {
		return w.ValidateVolumeCapabilities(t.Context(), &structs.ClientCSIValidateRequest{ExternalID: v.id,
			Capabilities: k.createRequest("").Capabilities, MountOptions: k.options()})
	}
	w.must("directory as directory", as(directory, aDirectory))
	w.must("block as block", as(block, aBlock))
	for name, err := range map[string]error{
		"directory as block": as(directory, aBlock), "block as image": as(block, anImage),
		"directory as ext4": as(directory, anImage)} {
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	directory.kind = aBlock
	w.refused("stage a directory as a device", "FailedPrecondition", directory.doStage())
	directory.kind = aDirectory
	for name, change := range map[string]func(*structs.ClientCSICreateRequest){
		"unknown parameter":    func(r *structs.ClientCSICreateRequest) { r.Parameters = map[string]string{"sort": "x"} },
		"unknown type":         func(r *structs.ClientCSICreateRequest) { r.Parameters = map[string]string{"type": "tape"} },
		"unknown file system":  func(r *structs.ClientCSICreateRequest) { r.MountOptions.FSType = "fat" },
		"directory with ext4":  func(r *structs.ClientCSICreateRequest) { r.MountOptions.FSType = "ext4" },
		"flags of a fs":        func(r *structs.ClientCSICreateRequest) { r.MountOptions.MountFlags = []string{"data=journal"} },
		"flags that are ours":  func(r *structs.ClientCSICreateRequest) { r.MountOptions.MountFlags = []string{"rbind"} },
		"unknown provisioning": func(r *structs.ClientCSICreateRequest) { r.Parameters = map[string]string{"provisioning": "x"} },
	} {
		req := aDirectory.createRequest("x")
		change(req)
		if _, err := w.CreateVolume(t.Context(), req); csi.Code(err) != "InvalidArgument" {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.must("delete", errors.Join(directory.doDelete(), block.doDelete()))
}

func TestMountFlags_TakeEffect(t *testing.T) {
	each(t, []kind{aDirectory, anImage}, func(t *testing.T, k kind) {
		w := running(t)
		v := w.volume(k, "v")
		u := v.use(v.id)
		u.MountOptions = &structs.CSIMountOptions{FSType: k.fsType, MountFlags: []string{"nosuid,noexec", "nodev"}}
		w.must("stage", w.NodeStageVolume(t.Context(), &csi.StageRequest{Use: u, StagingPath: v.stage}))
		w.must("publish", w.NodePublishVolume(t.Context(), &csi.PublishRequest{Use: u, StagingPath: v.stage,
			TargetPath: v.target}))
		var st unix.Statfs_t
		w.must("statfs", unix.Statfs(v.target, &st))
		if want := int64(unix.ST_NOSUID | unix.ST_NOEXEC | unix.ST_NODEV); st.Flags&want != want ||
			st.Flags&unix.ST_RDONLY != 0 {
			t.Fatalf("flags %x", st.Flags)
		}
		w.refused("stage with other flags", "AlreadyExists", v.doStage())
		v.down()
	})
}

func TestSources_AreCopied(t *testing.T) {
	each(t, append(kinds, anXFS), func(t *testing.T, k kind) {
		w := running(t)
		v := w.volume(k, "v")
		v.up()
		w.must("write", v.write(v.target, "precious"))
		if k.block {
			w.must("unpublish", v.doUnpublish(v.target))
		}
		clone := w.volume(k, "clone", func(r *structs.ClientCSICreateRequest) { r.CloneID = v.id })
		s, err := w.snapshot(v.id, "s")
		w.must("snapshot", err)
		w.must("publish", v.doPublish(v.target, false))
		w.must("write", v.write(v.target, "changed!"))
		restored := w.volume(k, "restored", func(r *structs.ClientCSICreateRequest) { r.SnapshotID = s })
		for _, c := range []*testVolume{clone, restored} {
			c.up()
			c.holds(c.target, "precious")
		}
		v.holds(v.target, "changed!")
		w.must("delete the snapshot", w.deleteSnapshot(s))
		v.down()
		clone.down()
		restored.holds(restored.target, "precious")
		restored.down()
	})
}

func TestSnapshot_RefusesAWrittenDevice(t *testing.T) {
	needLoops(t)
	w := running(t)
	if canReflink(w.dir) {
		t.Skip("files share blocks here: every copy is of one instant")
	}
	v := w.volume(aBlock, "v")
	v.up()
	_, err := w.snapshot(v.id, "s")
	w.refused("snapshot", "FailedPrecondition", err)
	v.down()
}

func TestClone_LargerGrowsItsFileSystem(t *testing.T) {
	anImage.needs(t)
	w := running(t)
	v := w.volume(anImage, "v")
	clone := w.volume(anImage, "clone", func(r *structs.ClientCSICreateRequest) {
		r.CloneID, r.Capacity.RequiredBytes = v.id, 48<<20
	})
	clone.up()
	if got := fsSize(t, clone.target); got < 40<<20 {
		t.Fatalf("the file system has %d bytes", got)
	}
	req := anImage.createRequest("small")
	req.CloneID, req.Capacity = v.id, structs.CSICapacityRange{RequiredBytes: 1 << 20, LimitBytes: 8 << 20}
	_, err := w.CreateVolume(t.Context(), req)
	w.refused("a clone smaller than its source", "OutOfRange", err)
	clone.down()
	w.must("delete", v.doDelete())
}

func fsSize(t *testing.T, path string) int64 {
	t.Helper()
	total, _, err := freeSpace(path)
	if err != nil {
		t.Fatal(err)
	}
	return total
}

func TestExpand_Unused(t *testing.T) {
	each(t, append(kinds, anXFS), func(t *testing.T, k kind) {
		w := running(t)
		v := w.volume(k, "v")
		v.up()
		w.must("write", v.write(v.target, "precious"))
		w.must("unpublish", v.doUnpublish(v.target))
		w.must("unstage", v.doUnstage())
		more := k.size * 2
		if need, err := v.doExpand(more); err != nil || need {
			t.Fatalf("expand: %v %v", need, err)
		}
		v.up()
		v.holds(v.target, "precious")
		v.hasGrown(more)
		v.down()
	})
}

// hasGrown checks that the visible size at the target is about that of the volume.
func (o *testVolume) hasGrown(size int64) {
	o.t.Helper()
	if o.typ == typeDirectory {
		return
	}
	got := int64(0)
	if o.block {
		total, err := o.totalBytes()
		o.must("stats", err)
		f, err := os.Open(o.target)
		o.must("open", err)
		defer f.Close()
		if got, err = f.Seek(0, 2); err != nil || total != got {
			o.t.Fatalf("device of %d bytes (%v), by the statistics %d", got, err, total)
		}
	} else {
		got = fsSize(o.t, o.target)
	}
	if got < size*8/10 {
		o.t.Fatalf("%d bytes show of %d", got, size)
	}
}

func TestExpand_InUse(t *testing.T) {
	each(t, append(kinds, anXFS), func(t *testing.T, k kind) {
		w := running(t)
		v := w.volume(k, "v")
		v.up()
		w.must("write", v.write(v.target, "precious"))
		more := k.size * 2
		need, err := v.doExpand(more)
		if err != nil || need != (k.typ == typeImage) {
			t.Fatalf("expand: %v %v", need, err)
		}
		err = v.doNodeExpand(more)
		if k.fsType == "ext4" && csi.Code(err) == "FailedPrecondition" {
			// No right to grow it online here: the next stage does it.
			w.must("unpublish", v.doUnpublish(v.target))
			w.must("unstage", v.doUnstage())
			v.up()
			err = v.doNodeExpand(more)
		}
		w.must("node expand", err)
		v.hasGrown(more)
		v.holds(v.target, "precious")
		_, err = w.ControllerExpandVolume(t.Context(), &structs.ClientCSIExpandRequest{ExternalID: v.id,
			Capacity: structs.CSICapacityRange{RequiredBytes: 1 << 20, LimitBytes: 2 << 20}})
		w.refused("shrink", "OutOfRange", err)
		v.down()
	})
}

func isThin(r *structs.ClientCSICreateRequest) { r.Parameters["provisioning"] = "thin" }

func TestCreate_ThickImagesReserveBlocks(t *testing.T) {
	anImage.needs(t)
	w := running(t)
	thin := w.volume(anImage, "thin", isThin)
	thick := w.volume(anImage, "thick")
	used := func(v *testVolume) int64 {
		var st unix.Stat_t
		w.must("stat", unix.Stat(w.path("data/volumes", v.id, "image"), &st))
		return st.Blocks * 512
	}
	if a, b := used(thin), used(thick); a > anImage.size/2 || b < anImage.size {
		t.Fatalf("thin %d, thick %d", a, b)
	}
	w.must("delete", errors.Join(thin.doDelete(), thick.doDelete()))
}

func TestCapacity_IsBooked(t *testing.T) {
	w := running(t, func(c *Config) { c.Capacity = 40 << 20 })
	a := w.volume(aDirectory, "a")
	room, err := w.capacity(nil)
	if err != nil || room.GetAvailableCapacity() != 24<<20 || room.GetMaximumVolumeSize().GetValue() != 24<<20 ||
		room.GetMinimumVolumeSize().GetValue() != minDirectory {
		t.Fatalf("%+v %v", room, err)
	}
	req := aDirectory.createRequest("b")
	req.Capacity.RequiredBytes = 30 << 20
	_, err = w.CreateVolume(t.Context(), req)
	w.refused("create", "ResourceExhausted", err)
	if _, err = a.doExpand(60 << 20); csi.Code(err) != "ResourceExhausted" {
		t.Fatal(err)
	}
	elsewhere, err := w.capacity(map[string]string{DefaultTopologyKey: "node-b"})
	if err != nil || elsewhere.GetAvailableCapacity() != 0 {
		t.Fatalf("%+v %v", elsewhere, err)
	}
	rows, _ := filepath.Glob(w.path("data/volumes/*"))
	if len(rows) != 1 {
		t.Fatalf("a refused volume left %v", rows)
	}
	w.must("delete", a.doDelete())
}

func TestVolume_IsOnItsNodeOnly(t *testing.T) {
	w := running(t)
	info, err := w.NodeInfo(t.Context())
	if err != nil || info.ID != "node-a" || info.AccessibleTopology.Segments[DefaultTopologyKey] != "node-a" {
		t.Fatalf("%+v %v", info, err)
	}
	create := func(nodes ...string) (*structs.ClientCSICreateResponse, error) {
		req := aDirectory.createRequest("v")
		req.Topologies = &structs.CSITopologyRequest{}
		for _, n := range nodes {
			req.Topologies.Required = append(req.Topologies.Required,
				&structs.CSITopology{Segments: map[string]string{DefaultTopologyKey: n}})
		}
		return w.CreateVolume(t.Context(), req)
	}
	_, err = create("node-b", "node-c")
	w.refused("create for other nodes", "ResourceExhausted", err)
	v, err := create("node-b", "node-a")
	if err != nil || len(v.Topologies) != 1 || v.Topologies[0].Segments[DefaultTopologyKey] != "node-a" {
		t.Fatalf("%+v %v", v, err)
	}
	other := strings.TrimSuffix(v.ExternalID, nodeMark("node-a")) + nodeMark("node-b")
	o := w.known(aDirectory, "other", other)
	w.refused("delete another node's volume", "Unavailable", o.doDelete())
	w.refused("stage another node's volume", "Unavailable", o.doStage())
	_, err = w.capacity(nil)
	w.must("capacity", err)
	w.must("delete a volume that never was", w.known(aDirectory, "x", "no-such").doDelete())
	w.must("delete", w.known(aDirectory, "v", v.ExternalID).doDelete())
}
