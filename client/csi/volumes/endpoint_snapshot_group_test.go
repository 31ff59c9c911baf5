package volumes

import (
	"context"
	"testing"

	"berth/csi/csitest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

func groupOf(volumes ...string) *nodecalls.ClientCSIGroupRequest {
	return &nodecalls.ClientCSIGroupRequest{PluginID: "ebs", Name: "g", SourceExternalIDs: volumes}
}

// A group is a call for each of its volumes.
func TestDuty_C1_C2_AGroupIsTheOnlyCallForEachOfItsVolumes(t *testing.T) {
	r := newServed(t)
	r.plugin.AddVolume("x", 1)
	r.plugin.AddVolume("y", 1)
	expand := func(ctx context.Context, volume string) error {
		_, err := rpc.Call(ctx, r, nodecalls.ClientCSIControllerExpand, &nodecalls.ClientCSIExpandRequest{
			PluginID: "ebs", ExternalID: volume, Capacity: nodecalls.CSICapacityRange{RequiredBytes: 4},
		})
		return err
	}
	release := r.plugin.Hang("CreateVolumeGroupSnapshot")
	ended := make(chan error, 1)
	go func() {
		_, err := call(r, nodecalls.ClientCSIGroupCreate, groupOf("y", "x"))
		ended <- err
	}()
	kit.Must(t, r.plugin.Await(t.Context(), "CreateVolumeGroupSnapshot", 1))
	for _, volume := range []string{"x", "y"} {
		impatient, stop := context.WithCancel(t.Context())
		second := make(chan error, 1)
		go func() { second <- expand(impatient, volume) }()
		stop()
		if err := <-second; !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("volume %s has two calls in flight: %v", volume, err)
		}
	}
	release()
	kit.Must(t, <-ended)
	kit.Must(t, expand(t.Context(), "x"))
}

func TestGroup_IsTakenOnceAndDeleted(t *testing.T) {
	r := newServed(t)
	r.plugin.AddVolume("x", 1)
	r.plugin.AddVolume("y", 1)
	made, err := call(r, nodecalls.ClientCSIGroupCreate, groupOf("y", "x"))
	kit.Must(t, err)
	again, err := call(r, nodecalls.ClientCSIGroupCreate, groupOf("y", "x"))
	kit.Must(t, err)
	if made.Group.ID != again.Group.ID || len(r.plugin.Groups()) != 1 {
		t.Errorf("made %+v and %+v", made.Group, again.Group)
	}
	_, err = call(r, nodecalls.ClientCSIGroupDelete, &nodecalls.ClientCSIGroupDeleteRequest{
		PluginID:          "ebs",
		ExternalID:        made.Group.ID,
		SnapshotIDs:       []string{made.Group.Of("x").ID, made.Group.Of("y").ID},
		SourceExternalIDs: []string{"y", "x"},
	})
	kit.Must(t, err)
	if left := r.plugin.Groups(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// The servers get RESOURCE_EXHAUSTED as an answer, because the plugin may have cut the group.
func TestGroup_ExhaustedIsAnAnswer(t *testing.T) {
	r := newServed(t)
	r.plugin.FailAlways("CreateVolumeGroupSnapshot", csitest.Error("ResourceExhausted", "full"))
	resp, err := call(r, nodecalls.ClientCSIGroupCreate, groupOf("x"))
	if err != nil || resp.Exhausted == "" || resp.Group != nil {
		t.Errorf("got %+v, %v", resp, err)
	}
}
