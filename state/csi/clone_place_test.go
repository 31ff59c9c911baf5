package csi_test

import (
	"strings"
	"testing"

	"berth/state/csi"
	"berth/structs"
)

// zoneOf is the topology of a node of local storage.
func zoneOf(node string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"node": node}}
}

// A copy is made where its source is, as a volume from a snapshot.
func TestLimitToSource_MakesACopyWhereItsSourceIs(t *testing.T) {
	w := newFixture(t)
	w.MustPut(func(v *structs.CSIVolume) { v.Topologies = []*structs.CSITopology{zoneOf("n2")} })
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{aVolume("everywhere", "p")},
		WriteOptions: w.Now(),
	})
	for name, c := range map[string]struct {
		source   string
		required []*structs.CSITopology
		want     string
		fault    string
	}{
		"nothing is asked": {"v", nil, "n2", ""},
		"one of them":      {"v", []*structs.CSITopology{zoneOf("n1"), zoneOf("n2")}, "n2", ""},
		"another one":      {"v", []*structs.CSITopology{zoneOf("n1")}, "", "it copies is not usable"},
		"no place":         {"everywhere", nil, "", ""},
		"no row":           {"foreign", nil, "", ""},
		"no copy":          {"", nil, "", ""},
	} {
		v := aVolume("copy", "p")
		v.Namespace = structs.DefaultNamespace
		v.CloneID = c.source
		if c.required != nil {
			v.RequestedTopologies = &structs.CSITopologyRequest{Required: c.required}
		}
		err := csi.LimitToSource(w.Store.Read(), v, nil)
		if c.fault != "" {
			if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		got := ""
		if r := v.RequestedTopologies; r != nil {
			for _, p := range r.Required {
				got += p.Segments["node"]
			}
		}
		if err != nil || got != c.want {
			t.Errorf("%s: in %q, %v", name, got, err)
		}
	}
}
