package memory

import (
	"testing"

	"github.com/prometheus/procfs"
)

// residentOfFiles returns the bytes of files that the process has in its memory.
func residentOfFiles(t *testing.T) uint64 {
	t.Helper()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	status, err := self.NewStatus()
	if err != nil {
		t.Fatal(err)
	}
	return status.RssFile
}

// The process goes on with the pages that it still needs, and without the others.
func TestReleaseProgram_GivesPagesBack(t *testing.T) {
	before := residentOfFiles(t)
	err := releaseProgram()
	after := residentOfFiles(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes of files are resident, %d before", after, before)
	if after >= before {
		t.Errorf("%d bytes of files are resident, %d before", after, before)
	}
}
