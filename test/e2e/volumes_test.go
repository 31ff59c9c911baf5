package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

// stages and publications count the mounts in the staging and publish directories.
func stages(a *agent) int       { return countBase(a, "stage") }
func publications(a *agent) int { return countBase(a, "mount") }

func countBase(a *agent, base string) (n int) {
	for _, m := range stagedBelow(a.dir) {
		if filepath.Base(m) == base {
			n++
		}
	}
	return n
}

// agentWithPlugin starts an agent, server and node, with the hostpath plugin and no volume.
func agentWithPlugin(t testing.TB) *agent {
	t.Helper()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	return a
}

// stopAndCheckClean stops jobs and checks that none of their volumes is claimed, mounted or on a loop device.
func (a *agent) stopAndCheckClean(volumes []string, jobs ...string) {
	a.t.Helper()
	for _, j := range jobs {
		a.must("job", "stop", "-purge", j)
	}
	for _, v := range volumes {
		a.awaitFree(v)
	}
	if left := stagedBelow(a.dir); len(left) > 0 {
		a.t.Errorf("mounts of volumes after the last claim has ended: %v", left)
	}
	a.awaitNoLoopDevices()
}

func TestVolumes_OfImagesAsFileSystemAndDevice(t *testing.T) {
	t.Parallel()
	a := agentWithPlugin(t)
	a.createVolume(volumeFile{
		id:     "fs",
		image:  true,
		fsType: "ext4",
	})
	a.createVolume(volumeFile{
		id:     "disk",
		image:  true,
		attach: structs.CSIBlockDevice,
	})
	job := jobFile{
		name: "both",
		uses: []volumeUse{
			{source: "fs", at: "/fs"},
			{source: "disk", at: "/dev/disk", attach: structs.CSIBlockDevice},
		},
		script: `
		  grep ' /fs ' /proc/self/mounts
		  test -b /dev/disk && echo "is a device"
		  echo "before: $(cat /fs/word) $(head -c 5 /dev/disk)"
		  echo hello > /fs/word
		  printf world | dd of=/dev/disk conv=notrunc,fsync 2>&1
		  echo "after: $(cat /fs/word) $(head -c 5 /dev/disk)"
		  sleep 1000`,
	}
	path := a.writeJob(job)
	a.must("job", "run", path)
	alloc := a.awaitRunning("both", 1)[0]
	out := a.awaitOutput(alloc.ID, "is a device", "after: hello world")
	if !strings.Contains(out, "/fs ext4 rw") {
		t.Errorf("the file system is not ext4: %s", out)
	}
	if len(a.loopDevices()) != 2 {
		t.Errorf("loop devices %v, want 2", a.loopDevices())
	}
	a.stopAndCheckClean([]string{"fs", "disk"}, "both")

	a.must("job", "run", path)
	a.awaitOutput(a.awaitRunning("both", 1)[0].ID, "before: hello world")
	a.stopAndCheckClean([]string{"fs", "disk"}, "both")
	a.must("volume", "delete", "fs")
	a.must("volume", "delete", "disk")
}
