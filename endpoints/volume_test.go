package endpoints

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"berth/fsm"
	"berth/internal/codec"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

// carriesSecrets looks for the fixtures' secrets in an answer as it goes over the wire.
func carriesSecrets(t *testing.T, answer any) bool {
	t.Helper()
	wire, err := codec.Encode(answer)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(wire)+string(text), "hunter2")
}

// attached has the attachment of a volume to a node succeed.
func (s *server) attached(volume, node string) {
	s.t.Helper()
	proposed(s, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{VolumeID: volume, NodeID: node,
		Op:             "attach",
		PublishContext: structs.Secrets{"device": "hunter2"}})
}

func TestDuty_D3_SecretsGoToTheNodeThatUsesThemAlone(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.addNode("n2", "a")
	s.addAlloc("a1", "n1")
	s.addAlloc("a2", "n2")
	put := s.addVolume("v")
	s.claim("v", "a1", "n1")
	s.attached("v", "n1")
	before, _ := codec.Encode(state.Volume(s.store.Read(), "default", "v"))

	for name, answer := range map[string]any{
		"register": put,
		"get":      must(s, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v"}),
		"list":     must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{}),
		"claims":   must(s, structs.CSIClaimList, &structs.CSIClaimListRequest{VolumeID: "v"}),
		"alloc":    must(s, structs.AllocGet, &structs.AllocGetRequest{AllocID: "a1"}),
		"node":     must(s, structs.NodeGet, &structs.NodeGetRequest{NodeID: "n1"}),
	} {
		if carriesSecrets(t, answer) {
			t.Errorf("%s carries secrets", name)
		}
	}
	got := must(s, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v"}).Volume
	if !slices.Equal(got.MountOptions.MountFlags, []string{"[REDACTED]"}) || got.MountOptions.FSType != "ext4" {
		t.Errorf("mount options show as %+v", got.MountOptions)
	}
	mine := must(s, structs.CSIClaimGet, &structs.CSIClaimGetRequest{VolumeID: "v", AllocID: "a1", NodeID: "n1",
		SecretID: secretOf("n1")})
	if mine.Volume.Secrets["password"] != "hunter2" || mine.Attachment.PublishContext["device"] != "hunter2" ||
		!mine.Ready || mine.Blocked != "" {
		t.Errorf("the node that needs them does not get them: %+v", mine)
	}
	refused(s, structs.KindDenied, structs.CSIClaimGet, &structs.CSIClaimGetRequest{VolumeID: "v", AllocID: "a1",
		NodeID: "n2", SecretID: secretOf("n2")})
	refused(s, structs.KindDenied, structs.CSIClaimGet, &structs.CSIClaimGetRequest{VolumeID: "v",
		AllocID: "a1"})
	if after, _ := codec.Encode(state.Volume(s.store.Read(), "default", "v")); string(before) != string(after) {
		t.Error("reading changed the row")
	}
}

func TestVolumePut_TakesEditedAnswer(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.addVolume("v")
	got := must(s, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v"}).Volume.CSIVolume
	must(s, structs.CSIVolumeRegister, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{&got}})
	row := state.Volume(s.store.Read(), "default", "v")
	if row.Secrets["password"] != "hunter2" ||
		!slices.Equal(row.MountOptions.MountFlags, []string{"password=hunter2"}) {
		t.Errorf("secrets %d, flags %d: what was not shown was lost", len(row.Secrets),
			len(row.MountOptions.MountFlags))
	}
	got.ModifyIndex = 1
	refused(s, structs.KindConflict, structs.CSIVolumeRegister,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{&got}})
}

func TestDuty_H1_AVolumeIsValidatedBeforeItIsRegistered(t *testing.T) {
	s := newServer(t)
	v := aVolume("v")
	v.ExternalID = "ext-v"
	register := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
	refused(s, structs.KindPrecondition, structs.CSIVolumeRegister, register) // no node runs the plugin
	n := s.addNode("n1", "a")
	n.answer = func(_ string, req, _ any) error {
		r := req.(*structs.ClientCSIValidateRequest)
		if r.ExternalID != "ext-v" || r.Secrets["password"] != "hunter2" || len(r.Capabilities) != 1 {
			t.Errorf("asked with %+v", r)
		}
		return structs.Errorf(structs.KindInvalid, "this volume is a banana")
	}
	if err := refused(s, structs.KindInvalid, structs.CSIVolumeRegister,
		register); !strings.Contains(err.Error(), "banana") {
		t.Errorf("the plugin's words are lost: %v", err)
	}
	if state.Volume(s.store.Read(), "default", "v") != nil {
		t.Error("a volume that the plugin does not confirm was registered")
	}
	n.answer = nil
	must(s, structs.CSIVolumeRegister, register)
}

