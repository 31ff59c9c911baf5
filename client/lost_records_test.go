package client

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/client/csi/mounts"
)

// TestAgent_FindsTasksAndMountsWithoutItsRecords removes client.db between two agents, as the error of a
// damaged one demands. docs/operations/troubleshoot.md promises the result.
func TestAgent_FindsTasksAndMountsWithoutItsRecords(t *testing.T) {
	m := newMachine(t)
	t.Cleanup(func() { // runs before the rig's own cleanup ends the agent
		m.clear()
		err := mounts.ReleaseShared(filepath.Join(m.dir, "csi", "v"))
		if err != nil {
			t.Error(err)
		}
	})
	m.start()
	m.servers.place(hostpathAlloc())
	m.until("both halves of the plugin are healthy", func() bool {
		return m.servers.pluginsHealthy() == 2
	})
	m.createVolume()
	m.servers.place(volumeAlloc())
	m.until("the allocation runs", m.runsAlloc("user"))
	m.until("it writes to the volume", func() bool { return m.read("alloc/user/web/local/pulse") != "" })
	before := m.mounted()
	m.kill()
	err := os.Remove(filepath.Join(m.dir, "client", "client.db"))
	if err != nil {
		t.Fatal(err)
	}
	m.servers.do(func() { m.servers.unaccounted = true }) // each heartbeat reports what the node holds
	m.start()
	m.until("the agent knows of the volume again", func() (held bool) {
		m.servers.do(func() {
			n := len(m.servers.inventories)
			held = n > 0 && len(m.servers.inventories[n-1]) == 1
		})
		return held
	})
	pulse := m.read("alloc/user/web/local/pulse")
	m.until("the task writes on", func() bool { return m.read("alloc/user/web/local/pulse") != pulse })
	if after := m.mounted(); !slices.Equal(before, after) {
		t.Errorf("mounts before:\n %s\nafter:\n %s",
			strings.Join(before, "\n "), strings.Join(after, "\n "))
	}
	for _, point := range before {
		if b, err := os.ReadFile(filepath.Join(point, "starts")); string(b) != "start\n" {
			t.Errorf("the task started as %q reports, %v", b, err)
		}
	}
	m.servers.stopAlloc("user")
	m.until("the claim is released", func() (none bool) {
		m.servers.do(func() { none = len(m.servers.claims) == 0 })
		return none
	})
	if left := m.mounted(); len(left) != 0 {
		t.Errorf("mounted after the release: %v", left)
	}
}
