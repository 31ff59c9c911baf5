package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

// hclWithSize is a volume file with another size and, for images, without reserved blocks: xfs wants them
// that large.
func (v volumeFile) hclWithSize(mib int) string {
	text := strings.Replace(v.hcl(), `capacity_min = "16MiB"`,
		fmt.Sprintf(`capacity_min = "%dMiB"`, mib), 1)
	text = strings.Replace(text, "capacity_max = \"32MiB\"\n", "", 1)
	return strings.Replace(text, `type = "image"`, `type = "image", provisioning = "thin"`, 1)
}

// sizePrintingJob is a job that prints the size of its volume, in MiB, over and over.
func sizePrintingJob(name, volume, script string, attach structs.CSIAttachmentMode) jobFile {
	at := "/data"
	if attach == structs.CSIBlockDevice {
		at = "/dev/data"
	}
	return jobFile{
		name: name,
		uses: []volumeUse{{
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

func TestExpand_GrowsVolumesInUse(t *testing.T) {
	t.Parallel()
	a := agentWithPlugin(t)
	grow := func(v volumeFile, mib int) string {
		return a.must("volume", "create",
			a.writeFile("volume-"+v.id+".hcl", v.hclWithSize(mib)))
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
		sizePrintingJob("online", "online", df, structs.CSIFileSystem),
		sizePrintingJob("disk", "disk", blockdev, structs.CSIBlockDevice),
		sizePrintingJob("later", "later", df, structs.CSIFileSystem),
	} {
		a.must("job", "run", a.writeJob(j))
	}
	fs := a.awaitRunning("online", 1)[0].ID
	dev := a.awaitRunning("disk", 1)[0].ID
	ext4 := a.awaitRunning("later", 1)[0].ID
	a.awaitOutput(fs, "size 2")
	a.awaitOutput(dev, "size 16\n")
	a.awaitOutput(ext4, "size 1x")

	grow(online, 360)
	a.awaitOutput(fs, "size 29x")
	grow(disk, 24)
	a.awaitOutput(dev, "size 24\n")
	for _, id := range []string{"online", "disk"} {
		if out := a.must("volume", "status", id); strings.Contains(out, "Grows to") {
			t.Errorf("it has grown already:\n%s", out)
		}
	}

	// A device that is not used meanwhile.
	a.must("job", "stop", "disk")
	a.awaitFree("disk")
	grow(disk, 40)
	a.must("job", "run",
		a.writeJob(sizePrintingJob("disk", "disk", blockdev, structs.CSIBlockDevice)))
	a.awaitOutput(a.awaitRunning("disk", 1)[0].ID, "size 40\n")

	// The plugin cannot grow a mounted ext4 everywhere: then the status says that the next mount does it.
	grow(later, 32)
	out := a.must("volume", "status", "later")
	if strings.Contains(out, "Grows to") &&
		!strings.Contains(out, "until the next mount") {
		t.Errorf("why it has not grown is not to be seen:\n%s", out)
	}
	a.must("alloc", "stop", ext4)
	eventually(t, "another allocation", func() error {
		if now := a.awaitRunning("later", 1)[0].ID; now == ext4 {
			return fmt.Errorf("still %s", now)
		}
		return nil
	})
	next := a.awaitRunning("later", 1)[0].ID
	a.awaitOutput(next, "size 2x")
	a.awaitGrowth("later", false)
	a.stopAndCheckClean([]string{"online", "disk", "later"}, "online", "disk", "later")
}

// A plugin that expands volumes offline is called only when no node has the volume.
func TestExpand_OfflineWaitsForTheUsers(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	if err := os.WriteFile(filepath.Join(st.root, "offline"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, "one", "-server", "-client").allowRaw()
	a.start()
	c := &testCluster{
		t:       t,
		servers: []*agent{a},
		nodes:   []*agent{a},
	}
	a.must("job", "run", "-detach",
		st.writePluginJob(a, "shelf", "system", "monolith"))
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
		a.must("volume", "create", st.writeVolumeFile(a, v.volumeFile, 300))
		job := a.writeJob(sizePrintingJob(v.id, v.id, v.script, v.attach))
		a.must("job", "run", "-detach", job)
		user := a.awaitRunning(v.id, 1)[0].ID
		a.awaitOutput(user, v.small)
		a.must("volume", "create", st.writeVolumeFile(a, v.volumeFile, 360))
		out := a.must("volume", "status", v.id)
		for _, want := range []string{"360 MiB once it is not in use: ", "allocation " + user[:8]} {
			if !strings.Contains(out, want) {
				t.Errorf("the status lacks %q:\n%s", want, out)
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
		next := a.awaitRunning(v.id, 1)[0].ID
		a.awaitOutput(next, v.large)
		if strings.Contains(a.logs(user), v.large) ||
			strings.Contains(a.logs(next), v.small) {
			t.Errorf("volume %s has not grown between its users", v.id)
		}
		a.awaitGrowth(v.id, false)
	}
	c.stopAndDelete(st, "fs", "disk")
}

func TestCreate_WithoutSpaceCanBeRepeated(t *testing.T) {
	t.Parallel()
	a := agentWithPlugin(t)
	v := volumeFile{id: "big"}
	large := a.writeFile("large.hcl", v.hclWithSize(900<<20))
	small := a.writeFile("small.hcl", v.hclWithSize(16))
	a.mustFail(6, []string{"ResourceExhausted", "free bytes"}, "volume", "create", large)
	a.must("volume", "create", small)
	out := a.must("volume", "status", "big")
	if !strings.Contains(out, "ready") ||
		strings.Contains(out, "ResourceExhausted") {
		t.Errorf("status:\n%s", out)
	}
	a.mustFail(6, []string{"ResourceExhausted"}, "volume", "create", large) // an expansion
	a.must("volume", "delete", "big")
	a.mustFail(6, []string{"ResourceExhausted"}, "volume", "create", large)
	a.must("volume", "delete", "big")
}
