package external

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/drivers/drivertest"
	protocol "berth/client/drivers/protocol/driver"
)

// started returns the resources of the last task that the plugin started.
func (f *fixture) started() *protocol.LinuxResources {
	f.t.Helper()
	lines := f.plugin.Lines("started")
	cfg := &protocol.TaskConfig{}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), cfg); err != nil {
		f.t.Fatal(err)
	}
	return cfg.GetResources().GetLinuxResources()
}

// The plugin clones the task into the cgroup that it gets, as drivers do that make none themselves. On
// a machine with cgroup v1 it gets none, and the task runs as before.
func TestCgroup_OfATaskHasItsLimitsUntilTheTaskIsDestroyed(t *testing.T) {
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	cfg.Resources.CPU = 500
	cfg.Resources.MemoryMB = 48
	a.start(cfg)
	given := f.started()
	if share := given.GetPercentTicks(); share != 500.0/2000 {
		t.Errorf("the share of the processors is %v", share)
	}
	dir := given.GetCpusetCgroup()
	if !a.machine.IsUnified() {
		if dir != "" {
			t.Errorf("the cgroup %q is on a machine without cgroup v2", dir)
		}
		a.destroy(cfg.ID)
		return
	}
	if want := filepath.Join("/sys/fs/cgroup", shareSlice, "a1.web.scope"); dir != want {
		t.Errorf("the cgroup is %q, want %q", dir, want)
	}
	for file, want := range map[string]string{"memory.max": "50331648", "cpu.weight": "19"} {
		if got := readControl(t, dir, file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if readControl(t, dir, "cgroup.procs") == "" {
		t.Error("the task does not run in its cgroup")
	}
	a.destroy(cfg.ID)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the cgroup is left: %v", err)
	}
}

func readControl(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// A start that fails leaves no cgroup, and a next one makes it anew.
func TestCgroup_OfAFailedStartIsGone(t *testing.T) {
	f := newFixture(t)
	a := f.agent()
	f.plugin.Set("StartTask", drivertest.Fail)
	cfg := f.task("a1", loops)
	if _, err := a.Start(t.Context(), cfg); err == nil {
		t.Fatal("the start succeeds")
	}
	for _, dir := range []string{a.groupOf(cfg.ID).V2} {
		if _, err := os.Stat(dir); dir != "" && !os.IsNotExist(err) {
			t.Errorf("the cgroup is left: %v", err)
		}
	}
	f.plugin.Set("StartTask", "")
	a.start(cfg)
	a.destroy(cfg.ID)
}
