package fencing

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"berth/test/kit"
)

// TestFence_ByAnAgentOfDebian fences with fence_dummy, which keeps the state of its plug in a file. `make
// fence-agents-test` installs it and runs this test.
func TestFence_ByAnAgentOfDebian(t *testing.T) {
	if os.Getenv("FENCE_AGENTS") == "" {
		t.Skip("make fence-agents-test runs this test: it needs the package fence-agents")
	}
	if _, err := exec.LookPath("/usr/sbin/fence_dummy"); err != nil {
		kit.SkipLacking(t, "fence_dummy of the package fence-agents")
	}

	status := filepath.Join(t.TempDir(), "status")
	err := os.WriteFile(status, []byte("on"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	d := Device{
		Name:        "dummy",
		Agent:       "fence_dummy",
		Options:     map[string]string{"status_file": status},
		SecretFiles: map[string]string{"unknown_option": secretFile(t, "hunter2\n")}, // which it names in a warning
	}
	err = d.Validate()
	if err != nil {
		t.Fatal(err)
	}

	got := d.Monitor(t.Context(), nil)
	if got.Reason != "" || got.ExitCode != 0 {
		t.Errorf("monitor: got %+v", got)
	}

	got = d.Fence(t.Context(), node())
	if !got.Proved {
		t.Errorf("got %+v", got)
	}
	wantParts(t, got.Output, secretLine, "Success: Powered OFF", "Status: OFF")

	// The agent of this type never reaches its state.
	d.Options["type"] = "fail"
	d.Options["power_timeout"] = "1"
	got = d.Fence(t.Context(), node())
	if got.Proved || got.ExitCode != 1 {
		t.Errorf("a device that fails: got %+v", got)
	}
	wantParts(t, got.Reason, "off: the agent ended with exit code 1")
}
