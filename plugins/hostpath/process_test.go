package hostpath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/csi"
	"berth/internal/keylock"
	"berth/plugins/hostpath/disk"
	"berth/structs"
	"berth/structs/nodecalls"
)

// A successor on the same data directory answers "not ready" until its predecessor has left. Then it has all
// records of the predecessor.
func TestRun_WaitsForAnEarlierProcess(t *testing.T) {
	w := newFixture(t)
	w.start()
	v := w.volume(aDirectory, "v")

	cfg := w.cfg
	cfg.Endpoint = w.path("second.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	second, err := csi.Dial(cfg.Endpoint, csi.Options{})
	w.must("dial", err)
	t.Cleanup(func() { _ = second.Close() })
	probe := func(want bool) {
		t.Helper()
		for {
			ready, err := second.Probe(t.Context())
			if err == nil && ready == want {
				return
			}
			if err == nil && ready {
				t.Fatal("two drivers have one data directory")
			}
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
	}
	probe(false)
	_, err = second.CreateVolume(t.Context(), aDirectory.createRequest("x"))
	w.mustFail("create before the driver is ready", "Unavailable", err)
	w.terminate()
	probe(true)
	list, err := second.ListVolumes(t.Context(), &nodecalls.ClientCSIListRequest{})
	if err != nil || len(list.Volumes) != 1 || list.Volumes[0].ExternalID != v.id {
		t.Fatalf("got the volumes %+v, %v, want %s", list, err, v.id)
	}
	deletion := &nodecalls.ClientCSIDeleteRequest{ExternalID: v.id}
	w.must("delete", second.DeleteVolume(t.Context(), deletion))
}

func TestRun_ReplacesAStaleSocket(t *testing.T) {
	w := newFixture(t)
	w.start()
	w.kill()
	if _, err := os.Lstat(w.path("csi.sock")); err != nil {
		t.Fatal("a killed driver leaves its socket: ", err)
	}
	w.startHere()
	w.endHere()
	if _, err := os.Lstat(w.path("csi.sock")); err == nil {
		t.Fatal("the socket is left")
	}
	w.cfg.Endpoint = w.path("file")
	w.must("write", os.WriteFile(w.path("file"), nil, 0o600))
	if err := Run(t.Context(), w.cfg); err == nil {
		t.Fatal("replaced a file that is no socket")
	}
}

func TestConfig_ReportsAllFaults(t *testing.T) {
	err := Run(t.Context(), Config{Endpoint: "csi.sock", DataDir: "data", Capacity: -1, MaxVolumes: -1})
	for _, want := range []string{"endpoint", "node id", "data directory", "capacity", "max volumes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %q: %v", want, err)
		}
	}
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("got an error of the kind %s, want invalid", structs.KindOf(err))
	}
}

func TestRun_EndsWithoutADataDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), Config{
		Endpoint: filepath.Join(dir, "s"),
		NodeID:   "n",
		DataDir:  filepath.Join(dir, "file", "data"),
	})
	if err == nil {
		t.Fatal("ran without a data directory")
	}
}

