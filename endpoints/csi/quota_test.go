package csi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
	"berth/structs/storage"
)

// A creation, a registration or an expansion that a quota rejects reaches no plugin.
func TestVolumes_BeyondTheirQuotaMakeNoCall(t *testing.T) {
	s := endpointstest.New(t)
	n := s.AddNode("n1", "a")
	putClass(s, func(c *storage.VolumeClass) { c.QuotaWeight = 3 })
	bounds := &quota.StorageBound{
		VolumeBytes: 7 << 30, // two of the class need 6 GiB
		Of:          []*quota.VolumeBound{{Kind: quota.OfClass, Name: "fast", Volumes: 2}},
	}
	endpointstest.Must(s, quota.SpecPut, &quota.SpecPutRequest{Quota: &quota.Spec{
		Name:   "team",
		Limits: []*quota.Limit{{Region: "global", RegionLimit: &quota.Bounds{Storage: bounds}}},
	}})
	endpointstest.Must(s, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{
		Definition: &cluster.Namespace{Name: "default", Quota: "team"},
	})
	calls := make(chan string, 100)
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		calls <- v.State
		if v.State == structs.VolumeReady {
			return &structs.CSIVolumeOutcome{Op: "expand", Capacity: v.RequestedCapacityMin}
		}
		o := created(v)
		o.Capacity = v.RequestedCapacityMin
		return o
	})
	defer stop()
	sized := func(id string, gib int64) *structs.CSIVolume {
		v := requested(id, "fast")
		v.RequestedCapacityMin = gib << 30
		return v
	}
	denied := func(m structs.Method[structs.CSIVolumeRegisterRequest, structs.CSIVolumeRegisterResponse],
		v *structs.CSIVolume, want string,
	) {
		t.Helper()
		err := endpointstest.Rejected(s, structs.KindPrecondition, m, endpointstest.RegisterRequest(v))
		require.ErrorContains(t, err, want)
	}

	denied(structs.CSIVolumeCreate, sized("v", 3), "quota team: volume bytes: 0 B used, 9.0 GiB asked, 7.0 GiB allowed")
	require.Nil(t, volumeRow(s, "v"))
	require.Empty(t, calls)

	v := endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(sized("v", 1))).Volumes[0]
	require.Equal(t, 3, v.QuotaWeight)
	endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(sized("w", 1)))
	require.Len(t, calls, 2)
	denied(structs.CSIVolumeCreate, sized("v", 2), "volume bytes: 6.0 GiB used, 3.0 GiB asked, 7.0 GiB allowed")
	require.Equal(t, int64(1<<30), volumeRow(s, "v").RequestedCapacityMin)

	// Its bytes stay at the plugin, so it goes on counting.
	leave := &structs.CSIVolumeDeregisterRequest{ID: "v"}
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDeregister, leave)
	require.ErrorContains(t, err, "berth volume delete v")
	require.NotNil(t, volumeRow(s, "v"))
	leave.ID, leave.Force = "w", true
	endpointstest.Must(s, structs.CSIVolumeDeregister, leave)
	endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(sized("w", 1)))

	known := requested("x", "fast")
	known.ExternalID = "ext-x"
	denied(structs.CSIVolumeRegister, known, "volumes of class fast: 2 used, 1 asked, 2 allowed")
	require.Len(t, calls, 3)
	require.Empty(t, n.Called())

	// Another class gives the volumes that are there no other weight, and their requests keep it.
	putClass(s, func(c *storage.VolumeClass) { c.QuotaWeight = 1 })
	endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(sized("v", 1)))
	require.Equal(t, 3, volumeRow(s, "v").QuotaWeight)
	bounds.Of = nil
	endpointstest.Must(s, quota.SpecPut, &quota.SpecPutRequest{Quota: &quota.Spec{
		Name:   "team",
		Limits: []*quota.Limit{{Region: "global", RegionLimit: &quota.Bounds{Storage: bounds}}},
	}})
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(known))
	require.NotEmpty(t, n.Called(), "a registration within the quota asks the plugin")
	require.Zero(t, volumeRow(s, "x").QuotaWeight)
}
