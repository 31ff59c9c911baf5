package agentlog

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/test/kit"
)

// Two rotations at one time have names of their own, and files that only look alike are left alone.
func TestPrune_LeavesTheNewestAndOtherFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	at := time.Date(2026, 11, 28, 17, 15, 0, 0, time.UTC)
	for range 3 {
		kit.Must(t, os.WriteFile(path, nil, 0o600))
		kit.Must(t, RotateFile(path, at))
	}
	other := filepath.Join(dir, "ab-20260101T000000.000000000Z.log")
	kit.Must(t, os.WriteFile(other, nil, 0o600))
	folder := filepath.Join(dir, "a-20260101T000000.000000000Z.log")
	kit.Must(t, os.Mkdir(folder, 0o700))

	kit.Must(t, PruneRotated(path, 2))
	got, err := RotatedFiles(path)
	want := []string{
		filepath.Join(dir, "a-20261128T171500.000000001Z.log"),
		filepath.Join(dir, "a-20261128T171500.000000002Z.log"),
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, path := range []string{other, folder} {
		_, err := os.Stat(path)
		kit.Must(t, err)
	}
}
