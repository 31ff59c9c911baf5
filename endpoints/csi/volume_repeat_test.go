package csi_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	statecsi "berth/state/csi"
	"berth/structs"
)

// pendingVolume is a server with the volume v in creation, after the given errors of the plugin.
func pendingVolume(t *testing.T, errs ...*structs.OperationError) *endpointstest.Server {
	t.Helper()
	config := endpointstest.QuickSettings()
	config.VolumeTimeout = config.HoldTimeout
	s := endpointstest.New(t, config)
	s.AddNode("n1", "a")
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(endpointstest.Volume("v")))
	for _, e := range errs {
		endpointstest.MustPropose(s, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{ID: "v", Op: "create", Err: e})
	}
	return s
}

var (
	notDelivered = &structs.OperationError{Kind: structs.KindUnavailable, Message: "no controller"}
	noOutcome    = &structs.OperationError{Kind: structs.KindTimeout, Message: "no answer"}
)

// A plugin that has made the volume rejects a repetition with other arguments, and nobody learns its ID.
func TestDuty_C5_TheArgumentsOfACreationStayOnceThePluginMayHaveThem(t *testing.T) {
	for field, change := range map[string]func(v *structs.CSIVolume){
		"capacity_min": func(v *structs.CSIVolume) { v.RequestedCapacityMin = 7 },
		"capacity_max": func(v *structs.CSIVolume) { v.RequestedCapacityMax = 7 << 30 },
		"capability": func(v *structs.CSIVolume) {
			v.RequestedCapabilities[0] = &structs.CSIVolumeCapability{
				AccessMode: structs.CSIMultiNodeReader, AttachmentMode: structs.CSIFileSystem}
		},
		"mount_options": func(v *structs.CSIVolume) { v.MountOptions = &structs.CSIMountOptions{FSType: "xfs"} },
		"topology_request": func(v *structs.CSIVolume) {
			v.RequestedTopologies = &structs.CSITopologyRequest{
				Preferred: []*structs.CSITopology{{Segments: map[string]string{"zone": "z"}}}}
		},
	} {
		t.Run(field, func(t *testing.T) {
			other := endpointstest.Volume("v")
			change(other)
			for _, errs := range [][]*structs.OperationError{{noOutcome}, {noOutcome, notDelivered}} {
				s := pendingVolume(t, errs...)
				err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeCreate,
					endpointstest.RegisterRequest(other))
				if !strings.Contains(err.Error(), field+" cannot change") {
					t.Errorf("the error is %v", err)
				}
			}
		})
	}
}

// Under another name the plugin would make a second volume, and nobody would know the ID of the first one.
func TestDuty_F3_ARepeatedCreationKeepsItsName(t *testing.T) {
	for name, failure := range map[string]*structs.OperationError{
		"an unknown outcome": noOutcome,
		"no space":           {Kind: structs.KindPrecondition, Code: structs.CSICodeExhausted, Message: "full"},
		"a rejection":        {Kind: structs.KindInvalid, Code: "InvalidArgument", Message: "no"},
		"another volume":     {Kind: structs.KindConflict, Code: "AlreadyExists", Message: "other arguments"},
	} {
		for _, final := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, final %t", name, final), func(t *testing.T) {
				s := pendingVolume(t)
				before := statecsi.Volume(s.Store.Read(), "default", "v").Name
				endpointstest.MustPropose(s, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{
					ID: "v", Op: "create", Err: failure, Final: final})
				endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate,
					endpointstest.RegisterRequest(endpointstest.Volume("v")))
				after := statecsi.Volume(s.Store.Read(), "default", "v").Name
				if before == "" || after != before {
					t.Errorf("the name was %q and is %q", before, after)
				}
			})
		}
	}
}

func TestVolumeCreate_ChangesTheArgumentsOfACreationThatWasNotBegun(t *testing.T) {
	other := endpointstest.Volume("v")
	other.RequestedCapacityMin = 7
	for name, errs := range map[string][]*structs.OperationError{
		"no call":            nil,
		"none was delivered": {notDelivered},
	} {
		t.Run(name, func(t *testing.T) {
			s := pendingVolume(t, errs...)
			endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate,
				endpointstest.RegisterRequest(other))
			if v := statecsi.Volume(s.Store.Read(), "default", "v"); v.RequestedCapacityMin != 7 {
				t.Errorf("the volume is %+v", v)
			}
		})
	}
}

func TestVolumeCreate_RepeatsTheRequestDuringACall(t *testing.T) {
	s := pendingVolume(t, noOutcome)
	secret := endpointstest.Volume("v")
	secret.Secrets = structs.Secrets{"key": "renewed"}
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(secret))
	v := statecsi.Volume(s.Store.Read(), "default", "v")
	endpointstest.MustPropose(s, fsm.CallNote, &structs.CSICallNote{
		VolumeID: "v",
		RowIndex: v.CreateIndex,
		Call:     &structs.CSICall{NodeID: "n1", Op: "create"},
	})
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(secret))
	secret.RequestedCapacityMin = 7
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(secret))
}

// The row may be deleted between the checks and the log. The request then creates the volume, with a name.
func TestVolumeCreate_NamesAVolumeWhoseRowWasDeletedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t, core.DefaultSettings())
		s.AddNode("n1", "a")
		s.AddVolume("v")
		hold := make(chan struct{})
		s.Raft.Do(func() { s.Raft.Hold = hold })
		ended := make(chan error, 1)
		go func() {
			_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeCreate,
				endpointstest.RegisterRequest(endpointstest.Volume("v")))
			ended <- err
		}()
		synctest.Wait()
		s.Raft.Do(func() { s.Raft.Hold = nil })
		endpointstest.MustPropose(s, fsm.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v"})
		close(hold)
		synctest.Wait()
		row := statecsi.Volume(s.Store.Read(), "default", "v")
		if row == nil || row.State != structs.VolumeCreating || row.Name == "" {
			t.Fatalf("the volume is %+v", row)
		}
		outcome := created(row)
		outcome.ID = "v"
		outcome.RowIndex = row.CreateIndex
		endpointstest.MustPropose(s, fsm.VolumeOutcome, outcome)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
