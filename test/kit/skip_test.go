package kit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLacking_RecordsItsSkips(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips")
	t.Setenv(fileVar, file)
	for range 2 {
		t.Run("skipped", func(t *testing.T) {
			t.Cleanup(func() {
				if !t.Skipped() {
					t.Error("Lacking does not skip the test")
				}
			})
			SkipLacking(t, "no loop device:\nnone is free")
		})
	}
	want := "TestLacking_RecordsItsSkips/skipped: no loop device: none is free\n" +
		"TestLacking_RecordsItsSkips/skipped#01: no loop device: none is free\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
