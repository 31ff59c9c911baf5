package hostpath

import (
	"testing"

	"berth/structs/hostvol"
)

// The servers know the plugin of dynamic host volumes by the name of the driver.
func TestDefaultName_IsTheDriverOfHostVolumes(t *testing.T) {
	if DefaultName != hostvol.Driver {
		t.Errorf("the driver has the name %q, and the servers look for %q", DefaultName, hostvol.Driver)
	}
}