// An unreadable record hides no other record, and its data stays for an operator.
func TestOpenStore_LeavesABadRecordAlone(t *testing.T) {
	for name, text := range map[string]string{
		"no json":    "{",
		"null":       "null",
		"another id": `{"ID":"x","State":"ready"}`,
		"empty":      "",
	} {
		t.Run(name, func(t *testing.T) {
			w := newRunningFixture(t)
			good, bad := w.volume(aDirectory, "good"), w.volume(aDirectory, "bad")
			w.endHere()
			dir := w.path("data/volumes", bad.id)
			w.must("damage", os.WriteFile(dir+"/record.json", []byte(text), 0o600))
			w.must("mkdir", os.Mkdir(w.path("data/volumes/stray"), 0o700))
			w.must("mkdir", os.MkdirAll(w.path("data/volumes/full/data"), 0o700))
			w.startHere()
			list, err := w.ListVolumes(t.Context(), &nodecalls.ClientCSIListRequest{})
			if err != nil || len(list.Volumes) != 1 || list.Volumes[0].ExternalID != good.id {
				t.Fatalf("got the volumes %+v, %v, want %s", list, err, good.id)
			}
			if _, err := os.Stat(dir + "/data"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(w.path("data/volumes/stray")); err == nil {
				t.Fatal("an empty directory without a record is left")
			}
			if _, err := os.Stat(w.path("data/volumes/full/data")); err != nil {
				t.Fatal("data without a record was removed")
			}
		})
	}
}

// A node that returns under another name still serves the volumes it holds.
func TestRun_KeepsVolumesUnderANewNodeID(t *testing.T) {
	w := newFixture(t)
	w.start()
	v := w.volume(aDirectory, "v")
	w.terminate()
	w.cfg.NodeID = "node-b"
	w.startHere()
	v.stageAndPublish()
	v.remove()
}

// A driver that is killed between the attachment of a device and its record leaves the device.
func TestReconcile_DetachesTheDeviceOfAnUnusedImage(t *testing.T) {
	anImage.needs(t)
	w := newFixture(t)
	w.start()
	v := w.volume(anImage, "v")
	w.kill()
	image := w.path("data/volumes", v.id, "image")
	dev, err := disk.AttachLoop(t.Context(), image, false, false)
	w.must("attach", err)
	w.must("close", dev.Close())
	w.startHere()
	devices, err := disk.LoopsOf(image)
	if err != nil || len(devices) > 0 {
		t.Errorf("the image is attached to %v, %v", devices, err)
	}
	v.remove()
}

// The driver does not use the mounts of an earlier boot, which their records name.
func TestReconcile_AfterARebootNothingIsStaged(t *testing.T) {
	anImage.needs(t)
	w := newFixture(t)
	w.start()
	v := w.volume(anImage, "v")
	v.stageAndPublish()
	w.must("write", v.write(v.target, "precious"))
	w.kill()
	w.must("unmount", unix.Unmount(v.target, 0)) // as a reboot does
	w.must("unmount", unix.Unmount(v.stage, 0))
	record := w.path("data/volumes", v.id, "record.json")
	b, err := os.ReadFile(record)
	w.must("read", err)
	edited := strings.Replace(string(b), disk.BootID(), "another-boot", 1)
	w.must("edit", os.WriteFile(record, []byte(edited), 0o600))
	w.startHere()
	b, err = os.ReadFile(record)
	w.must("read", err)
	for _, old := range []string{v.target, "another-boot"} {
		if strings.Contains(string(b), old) {
			t.Fatalf("the record still has %s: %s", old, b)
		}
	}
	v.stageAndPublish()
	v.mustHold(v.target, "precious")
	v.remove()
}

// On a full disk no volume can be created, none is lost, and all can be removed: their removal frees space.
func TestFullDisk_RejectsNewVolumes(t *testing.T) {
	w := newFixture(t)
	w.must("mkdir", os.Mkdir(w.path("data"), 0o700))
	w.must("mount", unix.Mount("none", w.path("data"), "tmpfs", 0, "size=6m"))
	t.Cleanup(func() {
		w.kill()
		w.endHere()
		_ = unix.Unmount(w.path("data"), unix.MNT_DETACH)
	})
	w.start()
	a, b := w.volume(smaller(aDirectory), "a"), w.volume(smaller(aDirectory), "b")
	a.stageAndPublish()
	b.stageAndPublish()
	w.must("write", a.write(a.target, "precious"))
	var err error
	for i := 0; err == nil; i++ {
		name := strings.Repeat("f", i+1)
		err = os.WriteFile(filepath.Join(b.target, name), make([]byte, 256<<10), 0o600)
	}
	_, err = w.snapshot(a.id, "s")
	w.mustFail("snapshot", "ResourceExhausted", err)
	_, err = w.CreateVolume(t.Context(), smaller(aDirectory).createRequest("c"))
	w.mustFail("create", "ResourceExhausted", err)
	w.kill()
	w.startHere()
	a.mustHold(a.target, "precious")
	b.remove()
	c := w.volume(smaller(aDirectory), "c")
	c.stageAndPublish()
	c.remove()
	a.mustHold(a.target, "precious")
	a.remove()
}

// A volume in use can still be written when the disk is full, because its blocks are reserved. A volume
// without enough space is rejected, and nothing of it is left.
func TestFullDisk_BreaksNoImageInUse(t *testing.T) {
	anImage.needs(t)
	w := newFixture(t)
	w.must("mkdir", os.Mkdir(w.path("data"), 0o700))
	w.must("mount", unix.Mount("none", w.path("data"), "tmpfs", 0, "size=40m"))
	t.Cleanup(func() {
		w.endHere()
		_ = unix.Unmount(w.path("data"), unix.MNT_DETACH)
	})
	w.startHere()
	v := w.volume(anImage, "v")
	v.stageAndPublish()
	filler, err := os.Create(w.path("data", "filler"))
	w.must("create", err)
	for err == nil {
		_, err = filler.Write(make([]byte, 1<<20))
	}
	w.must("close", filler.Close())
	data, err := os.Create(filepath.Join(v.target, "large"))
	w.must("create", err)
	_, err = data.Write(make([]byte, 10<<20))
	w.must("write to the reserved blocks", errors.Join(err, data.Sync(), data.Close()))
	w.must("remove", os.Remove(filepath.Join(v.target, "large")))

	_, err = v.doExpand(30 << 20)
	w.mustFail("expand", "ResourceExhausted", err)
	_, err = w.CreateVolume(t.Context(), anImage.createRequest("w"))
	w.mustFail("create", "ResourceExhausted", err)
	page, err := w.ListVolumes(t.Context(), &nodecalls.ClientCSIListRequest{})
	if err != nil || len(page.Volumes) != 1 || page.Volumes[0].CapacityBytes != anImage.size {
		t.Errorf("listed %+v, %v", page, err)
	}
	w.must("remove", os.Remove(w.path("data", "filler")))
	_, err = v.doExpand(20 << 20)
	w.must("expand", err)
	v.remove()
}

// An expansion that finds less space on the disk than at its booking has no effect.
func TestFullDisk_UndoesAnExpansion(t *testing.T) {
	anImage.needs(t)
	w := newFixture(t)
	w.must("mkdir", os.Mkdir(w.path("data"), 0o700))
	w.must("mount", unix.Mount("none", w.path("data"), "tmpfs", 0, "size=40m"))
	t.Cleanup(func() { _ = unix.Unmount(w.path("data"), unix.MNT_DETACH) })
	w.runHere(func(point string) {
		if point != "expand recorded" {
			return
		}
		filler, err := os.Create(w.path("data", "filler"))
		for err == nil {
			_, err = filler.Write(make([]byte, 1<<20))
		}
		_ = filler.Close()
	})
	v := w.volume(anImage, "v")
	_, err := v.doExpand(30 << 20)
	w.mustFail("expand", "ResourceExhausted", err)
	info, err := os.Stat(w.path("data/volumes", v.id, "image"))
	if err != nil || info.Size() != anImage.size {
		t.Errorf("the image has %d bytes, %v", info.Size(), err)
	}
	page, err := w.ListVolumes(t.Context(), &nodecalls.ClientCSIListRequest{})
	if err != nil || len(page.Volumes) != 1 || page.Volumes[0].CapacityBytes != anImage.size {
		t.Errorf("listed %+v, %v", page, err)
	}
	w.must("remove", os.Remove(w.path("data", "filler")))
	w.must("delete", whileBusy(v.doDelete))
}

func smaller(k kind) kind {
	k.size = 1 << 20
	return k
}

// Many callers call concurrently for one volume: each succeeds or learns that another call is in flight, and
// in the end the volume is complete.
func TestDriver_OneCallPerVolume(t *testing.T) {
	w := newRunningFixture(t)
	v := w.volume(aDirectory, "v")
	w.must("stage", v.doStage())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				for _, err := range []error{v.doPublish(v.target, false), v.doUnpublish(v.target)} {
					if err != nil && csi.Code(err) != "Aborted" {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	w.must("publish", v.doPublish(v.target, false))
	if n := len(mountsBelow(t, v.target)); n != 1 {
		t.Fatalf("got %d mounts on the target, want 1", n)
	}
	v.remove()
}

func TestLock_TakesAllKeysOrNone(t *testing.T) {
	l := &driver{ctx: t.Context(), locks: keylock.Map{MaxUsers: 1}}
	release, err := l.lockKeys("a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.lockKeys("b", "a")
	if disk.CodeOf(err) != codes.Aborted {
		t.Fatalf("a lock of a key in use: got %v, want Aborted", err)
	}
	releaseB, err := l.lockKeys("b")
	if err != nil {
		t.Fatalf("a rejected call kept a lock: %v", err)
	}
	releaseB()
	release()
	releaseBoth, err := l.lockKeys("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	releaseBoth()
}

func TestListVolumes_PagesSurviveDeletions(t *testing.T) {
	w := newRunningFixture(t)
	made := map[string]*testVolume{}
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		v := w.volume(aDirectory, n)
		made[v.id] = v
	}
	seen := map[string]bool{}
	req := &nodecalls.ClientCSIListRequest{MaxEntries: 2}
	for {
		page, err := w.ListVolumes(t.Context(), req)
		w.must("list", err)
		for _, e := range page.Volumes {
			if seen[e.ExternalID] {
				t.Fatalf("two pages have %s", e.ExternalID)
			}
			seen[e.ExternalID] = true
			w.must("delete", made[e.ExternalID].doDelete()) // the token's own volume too
		}
		req.StartingToken = page.NextToken
		if req.StartingToken == "" {
			break
		}
	}
	if len(seen) != len(made) {
		t.Fatalf("the pages have %d of %d volumes", len(seen), len(made))
	}
}
