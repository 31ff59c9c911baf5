package report

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/storage"
)

// The topologies of a snapshot are kept in its row.
func TestSnapshot_BoundsItsTopologies(t *testing.T) {
	s := &storage.CSISnapshot{ID: "s"}
	if err := Snapshot(s); err != nil {
		t.Error(err)
	}
	s.AccessibleTopologies = make([]*structs.CSITopology, structs.MaxCSITopologies+1)
	err := Snapshot(s)
	if err == nil || !strings.Contains(err.Error(), "257 topologies; at most 256 are allowed") {
		t.Errorf("got %v", err)
	}
}
