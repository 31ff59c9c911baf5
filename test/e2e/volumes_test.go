package e2e

import (
	"fmt"
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

func TestVolumes_ManyWritersShareAStage(t *testing.T) {
	t.Parallel()
	a := agentWithPlugin(t)
	a.createVolume(volumeFile{
		id:     "shared",
		image:  true,
		access: structs.CSIMultiNodeMultipleWriter,
	})
	var allocs []string
	for _, name := range []string{"left", "right"} {
		a.must("job", "run", a.writeJob(jobFile{
			name: name,
			uses: []volumeUse{{
				source: "shared",
				at:     "/shared",
				access: structs.CSIMultiNodeMultipleWriter,
			}},
			script: fmt.Sprintf("while :; do echo %s >> /shared/log && tail -n 2 /shared/log; sleep 0.2; done",
				name),
		}))
		allocs = append(allocs, a.awaitRunning(name, 1)[0].ID)
	}
	a.awaitOutput(allocs[0], "left", "right")
	a.awaitOutput(allocs[1], "left", "right")
	if stages(a) != 1 || publications(a) != 2 {
		t.Errorf("mounts: %v; want one stage with two publications", stagedBelow(a.dir))
	}

	a.must("job", "stop", "-purge", "left")
	eventually(t, "one claim is left", func() error {
		claims, err := a.claims("shared")
		if err == nil && len(claims) != 1 {
			err = fmt.Errorf("%d claims", len(claims))
		}
		return err
	})
	if stages(a) != 1 || publications(a) != 1 {
		t.Errorf("mounts: %v; want one stage with one publication", stagedBelow(a.dir))
	}
	a.awaitMoreOutput(allocs[1])
	a.stopAndCheckClean([]string{"shared"}, "right")
}

func TestPerAllocVolumes_HaveTheirOwnClaims(t *testing.T) {
	t.Parallel()
	a := agentWithPlugin(t)
	a.createVolume(volumeFile{id: "mine[0]"})
	a.createVolume(volumeFile{id: "mine[1]"})
	a.must("job", "run",
		a.writeJob(jobFile{
			name:  "pair",
			count: 2,
			uses: []volumeUse{{
				source:   "mine",
				at:       "/mine",
				perAlloc: true,
			}},
			script: `echo "I am $BERTH_ALLOC_INDEX" >> /mine/who; cat /mine/who; sleep 1000`,
		}))
	for _, alloc := range a.awaitRunning("pair", 2) {
		index := strings.TrimSuffix(strings.TrimPrefix(alloc.Name, "pair.g["), "]")
		if out := a.awaitOutput(alloc.ID, "I am "+index); strings.Count(out, "I am") != 1 {
			t.Errorf("%s shares its volume: %s", alloc.Name, out)
		}
		claims, err := a.claims("mine%5B" + index + "%5D")
		if err != nil || len(claims) != 1 || claims[0].AllocID != alloc.ID {
			t.Errorf("claims of mine[%s]: %+v, %v", index, claims, err)
		}
	}
	a.stopAndCheckClean([]string{"mine%5B0%5D", "mine%5B1%5D"}, "pair")
}

func TestVolumes_ReadOnlyRejectsWrites(t *testing.T) {
	t.Parallel()
	a := agentWithPlugin(t)
	a.createVolume(volumeFile{id: "rw"})
	a.createVolume(volumeFile{id: "ro", access: structs.CSIMultiNodeReader})
	a.must("job", "run", a.writeJob(jobFile{
		name: "reader",
		uses: []volumeUse{
			{source: "rw", at: "/asked", readOnly: true},
			{
				source:   "ro",
				at:       "/mode",
				access:   structs.CSIMultiNodeReader,
				readOnly: true,
			},
		},
		script: `
		  for dir in /asked /mode; do
		    touch $dir/file 2>/dev/null && echo "$dir was written"
		    mount -o remount,rw $dir 2>/dev/null; touch $dir/file 2>/dev/null && echo "$dir was written"
		    echo "$dir tried"
		  done
		  sleep 1000`,
	}))
	out := a.awaitOutput(a.awaitRunning("reader", 1)[0].ID, "/asked tried", "/mode tried")
	if strings.Contains(out, "was written") {
		t.Errorf("a read-only volume was written: %s", out)
	}
	a.stopAndCheckClean([]string{"rw", "ro"}, "reader")
}
