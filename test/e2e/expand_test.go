package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

// sized is a volume file with another size and, for images, without reserved blocks: xfs wants them that
// large.
func (v volumeFile) sized(mib int) string {
	text := strings.Replace(v.hcl(), `capacity_min = "16MiB"`,
		fmt.Sprintf(`capacity_min = "%dMiB"`, mib), 1)
	text = strings.Replace(text, "capacity_max = \"32MiB\"\n", "", 1)
	return strings.Replace(text, `type = "image"`, `type = "image", provisioning = "thin"`, 1)
}

// watching is a job that prints the size of its volume, in MiB, over and over.
func watching(name, volume, script string, attach structs.CSIAttachmentMode) jobFile {
	at := "/data"
	if attach == structs.CSIBlockDevice {
		at = "/dev/data"
	}
	return jobFile{
		name: name,
		uses: []use{{
			source: volume,
			at:     at,
			attach: attach,
		}},
		script: "while :; do " + script + "; sleep 1; done",
	}
}

const (
	df       = `df -m /data | awk 'NR==2 { print "size " int($2/10) "x" }'`
	blockdev = `echo "size $(($(blockdev --getsize64 /dev/data) >> 20))"`
)

func TestExpand_WhileVolumesAreUsed(t *testing.T) {
	t.Parallel()
	a := withPlugin(t)
	grow := func(v volumeFile, mib int) string {
		return a.must("volume", "create",
			a.file("volume-"+v.id+".hcl", v.sized(mib)))
	}
	online := volumeFile{
		id:     "online",
		image:  true,
		fsType: "xfs",
	}
	disk := volumeFile{
		id:     "disk",
		image:  true,
		attach: structs.CSIBlockDevice,
	}
	later := volumeFile{
		id:     "later",
		image:  true,
		fsType: "ext4",
	}
	grow(online, 300)
	grow(disk, 16)
	grow(later, 16)
	for _, j := range []jobFile{
		watching("online", "online", df, structs.CSIFileSystem),
		watching("disk", "disk", blockdev, structs.CSIBlockDevice),
		watching("later", "later", df, structs.CSIFileSystem),
	} {
		a.must("job", "run", a.write(j))
	}
	fs := a.running("online", 1)[0].ID
	dev := a.running("disk", 1)[0].ID
	ext4 := a.running("later", 1)[0].ID
	a.says(fs, "size 2")
	a.says(dev, "size 16\n")
	a.says(ext4, "size 1x")

	grow(online, 360)
	a.says(fs, "size 29x")
	grow(disk, 24)
	a.says(dev, "size 24\n")
	for _, id := range []string{"online", "disk"} {
		if out := a.must("volume", "status", id); strings.Contains(out, "Grows to") {
			t.Errorf("it has grown already:\n%s", out)
		}
	}

	// A device that is not used meanwhile.
	a.must("job", "stop", "disk")
	a.free("disk")
	grow(disk, 40)
	a.must("job", "run",
		a.write(watching("disk", "disk", blockdev, structs.CSIBlockDevice)))
	a.says(a.running("disk", 1)[0].ID, "size 40\n")

	// The plugin cannot grow a mounted ext4 everywhere: then the status says that the next mount does it.
	grow(later, 32)
	out := a.must("volume", "status", "later")
	if strings.Contains(out, "Grows to") &&
		!strings.Contains(out, "until the next mount") {
		t.Errorf("why it has not grown is not to be seen:\n%s", out)
	}
	a.must("alloc", "stop", ext4)
	eventually(t, "another allocation", func() error {
		if now := a.running("later", 1)[0].ID; now == ext4 {
			return fmt.Errorf("still %s", now)
		}
		return nil
	})
	next := a.running("later", 1)[0].ID
	a.says(next, "size 2x")
	if out := a.must("volume", "status", "later"); strings.Contains(out, "Grows to") {
		t.Errorf("it has grown already:\n%s", out)
	}
	a.nothingLeft([]string{"online", "disk", "later"}, "online", "disk", "later")
}

// A plugin that expands volumes offline is called only when no node has the volume.
func TestVolumesGrow_OfflineOnceTheirUsersHaveLeft(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	if err := os.WriteFile(filepath.Join(st.root, "offline"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, "one", "-server", "-client").allowRaw()
	a.start()
	c := &cluster{
		t:       t,
		servers: []*agent{a},
		nodes:   []*agent{a},
	}
	a.must("job", "run", "-detach", st.job(a, "shelf", "system", "monolith"))
	a.healthyNodes("shelf", 1)
	fs := volumeFile{id: "fs"}
	disk := volumeFile{id: "disk", attach: structs.CSIBlockDevice}
	for _, v := range []struct {
		volumeFile
		script, small, large string
	}{
		{fs, df, "size 23x\n", "size 29x\n"}, // the log of xfs takes 64 MiB
		{disk, blockdev, "size 300\n", "size 360\n"},
	} {
		a.must("volume", "create", st.file(a, v.volumeFile, 300))
		job := a.write(watching(v.id, v.id, v.script, v.attach))
		a.must("job", "run", "-detach", job)
		user := a.running(v.id, 1)[0].ID
		a.says(user, v.small)
		a.must("volume", "create", st.file(a, v.volumeFile, 360))
		out := a.must("volume", "status", v.id)
		for _, want := range []string{"360 MiB once it is not in use: ", "allocation " + user[:8]} {
			if !strings.Contains(out, want) {
				t.Errorf("what it waits for is not to be seen, it lacks %q:\n%s", want, out)
			}
		}
		a.must("job", "stop", v.id)
		eventually(t, "the plugin has expanded the volume", func() error {
			got, err := get[*structs.CSIVolumeDetail](a, "/v1/volume/csi/"+v.id)
			if err == nil && (got.ExpandPending || got.Capacity != 360<<20) {
				err = fmt.Errorf("%+v", got)
			}
			return err
		})
		a.must("job", "run", "-detach", job)
		next := a.running(v.id, 1)[0].ID
		a.says(next, v.large)
		if strings.Contains(a.logs(user), v.large) ||
			strings.Contains(a.logs(next), v.small) {
			t.Errorf("volume %s has not grown between its users", v.id)
		}
		a.growing(v.id, false)
	}
	c.endAll(st, "fs", "disk")
}

func TestCreate_WithoutSpaceCanBeRepeated(t *testing.T) {
	t.Parallel()
	a := withPlugin(t)
	v := volumeFile{id: "big"}
	large := a.file("large.hcl", v.sized(900<<20))
	small := a.file("small.hcl", v.sized(16))
	a.refused(6, []string{"ResourceExhausted", "free bytes"}, "volume", "create", large)
	a.must("volume", "create", small)
	out := a.must("volume", "status", "big")
	if !strings.Contains(out, "ready") ||
		strings.Contains(out, "ResourceExhausted") {
		t.Errorf("status:\n%s", out)
	}
	a.refused(6, []string{"ResourceExhausted"}, "volume", "create", large) // an expansion
	a.must("volume", "delete", "big")
	a.refused(6, []string{"ResourceExhausted"}, "volume", "create", large)
	a.must("volume", "delete", "big")
}