func TestVolumeRegister_CallsTheControllerOfTheNode(t *testing.T) {
	s := newServer(t)
	asked := map[string]bool{}
	for _, id := range []string{"n1", "n2", "n3"} {
		s.addNode(id, id).answer = func(string, any, any) error {
			asked[id] = true
			if id == "n2" {
				return nil
			}
			return structs.Errorf(structs.KindNotFound, "no such volume here")
		}
	}
	s.addVolume("v")
	if !asked["n2"] {
		t.Errorf("asked %v", asked)
	}
}

func TestVolumePut_RefusesBadVolumes(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	external := func(v *structs.CSIVolume) *structs.CSIVolume { v.ExternalID = "x"; return v }
	for name, c := range map[string]struct {
		method structs.Method[structs.CSIVolumeRegisterRequest, structs.CSIVolumeRegisterResponse]
		given  []*structs.CSIVolume
		kind   structs.Kind
	}{
		"none": {structs.CSIVolumeRegister, nil, structs.KindInvalid},
		"nil":  {structs.CSIVolumeRegister, []*structs.CSIVolume{nil}, structs.KindInvalid},
		"no ID": {structs.CSIVolumeRegister, []*structs.CSIVolume{external(aVolume(""))},
			structs.KindInvalid},
		"twice": {structs.CSIVolumeRegister, []*structs.CSIVolume{external(aVolume("v")),
			external(aVolume("v"))}, structs.KindInvalid},
		"register what is not": {structs.CSIVolumeRegister, []*structs.CSIVolume{aVolume("v")},
			structs.KindInvalid},
		"create what is": {structs.CSIVolumeCreate, []*structs.CSIVolume{external(aVolume("v"))},
			structs.KindInvalid},
		"create without plugin": {structs.CSIVolumeCreate,
			[]*structs.CSIVolume{{ID: "v", PluginID: "other",
				RequestedCapabilities: aVolume("v").RequestedCapabilities}}, structs.KindPrecondition},
		"clone, which it cannot": {structs.CSIVolumeCreate,
			[]*structs.CSIVolume{{ID: "v", PluginID: "pl", CloneID: "w",
				RequestedCapabilities: aVolume("v").RequestedCapabilities}}, structs.KindPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rpc.Call(t.Context(), s.rpc, c.method, &structs.CSIVolumeRegisterRequest{Volumes: c.given})
			if structs.KindOf(err) != c.kind {
				t.Errorf("got %v, want %s", err, c.kind)
			}
		})
	}
}

// leader applies an outcome to every unsettled volume, in place of the leader loop.
func (s *server) leader(outcome func(v *structs.CSIVolume) *structs.CSIVolumeOutcome) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			tx := s.store.ReadWatched()
			for v := range state.UnsettledVolumes(tx) {
				o := outcome(v)
				o.ID = v.ID
				if _, err := fsm.Propose(ctx, s.raft, fsm.VolumeOutcome, o); err != nil {
					s.t.Error(err)
				}
			}
			_ = s.store.Wait(ctx, tx)
		}
	}()
	return func() { cancel(); <-ended }
}

func made(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
	return &structs.CSIVolumeOutcome{Op: "create", ExternalID: "made-" + v.ID, Capacity: 1 << 20}
}

func TestDuty_F2_CreateRecordsTheNameAndWaitsForTheVolume(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	var names []string
	stop := s.leader(func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		names = append(names, v.Name)
		return made(v)
	})
	got := must(s, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{aVolume("my volume"[:2])}})
	v := got.Volumes[0]
	if v.State != structs.VolumeReady || v.ExternalID != "made-my" || v.Capacity != 1<<20 ||
		got.Index < v.ModifyIndex || carriesSecrets(t, got) {
		t.Errorf("got %+v", v)
	}
	again := must(s, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{aVolume("my")}})
	if again.Volumes[0].Name != v.Name || again.Volumes[0].ExternalID != v.ExternalID {
		t.Errorf("created again as %+v", again.Volumes[0])
	}
	stop()
	if len(names) != 1 || !strings.HasPrefix(names[0], "my-") || len(names[0]) > 128 {
		t.Errorf("the plugin was asked for %q", names)
	}
	other := aVolume("my")
	other.Parameters = map[string]string{"size": "large"}
	refused(s, structs.KindConflict, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{other}})
}

