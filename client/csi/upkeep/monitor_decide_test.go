package upkeep

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/client/csi/helper"
	"berth/structs/storage"
)

// TestStateOf_TellsDeadMountsFromErrorsOfAFileSystemThatLives has the errors of the root of a mount.
func TestStateOf_TellsDeadMountsFromErrorsOfAFileSystemThatLives(t *testing.T) {
	m := NewMonitor(MonitorConfig{})
	for _, c := range []struct {
		errno syscall.Errno
		hung  bool
		want  string
	}{
		{0, false, storage.MountHealthy},
		{syscall.EACCES, false, storage.MountHealthy},
		{syscall.EPERM, false, storage.MountHealthy},
		{syscall.EROFS, false, storage.MountHealthy},
		{syscall.ENOSPC, false, storage.MountHealthy},
		{0, true, storage.MountHung},
		{syscall.ENOTCONN, true, storage.MountHung},
		{syscall.ENOTCONN, false, storage.MountDead},
		{syscall.ESTALE, false, storage.MountDead},
		{syscall.EIO, false, storage.MountDead},
		{syscall.ECONNABORTED, false, storage.MountDead},
		{syscall.ESHUTDOWN, false, storage.MountDead},
		{syscall.EHOSTDOWN, false, storage.MountDead},
		{syscall.ETIMEDOUT, false, storage.MountDead},
		{syscall.EREMOTEIO, false, storage.MountDead},
		{syscall.ENODEV, false, storage.MountDead},
		{syscall.ENXIO, false, storage.MountDead},
	} {
		got, reason := m.stateOf(helper.ProbeAnswer{Errno: int(c.errno), Hung: c.hung})
		if got != c.want || (reason == "") != (c.want == storage.MountHealthy) {
			t.Errorf("%v, hung %t: %s, %q", c.errno, c.hung, got, reason)
		}
	}
}

// TestObserve_CountsLooks has the looks at a mount, one after the other. Dead, read-only and gone need two in
// a row of one kind. Healthy and hung count at once.
func TestObserve_CountsLooks(t *testing.T) {
	for looks, want := range map[string]string{
		"dead":                   "healthy",
		"dead dead":              "dead",
		"dead gone":              "healthy",
		"dead gone gone":         "gone",
		"dead healthy dead":      "healthy",
		"hung":                   "hung",
		"hung dead":              "hung",
		"hung dead dead":         "dead",
		"hung healthy":           "healthy",
		"dead dead healthy":      "healthy",
		"dead dead gone dead":    "dead",
		"read_only read_only":    "read_only",
		"dead hung healthy dead": "healthy",
		"dead dead gone":         "dead",
	} {
		m := NewMonitor(MonitorConfig{})
		s := &monitorState{health: storage.MountHealth{State: storage.MountHealthy}}
		for _, found := range strings.Fields(looks) {
			m.observe(s, found, "because it is "+found)
		}
		if s.health.State != want || want != "healthy" && s.health.Reason != "because it is "+want {
			t.Errorf("%s: %s, %q", looks, s.health.State, s.health.Reason)
		}
	}
}

// TestForgive_AsksAgainWhatHung: the process has ended without an answer of one mount.
func TestForgive_AsksAgainWhatHung(t *testing.T) {
	m := NewMonitor(MonitorConfig{})
	for _, path := range []string{"/hung", "/well"} {
		m.mounts[path] = &monitorState{asking: true}
	}
	m.forgive(map[string]bool{"/hung": true, "/well": false, "/gone": true})
	if m.mounts["/hung"].asking || !m.mounts["/well"].asking {
		t.Errorf("asking: %t, %t", m.mounts["/hung"].asking, m.mounts["/well"].asking)
	}
}

// A mount dies just after a round at worst: the next round begins after MonitorInterval, and waits for
// MonitorWait. The documentation promises 15 s.
func TestConstants_FindADeadMountInTime(t *testing.T) {
	if late := 2*MonitorInterval + MonitorWait; late > 15*time.Second {
		t.Errorf("a mount is found after %s", late)
	}
}
