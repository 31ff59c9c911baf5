package nodeconn

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"berth/state"
	"berth/structs"
	"berth/structs/nodecalls"
)

func at(zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": zone}}
}

func TestVolumeControllers_AreNearTheVolume(t *testing.T) {
	a := Controller{"na", at("a")}
	b := Controller{"nb", at("b")}
	nowhere := Controller{"nx", nil}
	for name, c := range map[string]struct {
		all  []Controller
		want *structs.CSITopologyRequest
		out  []string
	}{
		"no controller":              {nil, nil, []string{}},
		"no requirement accepts all": {[]Controller{a, b}, nil, []string{"na", "nb"}},
		"required": {[]Controller{a, b},
			&structs.CSITopologyRequest{Required: []*structs.CSITopology{at("b")}}, []string{"nb"}},
		"one of many": {[]Controller{a, b},
			&structs.CSITopologyRequest{Required: []*structs.CSITopology{at("c"), at("a")}}, []string{"na"}},
		"no controller in the zone": {[]Controller{a, b},
			&structs.CSITopologyRequest{Required: []*structs.CSITopology{at("c")}}, []string{}},
		"a controller without topology": {[]Controller{a, nowhere},
			&structs.CSITopologyRequest{Required: []*structs.CSITopology{at("c")}}, []string{"nx"}},
		"preferred is only order": {[]Controller{a, b},
			&structs.CSITopologyRequest{Preferred: []*structs.CSITopology{at("b")}}, []string{"nb", "na"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := chooseControllers(c.all, c.want, ""); !slices.Equal(got, c.out) &&
				!slices.Equal(slices.Sorted(slices.Values(got)), c.out) {
				t.Errorf("got %v, want %v", got, c.out)
			}
			if c.want != nil && len(c.want.Preferred) > 0 &&
				chooseControllers(c.all, c.want, "")[0] != c.out[0] {
				t.Error("preferred controller is not first")
			}
		})
	}
}

func TestControllers_ShareTheWorkAndStickToAVolume(t *testing.T) {
	all := []Controller{{"n1", nil}, {"n2", nil}, {"n3", nil}}
	first := map[string]int{}
	for i := range 300 {
		key := structs.DeriveID(uint64(i))
		ids := chooseControllers(all, nil, key)
		if !slices.Equal(ids, chooseControllers(all, nil, key)) || len(ids) != 3 {
			t.Fatalf("%s: %v", key, ids)
		}
		first[ids[0]]++
	}
	for id, n := range first {
		if n < 50 {
			t.Errorf("%s is first %d times of 300", id, n)
		}
	}
}

// twoZones returns a store with the plugin pl on the nodes n1 in zone a and n2 in zone b. The update comes
// after their registration.
func twoZones(t *testing.T, update *structs.CSIPluginInstance) *state.Store {
	t.Helper()
	store := state.New()
	b := store.Begin()
	apply := func(index uint64, fn func(tx *state.WriteTx) error) {
		t.Helper()
		if err := b.Apply(index, fn); err != nil {
			t.Fatal(err)
		}
	}
	for i, zone := range []string{"a", "b"} {
		node := &structs.Node{
			ID:       "n" + strconv.Itoa(i+1),
			SecretID: "s",
			Status:   structs.NodeReady,
		}
		node.Name = node.ID
		info := structs.CSIInfo{
			PluginID:                 "pl",
			Provider:                 "pl.csi",
			Healthy:                  true,
			RequiresControllerPlugin: true,
		}
		controller := &structs.CSIPluginInstance{
			Kind:    structs.CSIKindController,
			NodeID:  node.ID,
			CSIInfo: info,
		}
		controller.ControllerInfo = &structs.CSIControllerInfo{SupportsCreateDelete: true}
		half := &structs.CSIPluginInstance{
			Kind:    structs.CSIKindNode,
			NodeID:  node.ID,
			CSIInfo: info,
		}
		half.NodeInfo = &structs.CSINodeInfo{ID: "ext-" + node.ID, AccessibleTopology: at(zone)}
		apply(uint64(i+1), func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{
				Node: node, CSI: []*structs.CSIPluginInstance{controller, half},
			})
		})
	}
	apply(3, func(tx *state.WriteTx) error {
		return state.NodeUpdateCSI(tx, &structs.NodeUpdateCSIRequest{
			NodeID: update.NodeID, Upserts: []*structs.CSIPluginInstance{update},
		})
	})
	b.Commit()
	return store
}

