package job

import (
	"testing"

	"berth/structs"
)

func TestObjectLabel_IsAnEqualName(t *testing.T) {
	for want, f := range map[string]*structs.FieldDiff{
		` "web"`: {Type: structs.DiffNone, Name: "Name", Old: "web", New: "web"},
		"":       {Type: structs.DiffNone, Name: "Name"}, // a block that may have a name
	} {
		if got := objectLabel(&structs.ObjectDiff{Fields: []*structs.FieldDiff{f}}); got != want {
			t.Errorf("the label of %+v is %s, want %s", f, got, want)
		}
	}
}