func TestVolumeCreate_ConcurrentRequestsCreateOnce(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	names := map[string]bool{}
	stop := s.leader(func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		names[v.Name] = true
		return made(v)
	})
	answers := make(chan error)
	for range 16 {
		go func() {
			_, err := rpc.Call(t.Context(), s.rpc, structs.CSIVolumeCreate,
				&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{aVolume("v")}})
			answers <- err
		}()
	}
	for range 16 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	stop()
	if len(names) != 1 {
		t.Errorf("the plugin was asked for %d names: each is a volume", len(names))
	}
}

func TestDuty_B6_GeneratedNamesArePlainAndShort(t *testing.T) {
	for _, id := range []string{"v", "a\x01b\u007f", strings.Repeat("ü", 200), ""} {
		name := volumeName(id)
		if len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r >= 0x7f }) {
			t.Errorf("%q: %q", id, name)
		}
		if name == volumeName(id) {
			t.Errorf("%q: the name is not unique", id)
		}
	}
}

func TestVolumeCreate_ReturnsErrorOfPlugin(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	stop := s.leader(func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		return &structs.CSIVolumeOutcome{Op: "create", Final: true,
			Err: &structs.OperationError{Kind: structs.KindConflict, Message: "name taken"}}
	})
	err := refused(s, structs.KindConflict, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{aVolume("v")}})
	if !strings.Contains(err.Error(), "name taken") || !strings.Contains(err.Error(), `"v"`) {
		t.Errorf("got %v", err)
	}
	stop()
	first := state.Volume(s.store.Read(), "default", "v").Name
	stop = s.leader(made)
	defer stop()
	other := aVolume("v")
	other.Parameters = map[string]string{"other": "now"}
	got := must(s, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{other}})
	if got.Volumes[0].Name != first || got.Volumes[0].Parameters["other"] != "now" {
		t.Errorf("created again as %+v", got.Volumes[0])
	}
}

func TestVolumeCreate_TimeoutNamesReason(t *testing.T) {
	config := quick()
	config.volumeTimeout = config.holdTimeout
	s := newServer(t, config)
	s.addNode("n1", "a")
	create := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{aVolume("v")}}
	refused(s, structs.KindTimeout, structs.CSIVolumeCreate, create)
	proposed(s, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{ID: "v", Op: "create",
		Err: &structs.OperationError{Kind: structs.KindUnavailable, Message: "pool is full"}})
	if err := refused(s, structs.KindTimeout, structs.CSIVolumeCreate, create); !strings.Contains(err.Error(),
		"pool is full") {
		t.Errorf("got %v", err)
	}
}

func TestVolumeCreate_Expands(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	refusal := (*structs.OperationError)(nil)
	stop := s.leader(func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		if v.State == structs.VolumeCreating {
			return made(v)
		}
		return &structs.CSIVolumeOutcome{Op: "expand", Capacity: v.RequestedCapacityMin, Err: refusal,
			Final: refusal != nil}
	})
	defer stop()
	v := aVolume("v")
	must(s, structs.CSIVolumeCreate, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
	v.RequestedCapacityMin = 2 << 20
	got := must(s, structs.CSIVolumeCreate, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
	if got.Volumes[0].Capacity != 2<<20 || got.Volumes[0].ExpandPending {
		t.Errorf("got %+v", got.Volumes[0])
	}
	refusal = &structs.OperationError{Kind: structs.KindInvalid, Message: "too large"}
	v.RequestedCapacityMin = 4 << 20
	if err := refused(s, structs.KindInvalid, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}); !strings.Contains(err.Error(),
		"too large") {
		t.Errorf("got %v", err)
	}
}

