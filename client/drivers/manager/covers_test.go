package manager

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
)

// A driver that shows the directories of exec hides the same paths. A path in a hidden directory has no
// cover.
func TestCovers_HideWhatExecHides(t *testing.T) {
	dir := t.TempDir()
	host, covers := filepath.Join(dir, "host"), filepath.Join(dir, "covers")
	for _, file := range []string{"own/agent.hcl", "own-x/token", "own/sub/key.pem", "shadow"} {
		path := filepath.Join(host, file)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cfg := exec.DefaultConfig()
	cfg.ChrootEnv = map[string]string{host: "/host", filepath.Join(dir, "none"): "/none"}
	cfg.Hidden = []string{filepath.Join(host, "shadow"), filepath.Join(host, "none")}
	for _, own := range []string{"own/agent.hcl", "own-x/token", "own/sub/key.pem"} {
		cfg.OwnFiles = append(cfg.OwnFiles, filepath.Join(host, own))
	}
	for range 2 { // the second agent finds the empty ones
		want := []driver.Mount{
			{HostPath: filepath.Join(covers, "dir"), TaskPath: "/host/own", ReadOnly: true},
			{HostPath: filepath.Join(covers, "dir"), TaskPath: "/host/own-x", ReadOnly: true},
			{HostPath: filepath.Join(covers, "file"), TaskPath: "/host/shadow", ReadOnly: true},
		}
		if got, err := coversOf(cfg, covers); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}

	cfg.OwnFiles = []string{filepath.Join(host, "shadow")}
	_, err := coversOf(cfg, covers)
	if err == nil {
		t.Error("a file that cannot be hidden is hidden")
	}
}
