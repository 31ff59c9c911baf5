package client

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
)

// sharedMounted reports whether the directory of volumes is mounted on itself.
func (m *restarted) sharedMounted() bool {
	m.t.Helper()
	table, err := mounts.Read()
	if err != nil {
		m.t.Fatal(err)
	}
	return table.Mounted(filepath.Join(m.dir, "csi", "v"))
}

func TestAgent_UnmountsTheDirectoryOfVolumesOnceNothingUsesIt(t *testing.T) {
	m := newMachine(t)
	root := filepath.Join(m.dir, "csi", "v")
	t.Cleanup(func() { // runs before the machine's own cleanup
		m.clear()
		m.kill()
		err := mounts.ReleaseShared(root)
		if err != nil {
			t.Error(err)
		}
	})
	m.start()
	m.servers.place(hostpathAlloc())
	m.until("both halves of the plugin are healthy", func() bool {
		return m.servers.pluginsHealthy() == 2
	})
	m.end(syscall.SIGTERM)
	if !m.sharedMounted() {
		t.Error("unmounted while a plugin runs, which would lose its mounts")
	}

	reported := m.updates()
	m.start()
	m.until("the next agent reports its allocations", func() bool { return m.updates() > reported })
	m.clear()
	below := filepath.Join(root, "volume")
	err := os.Mkdir(below, 0o700)
	if err == nil {
		err = unix.Mount("tmpfs", below, "tmpfs", 0, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(below, 0) }) // after a failure; otherwise it is unmounted
	m.end(syscall.SIGTERM)
	if !m.sharedMounted() {
		t.Error("unmounted though something is mounted below it")
	}
	err = unix.Unmount(below, 0)
	if err != nil {
		t.Fatal(err)
	}

	m.start()
	m.servers.place(hostpathAlloc())
	m.until("the plugin runs again", m.runsAlloc("plug"))
	m.clear()
	m.end(syscall.SIGTERM)
	if m.sharedMounted() {
		t.Error("still mounted, though nothing runs and nothing is mounted below it")
	}
}