func TestDuty_B10_AControllerOfAnotherDriverIsNotCalled(t *testing.T) {
	store := twoZones(t, &structs.CSIPluginInstance{
		Kind:   structs.CSIKindController,
		NodeID: "n2",
		CSIInfo: structs.CSIInfo{
			PluginID:       "pl",
			Provider:       "other.csi",
			Healthy:        true,
			ControllerInfo: &structs.CSIControllerInfo{SupportsCreateDelete: true},
		},
	})
	if got := Controllers(store.Read(), "pl", nil, ""); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("got %v, want n1 alone", got)
	}
	req := &nodecalls.ClientCSIDeleteRequest{PluginID: "pl"}
	Address(store.Read(), req)
	if req.Provider != "pl.csi" {
		t.Errorf("the call names the driver %q", req.Provider)
	}
}

func TestControllers_AreHealthyAndOnReadyNodes(t *testing.T) {
	store := twoZones(t, &structs.CSIPluginInstance{
		Kind:    structs.CSIKindController,
		NodeID:  "n1",
		CSIInfo: structs.CSIInfo{PluginID: "pl"},
	})
	if got := Controllers(store.Read(), "pl", nil, ""); !slices.Equal(got, []string{"n2"}) {
		t.Errorf("got %v, want n2 alone", got)
	}
	v := &structs.CSIVolume{
		ID: "v",
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:            "pl",
			RequestedTopologies: &structs.CSITopologyRequest{Required: []*structs.CSITopology{at("b")}},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{Topologies: []*structs.CSITopology{at("a")}},
	}
	if got := VolumeControllers(store.Read(), v); len(got) != 0 {
		t.Errorf("got %v, want none: the volume is in zone a, not in the requested zone", got)
	}
	v.Topologies = nil
	if got := VolumeControllers(store.Read(), v); !slices.Equal(got, []string{"n2"}) {
		t.Errorf("got %v, want n2", got)
	}
}

// script answers the calls to each node with the errors it holds, one after another.
type script struct {
	errors map[string][]error
	calls  []string
}

func (s *script) Call(_ context.Context, node, _ string, _, _ any) error {
	s.calls = append(s.calls, node)
	if len(s.errors[node]) == 0 {
		return nil
	}
	err := s.errors[node][0]
	s.errors[node] = s.errors[node][1:]
	return err
}

func TestCallController_TriesTheNextOnlyWhenNothingWasDone(t *testing.T) {
	for _, c := range []struct {
		first structs.Kind
		want  []string
		err   structs.Kind
	}{
		{"", []string{"n1"}, ""},
		{structs.KindUnavailable, []string{"n1", "n2"}, ""},
		{structs.KindTimeout, []string{"n1"}, structs.KindTimeout},
		{structs.KindInternal, []string{"n1"}, structs.KindInternal},
		{structs.KindConflict, []string{"n1"}, structs.KindConflict},
	} {
		s := &script{errors: map[string][]error{}}
		if c.first != "" {
			s.errors["n1"] = []error{structs.Errorf(c.first, "no")}
		}
		_, err := Call(t.Context(), Target{s, []string{"n1", "n2"}, time.Second}, nodecalls.ClientCSIControllerDelete,
			&nodecalls.ClientCSIDeleteRequest{})
		if structs.KindOf(err) != c.err || !slices.Equal(s.calls, c.want) {
			t.Errorf("after %q: called %v and got %v, want %v and %q", c.first, s.calls, err, c.want, c.err)
		}
	}
	_, err := Call(t.Context(), Target{Nodes: &script{}, Limit: time.Second},
		nodecalls.ClientCSIControllerDelete,
		&nodecalls.ClientCSIDeleteRequest{})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("without a node: %v", err)
	}
}

// ABORTED reports an operation for the volume that is pending at the called controller. No other controller
// gets a call for the volume meanwhile.
func TestDuty_C1_C11_AbortedGoesToNoOtherController(t *testing.T) {
	for code, want := range map[string][]string{
		"Aborted":           {"n1"},
		"Unavailable":       {"n1", "n2"},
		"ResourceExhausted": {"n1", "n2"},
	} {
		rejected := structs.ErrorFromWire(structs.ErrorToWire(&structs.Error{
			Kind: structs.KindUnavailable,
			Code: code,
			Text: "no",
		}))
		s := &script{errors: map[string][]error{"n1": {rejected}}}
		to := Target{s, []string{"n1", "n2"}, time.Second}
		req := &nodecalls.ClientCSIValidateRequest{}
		_, err := Call(t.Context(), to, nodecalls.ClientCSIControllerValidate, req)
		if !slices.Equal(s.calls, want) || (err == nil) != (len(want) == 2) {
			t.Errorf("after %s: called %v and got %v, want %v", code, s.calls, err, want)
		}
	}
}

func TestReachable_NodesAreReady(t *testing.T) {
	for name, c := range map[string]struct {
		node *structs.Node
		want bool
	}{
		"its node is up":    {&structs.Node{Status: structs.NodeReady}, true},
		"its node is down":  {&structs.Node{Status: structs.NodeDown}, false},
		"its node is gone":  {nil, false},
		"its node comes up": {&structs.Node{Status: structs.NodeInit}, false},
	} {
		if got := Reachable(c.node); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
