package requests

import (
	"testing"

	"berth/state"
	"berth/structs"
)

func TestCreate_SendsTheNameThatWasMade(t *testing.T) {
	tx := state.New().Read()
	v := &structs.CSIVolume{Name: "payroll", ExternalName: "v-1"}
	if got := Create(tx, v).Name; got != "v-1" {
		t.Errorf("the plugin gets the name %q", got)
	}
	v.ExternalName = "" // the row of an older server
	if got := Create(tx, v).Name; got != "payroll" {
		t.Errorf("the plugin gets the name %q", got)
	}
}
