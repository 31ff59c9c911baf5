package control

import (
	"testing"

	"berth/structs"
)

func TestCreate_SendsTheNameThatWasMade(t *testing.T) {
	v := &structs.CSIVolume{CSIVolumeSpec: structs.CSIVolumeSpec{Name: "payroll", ExternalName: "v-1"}}
	if got := createRequest(v).Name; got != "v-1" {
		t.Errorf("the plugin gets the name %q", got)
	}
	v.ExternalName = "" // the row of a registered volume
	if got := createRequest(v).Name; got != "payroll" {
		t.Errorf("the plugin gets the name %q", got)
	}
}
