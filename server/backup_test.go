package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/keyring"
)

// TestSnapshotAgent_SavesAnArchiveThatAnEmptyClusterRestores starts a server again, so that the job is in the
// first archive.
func TestSnapshotAgent_SavesAnArchiveThatAnEmptyClusterRestores(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	s := run(t, cfg)
	s.register("kept")
	s.stop()

	cfg.Backup.Every = time.Hour
	cfg.Backup.Directory = t.TempDir()
	s = run(t, cfg)
	var saved []string
	s.until("an archive", func() bool {
		saved, _ = filepath.Glob(filepath.Join(cfg.Backup.Directory, "*.snap"))
		return len(saved) == 1
	})
	s.stop()

	empty := run(t, testConfig(t))
	archive, err := os.Open(saved[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	err = empty.SnapshotRestore(t.Context(), archive, keyring.RestoreKeys{})
	if err != nil || !empty.has("kept") {
		t.Errorf("the job is there: %v, %v", empty.has("kept"), err)
	}
}