func TestVolumeDelete_WaitsUntilGone(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.addAlloc("a1", "n1")
	s.addVolume("v")
	s.claim("v", "a1", "n1")
	remove := &structs.CSIVolumeDeleteRequest{ID: "v"}
	refused(s, structs.KindPrecondition, structs.CSIVolumeDelete, remove) // in use
	release := &structs.CSIVolumeUnpublishRequest{NodeID: "n1", SecretID: secretOf("n1"),
		Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}}}
	must(s, structs.CSIVolumeUnpublish, release)
	must(s, structs.CSIVolumeUnpublish, release) // done already
	proposed(s, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{VolumeID: "v", NodeID: "n1", Op: "detach"})
	answer := &structs.CSIVolumeOutcome{Op: "delete", Final: true,
		Err: &structs.OperationError{Kind: structs.KindPrecondition, Message: "it has snapshots"}}
	stop := s.leader(func(*structs.CSIVolume) *structs.CSIVolumeOutcome { return answer })
	if err := refused(s, structs.KindPrecondition, structs.CSIVolumeDelete,
		remove); !strings.Contains(err.Error(), "snapshots") {
		t.Errorf("got %v", err)
	}
	stop()
	stop = s.leader(func(*structs.CSIVolume) *structs.CSIVolumeOutcome {
		return &structs.CSIVolumeOutcome{Op: "delete"}
	})
	defer stop()
	must(s, structs.CSIVolumeDelete, remove)
	refused(s, structs.KindNotFound, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v"})
	refused(s, structs.KindNotFound, structs.CSIVolumeDelete, remove)
}

func TestVolumePut_RefusesRedactedFlags(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	v := aVolume("v")
	v.MountOptions.MountFlags = []string{"[REDACTED]"}
	refused(s, structs.KindInvalid, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
	v.ExternalID = "x"
	refused(s, structs.KindInvalid, structs.CSIVolumeRegister,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
}

func TestVolumeCreate_RefusesIncapablePlugin(t *testing.T) {
	s := newServer(t)
	half := &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: "n1",
		CSIInfo: structs.CSIInfo{PluginID: "pl", Healthy: true, NodeInfo: &structs.CSINodeInfo{ID: "x"}}}
	must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: &structs.Node{ID: "n1", SecretID: "s",
		Name: "n"}, CSI: []*structs.CSIPluginInstance{half}})
	create := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{aVolume("new")}}
	if err := refused(s, structs.KindPrecondition, structs.CSIVolumeCreate,
		create); !strings.Contains(err.Error(), "has no controller") {
		t.Errorf("got %v", err)
	}
	s.addVolume("v") // there is no controller to validate it
	if err := refused(s, structs.KindPrecondition, structs.CSIVolumeDelete,
		&structs.CSIVolumeDeleteRequest{ID: "v"}); !strings.Contains(err.Error(), "deregister it") {
		t.Errorf("got %v", err)
	}
	must(s, structs.CSIVolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v"})

	lame := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: "n2",
		CSIInfo: structs.CSIInfo{PluginID: "pl", Healthy: true,
			RequiresControllerPlugin: true, ControllerInfo: &structs.CSIControllerInfo{}}}
	must(s, structs.NodeRegister, &structs.NodeRegisterRequest{CSI: []*structs.CSIPluginInstance{lame},
		Node: &structs.Node{ID: "n2", SecretID: "s", Name: "n", Status: structs.NodeReady}})
	s.nodes.Bind("n2", &fakeNode{done: make(chan struct{})})
	v := s.addVolume("v")
	refused(s, structs.KindPrecondition, structs.CSIVolumeCreate, create)
	refused(s, structs.KindPrecondition, structs.CSIVolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
	refused(s, structs.KindPrecondition, structs.CSIVolumeExternal,
		&structs.CSIVolumeExternalRequest{PluginID: "pl"})
	v.RequestedCapacityMin = 1 << 30
	refused(s, structs.KindPrecondition, structs.CSIVolumeRegister,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
}

func TestVolumeRegister_RefusesVolumeInCreation(t *testing.T) {
	config := quick()
	config.volumeTimeout = config.holdTimeout
	s := newServer(t, config)
	s.addNode("n1", "a")
	refused(s, structs.KindTimeout, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{aVolume("v")}})
	v := aVolume("v")
	v.ExternalID = "x"
	refused(s, structs.KindPrecondition, structs.CSIVolumeRegister,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
}
