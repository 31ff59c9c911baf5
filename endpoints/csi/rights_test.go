package csi_test

import (
	"reflect"
	"testing"
	"testing/synctest"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	statecsi "berth/state/csi"
	"berth/structs"
	"berth/structs/access"
)

// The row of a copy names the source that the rights of the caller were about.
func TestVolumeCreate_PinsTheSourceOfACopy(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	reg := endpointstest.Registration("n1")
	reg.CSI[0].ControllerInfo.SupportsClone = true
	endpointstest.Must(s, structs.NodeRegister, reg)
	source := s.AddVolume("source")
	pinned := map[string]structs.CSICloneSource{}
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		pinned[v.ID] = *v.CloneSource
		return created(v)
	})
	for id, clone := range map[string]string{
		"by-id":       "source",
		"by-external": "ext-source",
		"outside":     "ext-none",
	} {
		v := endpointstest.Volume(id)
		v.CloneID = clone
		v.CloneSource = &structs.CSICloneSource{ExternalID: "of the caller's choice"}
		endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(v))
	}
	stop()

	own := structs.CSICloneSource{
		Namespace:   "default",
		ID:          "source",
		CreateIndex: source.CreateIndex,
		ExternalID:  "ext-source",
	}
	for id, want := range map[string]structs.CSICloneSource{
		"by-id":       own,
		"by-external": own,
		"outside":     {ExternalID: "ext-none"},
	} {
		row := statecsi.Volume(s.Store.Read(), "default", id)
		if pinned[id] != want || row.CloneSource == nil || *row.CloneSource != want {
			t.Errorf("%s: got %+v while it is made and %+v then, want %+v", id, pinned[id], row.CloneSource, want)
		}
	}
}

// A copy is made where its source is, and is rejected where a request excludes that place.
func TestVolumeCreate_LimitsACopyToThePlaceOfItsSource(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "b")
	reg := endpointstest.Registration("n1")
	reg.CSI[0].ControllerInfo.SupportsClone = true
	endpointstest.Must(s, structs.NodeRegister, reg)
	zone := func(name string) []*structs.CSITopology {
		return []*structs.CSITopology{{Segments: map[string]string{"zone": name}}}
	}
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		o := created(v)
		o.Topologies = zone("a")
		return o
	})
	defer stop()
	endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(endpointstest.Volume("source")))

	elsewhere := endpointstest.Volume("elsewhere")
	elsewhere.CloneID = "source"
	elsewhere.RequestedTopologies = &structs.CSITopologyRequest{Required: zone("b")}
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(elsewhere))

	beside := endpointstest.Volume("beside")
	beside.CloneID = "source"
	endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(beside))
	got := statecsi.Volume(s.Store.Read(), "default", "beside").RequestedTopologies
	if got == nil || !reflect.DeepEqual(got.Required, zone("a")) {
		t.Errorf("the copy is requested in %+v", got)
	}
}

// guard makes a server ask for tokens. It returns a token with rules.
func guard(s *endpointstest.Server, rules string) (secret string) {
	s.T.Helper()
	s.Guard()
	s.Roles = false
	return s.Token(rules)
}

// The row may be deleted between the check of the rights and the log. A caller with the right to expand alone
// must not make a volume with its ID then.
func TestVolumeCreate_OfOneWhoOnlyExpandsMakesNoVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		s.AddNode("n1", "a")
		s.AddVolume("v")
		rules := "namespace \"default\" {\n  volume \"v\" { capabilities = [\"read\", \"expand\"] }\n}\n"
		grow := endpointstest.Volume("v")
		grow.Secrets = nil
		grow.MountOptions = nil
		grow.RequestedCapacityMin = 2 << 30
		req := endpointstest.RegisterRequest(grow)
		req.AuthToken = guard(s, rules)

		hold := make(chan struct{})
		s.Raft.Do(func() { s.Raft.Hold = hold })
		ended := make(chan error, 1)
		go func() {
			_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeCreate, req)
			ended <- err
		}()
		synctest.Wait()
		s.Raft.Do(func() { s.Raft.Hold = nil })
		endpointstest.MustPropose(s, fsm.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v"})
		close(hold)
		err := <-ended
		row := statecsi.Volume(s.Store.Read(), "default", "v")
		if !structs.IsKind(err, structs.KindDenied) || row != nil {
			t.Errorf("got %v, and the volume %v", err, row)
		}
	})
}

// A request waits for its turn while another records the same volume. The rows that it uses then are newer
// than those that the gate has seen.
func TestVolumeCreate_AsksForTheRightsOfItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		s.AddNode("n1", "a")
		req := endpointstest.RegisterRequest(endpointstest.Volume("v"))
		req.AuthToken = guard(s, "namespace \"default\" {\n  policy = \"write\"\n}\n")
		hold := make(chan struct{})
		s.Raft.Do(func() { s.Raft.Hold = hold })
		first := make(chan error, 1)
		go func() {
			_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeCreate,
				endpointstest.RegisterRequest(endpointstest.Volume("v")))
			first <- err
		}()
		synctest.Wait()
		second := make(chan error, 1)
		go func() {
			_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeCreate, req)
			second <- err
		}()
		synctest.Wait()

		s.Raft.Do(func() { s.Raft.Hold = nil })
		endpointstest.MustPropose(s, fsm.ACLPolicyDelete, &access.PolicyDeleteRequest{Name: "p1"})
		close(hold)
		err := <-second
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("got %v, want a denial: the policy of the token was deleted meanwhile", err)
		}
		<-first
	})
}
