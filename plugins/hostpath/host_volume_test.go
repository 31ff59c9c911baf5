package hostpath

import (
	"testing"

	"berth/structs/storage"
)

// The servers know the plugin of dynamic host volumes by the name of the driver.
func TestDefaultName_IsTheDriverOfHostVolumes(t *testing.T) {
	if DefaultName != storage.HostVolumeDriver {
		t.Errorf("the driver has the name %q, and the servers look for %q", DefaultName, storage.HostVolumeDriver)
	}
}
