package csi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// A request for several volumes of which the servers reject the last one calls no plugin for the others.
func TestVolumeRegister_ChecksAllVolumesBeforeTheFirstCall(t *testing.T) {
	known := func(id, external string) *structs.CSIVolume {
		v := endpointstest.Volume(id)
		v.ExternalID = external
		return v
	}
	for name, c := range map[string]struct {
		last *structs.CSIVolume
		edit func(*structs.CSIVolume)
		kind structs.Kind
		says string
	}{
		"all beyond the quota": {kind: structs.KindPrecondition, last: known("last", "ext-last"),
			says: "volumes: 2 used, 1 asked, 2 allowed"},
		"registered already": {kind: structs.KindConflict, last: known("last", "ext-there"),
			says: "registered already"},
		"no such plugin": {
			kind: structs.KindPrecondition, last: known("last", "ext-last"),
			edit: func(v *structs.CSIVolume) { v.PluginID = "gone" },
			says: `CSI plugin "gone" does not exist`,
		},
		"no such namespace": {
			kind: structs.KindPrecondition, last: known("last", "ext-last"),
			edit: func(v *structs.CSIVolume) { v.Namespace = "gone" },
			says: `namespace "gone"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := endpointstest.New(t)
			n := s.AddNode("n1", "a")
			endpointstest.Must(s, structs.CSIVolumeRegister,
				endpointstest.RegisterRequest(known("there", "ext-there")))
			endpointstest.Must(s, quota.SpecPut, &quota.SpecPutRequest{Quota: &quota.Spec{
				Name: "two",
				Limits: []*quota.Limit{{Region: "global", RegionLimit: &quota.Bounds{
					Storage: &quota.StorageBound{Volumes: 2},
				}}},
			}})
			endpointstest.Must(s, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{
				Definition: &cluster.Namespace{Name: "default", Quota: "two"},
			})
			before := len(n.Called())
			if c.edit != nil {
				c.edit(c.last)
			}
			req := endpointstest.RegisterRequest(known("first", "ext-first"))
			req.Volumes = append(req.Volumes, c.last)
			err := endpointstest.Rejected(s, c.kind, structs.CSIVolumeRegister, req)
			require.ErrorContains(t, err, c.says)
			require.Len(t, n.Called(), before, "a plugin was called")
			require.Nil(t, volumeRow(s, "first"))
		})
	}
}
