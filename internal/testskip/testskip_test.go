package testskip

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
					t.Error("it is not skipped")
				}
			})
			Lacking(t, "no moon:\nit is new")
		})
	}
	line := "TestLacking_RecordsItsSkips/skipped: no moon: it is new\n"
	again := "TestLacking_RecordsItsSkips/skipped#01: no moon: it is new\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != line+again {
		t.Errorf("%q %v", got, err)
	}
}
