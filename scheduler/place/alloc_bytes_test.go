package place

import (
	"strings"
	"testing"

	"berth/structs"
)

// A plan is one log entry, so it must not hold more IDs of devices than that.
func TestPlan_CountsTheIDsOfDevices(t *testing.T) {
	bare := &structs.Allocation{ID: "a", Metrics: &structs.AllocMetric{}}
	full := &structs.Allocation{ID: "a", Metrics: bare.Metrics, Devices: map[string][]*structs.AllocatedDeviceResource{
		"t": {{DeviceIDs: []string{strings.Repeat("x", 1000), strings.Repeat("y", 1000)}}},
	}}
	if more := allocBytes(full) - allocBytes(bare); more < 2000 {
		t.Errorf("two IDs of 1000 bytes count as %d bytes", more)
	}
}

// A plan is one log entry, so it must not hold more ports than that.
func TestPlan_CountsPorts(t *testing.T) {
	bare := &structs.Allocation{ID: "a", Metrics: &structs.AllocMetric{}}
	full := &structs.Allocation{ID: "a", Metrics: bare.Metrics, Ports: []structs.AllocatedPort{
		{Label: strings.Repeat("x", 64), HostIP: "10.0.0.1", Value: 1},
		{Label: strings.Repeat("y", 64), HostIP: "10.0.0.1", Value: 2},
	}}
	if more := allocBytes(full) - allocBytes(bare); more < 150 {
		t.Errorf("two ports count as %d bytes", more)
	}
}
