package query

import (
	"testing"

	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// A right names each kind of rows by its namespace and ID. Rows of an unknown kind are shown to nobody.
func TestPlace_OfEachKindOfRows(t *testing.T) {
	for _, c := range []struct {
		row           any
		namespace, id string
	}{
		{&structs.Allocation{Namespace: "n", ID: "i"}, "n", "i"},
		{&structs.CSIClaim{Namespace: "n", VolumeID: "i", AllocID: "a"}, "n", "i"},
		{&structs.CSIVolume{Namespace: "n", ID: "i"}, "n", "i"},
		{&structs.Deployment{Namespace: "n", ID: "i"}, "n", "i"},
		{&structs.Evaluation{Namespace: "n", ID: "i"}, "n", "i"},
		{&structs.Job{Namespace: "n", ID: "i"}, "n", "i"},
		{&structs.ScalingPolicy{ID: "i", Target: map[string]string{"Namespace": "n"}}, "n", "i"},
		{&structs.ServiceRegistration{Namespace: "n", ID: "i"}, "n", "i"},
		{&access.Variable{Namespace: "n", Path: "i"}, "n", "i"},
		{&structs.ServiceListStub{Namespace: "n"}, "n", ""},
		{&cluster.Namespace{Name: "i"}, "", "i"},
		{&cluster.NodePool{Name: "i"}, "", "i"},
		{&structs.Node{ID: "i"}, "", "i"},
		{&structs.CSIPluginRow{ID: "i"}, "", "i"},
	} {
		asked := [2]string{}
		q := &structs.QueryOptions{Sees: func(namespace, id string) bool {
			asked = [2]string{namespace, id}
			return false
		}}
		if seen(q, nil)(c.row) || asked != [2]string{c.namespace, c.id} {
			t.Errorf("%T: asked about %q, want %q", c.row, asked, [2]string{c.namespace, c.id})
		}
	}

	all := &structs.QueryOptions{Sees: func(_, _ string) bool { return true }}
	if seen(all, nil)(&structs.CSIVolumeDetail{}) {
		t.Error("a row of an unknown kind is shown")
	}
}
