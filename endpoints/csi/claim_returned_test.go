package csi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/structs"
	"berth/structs/cluster"
)

// A node waits for a volume that a returned node may hold, and gets its answer as soon as that one has let go
// of it. It gets another volume at once.
func TestClaimGet_WaitsForAReturnedNodeThatMayHoldTheVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		endpointstest.MustPropose(s, fsm.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: time.Minute})
		s.AddNode("n1", "a")
		for volume, alloc := range map[string]string{"v": "a1", "other": "a2"} {
			s.AddVolume(volume)
			s.AddAlloc(alloc, "n1")
			s.Claim(volume, alloc, "n1")
			confirmAttach(s, volume, "n1")
		}
		var left []structs.NodeLeftover
		held := &structs.NodeInventory{}
		for _, volume := range []string{"v", "stuck"} {
			left = append(left, structs.NodeLeftover{Namespace: "default", VolumeID: volume})
			held.Held = append(held.Held, structs.CSIHeldClaim{
				CSIClaimKey: structs.CSIClaimKey{Namespace: "default", VolumeID: volume, AllocID: "gone"},
			})
		}
		endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{
			Node: &structs.Node{
				ID: "n2", SecretID: endpointstest.SecretOf("n2"), Name: "n2", Status: structs.NodeReady,
			},
			Inventory: held,
		})
		require.True(t, endpointstest.Must(s, structs.CSIClaimGet, claimOf(s, "other", "a2", "n1")).Ready)
		waiting := endpointstest.Must(s, structs.CSIClaimGet, claimOf(s, "v", "a1", "n1"))
		require.False(t, waiting.Ready)
		require.Contains(t, waiting.Blocked, "node n2 was deleted and came back")
		start := time.Now()
		answerAfter(s, waiting, func() {
			synctest.Wait()
			endpointstest.MustPropose(s, fsm.NodeLeftovers,
				&structs.NodeLeftoversUpdate{NodeID: "n2", Still: left[1:]})
		})
		require.Zero(t, time.Since(start))
	})
}
