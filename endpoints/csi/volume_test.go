package csi_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/csi"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/codec"
	"berth/rpc"
	statecsi "berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
)

// confirmAttach records that a volume is attached to a node.
func confirmAttach(s *endpointstest.Server, volume, node string) {
	s.T.Helper()
	endpointstest.MustPropose(s, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID:       volume,
		NodeID:         node,
		Op:             "attach",
		PublishContext: structs.Secrets{"device": "hunter2"},
	})
}

func TestDuty_D3_SecretsGoToTheNodeThatUsesThemAlone(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddAlloc("a1", "n1")
	s.AddAlloc("a2", "n2")
	put := s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	confirmAttach(s, "v", "n1")
	before, _ := codec.Encode(statecsi.Volume(s.Store.Read(), "default", "v"))

	for name, answer := range map[string]any{
		"register": put,
		"get":      endpointstest.Must(s, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v"}),
		"list":     endpointstest.Must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{}),
		"claims":   endpointstest.Must(s, structs.CSIClaimList, &structs.CSIClaimListRequest{VolumeID: "v"}),
		"alloc":    endpointstest.Must(s, structs.AllocGet, &structs.AllocGetRequest{AllocID: "a1"}),
		"node":     endpointstest.Must(s, structs.NodeGet, &structs.NodeGetRequest{NodeID: "n1"}),
	} {
		if endpointstest.CarriesSecrets(t, answer) {
			t.Errorf("%s carries secrets", name)
		}
	}
	got := s.GetVolume("v")
	if !slices.Equal(got.MountOptions.MountFlags, []string{"[REDACTED]"}) || got.MountOptions.FSType != "ext4" {
		t.Errorf("got mount options %+v, want redacted flags and ext4", got.MountOptions)
	}
	mine := endpointstest.Must(s, structs.CSIClaimGet, &structs.CSIClaimGetRequest{
		VolumeID: "v",
		AllocID:  "a1",
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
	})
	if mine.Volume.Secrets["password"] != "hunter2" || mine.Attachment.PublishContext["device"] != "hunter2" ||
		!mine.Ready || mine.Blocked != "" {
		t.Errorf("the node of the claim got %+v, want the secrets", mine)
	}
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIClaimGet, &structs.CSIClaimGetRequest{
		VolumeID: "v",
		AllocID:  "a1",
		NodeID:   "n2",
		SecretID: endpointstest.SecretOf("n2"),
	})
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIClaimGet, &structs.CSIClaimGetRequest{
		VolumeID: "v",
		AllocID:  "a1",
	})
	after, _ := codec.Encode(statecsi.Volume(s.Store.Read(), "default", "v"))
	if string(before) != string(after) {
		t.Error("a read changed the row")
	}
}

func TestVolumePut_TakesEditedAnswer(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	got := s.GetVolume("v").CSIVolume
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(&got))
	row := statecsi.Volume(s.Store.Read(), "default", "v")
	if row.Secrets["password"] != "hunter2" ||
		!slices.Equal(row.MountOptions.MountFlags, []string{"password=hunter2"}) {
		t.Errorf("got %d secrets, %d flags; the redacted values were not kept", len(row.Secrets),
			len(row.MountOptions.MountFlags))
	}
	got.ModifyIndex = 1
	endpointstest.Rejected(s, structs.KindConflict, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(&got))
}

func TestDuty_H1_AVolumeIsValidatedBeforeItIsRegistered(t *testing.T) {
	s := endpointstest.New(t)
	v := endpointstest.Volume("v")
	v.ExternalID = "ext-v"
	register := endpointstest.RegisterRequest(v)
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister,
		register) // no node runs the plugin
	n := s.AddNode("n1", "a")
	n.Answer = func(_ string, req, _ any) error {
		r := req.(*nodecalls.ClientCSIValidateRequest)
		if r.ExternalID != "ext-v" || r.Secrets["password"] != "hunter2" || len(r.Capabilities) != 1 {
			t.Errorf("got request %+v", r)
		}
		return structs.Errorf(structs.KindInvalid, "the volume has no such capability")
	}
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeRegister,
		register), "no such capability")
	if statecsi.Volume(s.Store.Read(), "default", "v") != nil {
		t.Error("a volume that the plugin does not confirm was registered")
	}
	n.Answer = nil
	endpointstest.Must(s, structs.CSIVolumeRegister, register)
}

// The caller verifies that the volume exists, because the plugin alone knows. The same request may follow.
func TestDuty_H4_AVolumeThatThePluginDoesNotFindIsNotRegistered(t *testing.T) {
	s := endpointstest.New(t)
	calls := 0
	n := s.AddNode("n1", "a")
	n.Answer = func(string, any, any) error {
		calls++
		return &structs.Error{Kind: structs.KindNotFound, Code: "NotFound", Text: "no volume ext-v"}
	}
	v := endpointstest.Volume("v")
	v.ExternalID = "ext-v"
	err := endpointstest.Rejected(s, structs.KindNotFound, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(v))
	endpointstest.WantText(t, err, "no volume ext-v")
	if calls != 1 || statecsi.Volume(s.Store.Read(), "default", "v") != nil {
		t.Errorf("%d calls; the volume is registered: %t", calls,
			statecsi.Volume(s.Store.Read(), "default", "v") != nil)
	}
	n.Answer = nil
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
}

func TestVolumeRegister_CallsTheControllerOfTheNode(t *testing.T) {
	s := endpointstest.New(t)
	asked := map[string]bool{}
	for _, id := range []string{"n1", "n2", "n3"} {
		s.AddNode(id, id).Answer = func(string, any, any) error {
			asked[id] = true
			if id == "n2" {
				return nil
			}
			return structs.Errorf(structs.KindNotFound, "no such volume here")
		}
	}
	s.AddVolume("v")
	if !asked["n2"] {
		t.Errorf("called %v, want n2 among them", asked)
	}
}

func TestVolumePut_RejectsBadVolumes(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	external := func(v *structs.CSIVolume) *structs.CSIVolume {
		v.ExternalID = "x"
		return v
	}
	for name, c := range map[string]struct {
		method structs.Method[structs.CSIVolumeRegisterRequest, structs.CSIVolumeRegisterResponse]
		given  []*structs.CSIVolume
		kind   structs.Kind
	}{
		"none": {structs.CSIVolumeRegister, nil, structs.KindInvalid},
		"nil":  {structs.CSIVolumeRegister, []*structs.CSIVolume{nil}, structs.KindInvalid},
		"no ID": {structs.CSIVolumeRegister, []*structs.CSIVolume{external(endpointstest.Volume(""))},
			structs.KindInvalid},
		"twice": {structs.CSIVolumeRegister, []*structs.CSIVolume{external(endpointstest.Volume("v")),
			external(endpointstest.Volume("v"))}, structs.KindInvalid},
		"register without external ID": {structs.CSIVolumeRegister, []*structs.CSIVolume{endpointstest.Volume("v")},
			structs.KindInvalid},
		"create with external ID": {structs.CSIVolumeCreate, []*structs.CSIVolume{external(endpointstest.Volume("v"))},
			structs.KindInvalid},
		"create without plugin": {structs.CSIVolumeCreate,
			[]*structs.CSIVolume{{
				ID: "v",
				CSIVolumeSpec: structs.CSIVolumeSpec{
					PluginID:              "other",
					RequestedCapabilities: endpointstest.Volume("v").RequestedCapabilities,
				},
			}}, structs.KindPrecondition},
		"clone without the capability": {structs.CSIVolumeCreate,
			[]*structs.CSIVolume{{
				ID: "v",
				CSIVolumeSpec: structs.CSIVolumeSpec{
					PluginID:              "pl",
					CloneID:               "w",
					RequestedCapabilities: endpointstest.Volume("v").RequestedCapabilities,
				},
			}}, structs.KindPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rpc.Call(t.Context(), s.RPC, c.method, &structs.CSIVolumeRegisterRequest{Volumes: c.given})
			if structs.KindOf(err) != c.kind {
				t.Errorf("got %v, want %s", err, c.kind)
			}
		})
	}
}

// runLeader applies an outcome to every unsettled volume, in place of the leader loop.
func runLeader(
	s *endpointstest.Server, outcome func(v *structs.CSIVolume) *structs.CSIVolumeOutcome,
) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			tx := s.Store.ReadWatched()
			for v := range statecsi.UnsettledVolumes(tx) {
				o := outcome(v)
				o.ID = v.ID
				o.Namespace = v.Namespace
				if _, err := fsm.Propose(ctx, s.Raft, fsm.VolumeOutcome, o); err != nil {
					s.T.Error(err)
				}
			}
			_ = s.Store.Wait(ctx, tx)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// created returns the outcome of a successful CreateVolume.
func created(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
	return &structs.CSIVolumeOutcome{
		Op:         "create",
		ExternalID: "made-" + v.ID,
		Capacity:   1 << 20,
	}
}

func TestDuty_F2_CreateRecordsTheNameAndWaitsForTheVolume(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	var names []string
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		names = append(names, v.Name)
		return created(v)
	})
	got := endpointstest.Must(s, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(endpointstest.Volume("my")))
	v := got.Volumes[0]
	if v.State != structs.VolumeReady || v.ExternalID != "made-my" || v.Capacity != 1<<20 ||
		got.Index < v.ModifyIndex || endpointstest.CarriesSecrets(t, got) {
		t.Errorf("got %+v", v)
	}
	again := endpointstest.Must(s, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(endpointstest.Volume("my")))
	if again.Volumes[0].Name != v.Name || again.Volumes[0].ExternalID != v.ExternalID {
		t.Errorf("a repeated request returned %+v", again.Volumes[0])
	}
	stop()
	if len(names) != 1 || !strings.HasPrefix(names[0], "my-") || len(names[0]) > 128 {
		t.Errorf("CreateVolume was called with the names %q", names)
	}
	other := endpointstest.Volume("my")
	other.Parameters = map[string]string{"size": "large"}
	endpointstest.Rejected(s, structs.KindConflict, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(other))
}

// A plugin returns the volume that it has of a name, whoever asked for that: the volume of another namespace.
func TestVolumeCreate_TheNameOfAFileIsALabel(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	endpointstest.Must(s, cluster.NamespaceApply,
		&cluster.NamespaceApplyRequest{Definition: &cluster.Namespace{Name: "b"}})
	var names []string
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		names = append(names, v.NameAtPlugin())
		return created(v)
	})
	payroll := func(id, namespace, external string) *structs.CSIVolume {
		v := endpointstest.Volume(id)
		v.Namespace = namespace
		v.Name = "payroll"
		v.ExternalName = external
		return endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(v)).Volumes[0]
	}
	first := payroll("one", "b", "")
	payroll("two", "default", "")
	payroll("three", "default", "payroll")
	again := payroll("one", "b", "")
	stop()
	if len(names) != 3 || !statecsi.IsMadeName("one", names[0]) || !statecsi.IsMadeName("two", names[1]) ||
		names[2] != "payroll" {
		t.Errorf("the names at the plugin are %q", names)
	}
	if first.Name != "payroll" || again.NameAtPlugin() != names[0] {
		t.Errorf("got %+v, then %+v", first, again)
	}
}

// A volume that could not be made keeps its name at the plugin: the plugin may have made it all the same.
func TestVolumeCreate_KeepsTheNameAtThePlugin(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	var names []string
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		names = append(names, v.NameAtPlugin())
		if len(names) > 1 {
			return created(v)
		}
		return &structs.CSIVolumeOutcome{
			Op:    "create",
			Final: true,
			Err:   &structs.OperationError{Kind: structs.KindInvalid, Message: "no such size"},
		}
	})
	v := endpointstest.Volume("v")
	v.Name = "payroll"
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeCreate, endpointstest.RegisterRequest(v))
	endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(v))
	stop()
	if len(names) != 2 || names[0] != names[1] {
		t.Errorf("the names at the plugin are %q", names)
	}
}

func TestVolumeCreate_ConcurrentRequestsCreateOnce(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	names := map[string]bool{}
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		names[v.Name] = true
		return created(v)
	})
	answers := make(chan error)
	for range 16 {
		go func() {
			_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeCreate,
				endpointstest.RegisterRequest(endpointstest.Volume("v")))
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
		t.Errorf("CreateVolume was called with %d names, want 1", len(names))
	}
}

func TestDuty_B6_GeneratedNamesArePlainAndShort(t *testing.T) {
	label := regexp.MustCompile(`^[a-z][a-z0-9-]{0,61}[a-z0-9]$`)
	for id, readable := range map[string]string{
		"v":                              "v-",
		"DB.group.data[12]":              "db-group-data-12-",
		"a\x01b\u007f":                   "a-b-",
		"7up":                            "v7up-",
		strings.Repeat("a", 25) + ".bcd": strings.Repeat("a", 25) + "-",
		strings.Repeat("ü", 200):         "v-",
		"":                               "v-",
	} {
		name := csi.VolumeName(id, structs.NewID())
		if !label.MatchString(name) || !strings.HasPrefix(name, readable) || len(name) != len(readable)+36 {
			t.Errorf("%q: %q, want %q and a UUID", id, name, readable)
		}
		if name == csi.VolumeName(id, structs.NewID()) {
			t.Errorf("%q: the name is not unique", id)
		}
	}
}

func TestVolumeCreate_ReturnsErrorOfPlugin(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		return &structs.CSIVolumeOutcome{
			Op:    "create",
			Final: true,
			Err:   &structs.OperationError{Kind: structs.KindConflict, Message: "name taken"},
		}
	})
	err := endpointstest.Rejected(s, structs.KindConflict, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(endpointstest.Volume("v")))
	if !strings.Contains(err.Error(), "name taken") || !strings.Contains(err.Error(), `"v"`) {
		t.Errorf("got %v", err)
	}
	stop()
	first := statecsi.Volume(s.Store.Read(), "default", "v").Name
	stop = runLeader(s, created)
	defer stop()
	other := endpointstest.Volume("v")
	other.Parameters = map[string]string{"other": "now"}
	got := endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(other))
	if got.Volumes[0].Name != first || got.Volumes[0].Parameters["other"] != "now" {
		t.Errorf("a request after the failure returned %+v", got.Volumes[0])
	}
}

func TestVolumeCreate_TimeoutNamesReason(t *testing.T) {
	config := endpointstest.QuickSettings()
	config.VolumeTimeout = config.HoldTimeout
	s := endpointstest.New(t, config)
	s.AddNode("n1", "a")
	create := endpointstest.RegisterRequest(endpointstest.Volume("v"))
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate, create)
	endpointstest.MustPropose(s, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:  "v",
		Op:  "create",
		Err: &structs.OperationError{Kind: structs.KindUnavailable, Message: "pool is full"},
	})
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate,
		create), "pool is full")
}

func TestVolumeCreate_Expands(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	rejection := (*structs.OperationError)(nil)
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		if v.State == structs.VolumeCreating {
			return created(v)
		}
		return &structs.CSIVolumeOutcome{
			Op:       "expand",
			Capacity: v.RequestedCapacityMin,
			Err:      rejection,
			Final:    rejection != nil,
		}
	})
	defer stop()
	v := endpointstest.Volume("v")
	endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(v))
	v.RequestedCapacityMin = 2 << 20
	got := endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(v))
	if got.Volumes[0].Capacity != 2<<20 || got.Volumes[0].ExpandPending {
		t.Errorf("got %+v", got.Volumes[0])
	}
	rejection = &structs.OperationError{Kind: structs.KindInvalid, Message: "too large"}
	v.RequestedCapacityMin = 4 << 20
	err := endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(v))
	endpointstest.WantText(t, err, "too large")
}

func TestVolumeDelete_WaitsUntilGone(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	remove := &structs.CSIVolumeDeleteRequest{ID: "v"}
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDelete, remove) // in use
	release := &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Claims:   []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}},
	}
	endpointstest.Must(s, structs.CSIVolumeUnpublish, release)
	endpointstest.Must(s, structs.CSIVolumeUnpublish, release) // done already
	endpointstest.MustPropose(s, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID: "v",
		NodeID:   "n1",
		Op:       "detach",
	})
	answer := &structs.CSIVolumeOutcome{
		Op:    "delete",
		Final: true,
		Err:   &structs.OperationError{Kind: structs.KindPrecondition, Message: "it has snapshots"},
	}
	stop := runLeader(s, func(*structs.CSIVolume) *structs.CSIVolumeOutcome { return answer })
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDelete,
		remove), "snapshots")
	stop()
	stop = runLeader(s, func(*structs.CSIVolume) *structs.CSIVolumeOutcome {
		return &structs.CSIVolumeOutcome{Op: "delete"}
	})
	defer stop()
	endpointstest.Must(s, structs.CSIVolumeDelete, remove)
	endpointstest.Rejected(s, structs.KindNotFound, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v"})
	endpointstest.Rejected(s, structs.KindNotFound, structs.CSIVolumeDelete, remove)
}

func TestVolumePut_RejectsRedactedFlags(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	v := endpointstest.Volume("v")
	v.MountOptions.MountFlags = []string{"[REDACTED]"}
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeCreate, endpointstest.RegisterRequest(v))
	v.ExternalID = "x"
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
}

func TestVolumeCreate_RejectsIncapablePlugin(t *testing.T) {
	s := endpointstest.New(t)
	half := &structs.CSIPluginInstance{
		Kind:   structs.CSIKindNode,
		NodeID: "n1",
		CSIInfo: structs.CSIInfo{
			PluginID: "pl",
			Healthy:  true,
			NodeInfo: &structs.CSINodeInfo{ID: "x"},
		},
	}
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       "n1",
			SecretID: "s",
			Name:     "n",
		},
		CSI: []*structs.CSIPluginInstance{half},
	})
	create := endpointstest.RegisterRequest(endpointstest.Volume("new"))
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeCreate,
		create), "has no controller")
	s.AddVolume("v") // there is no controller to validate it
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDelete,
		&structs.CSIVolumeDeleteRequest{ID: "v"})
	endpointstest.WantText(t, err, "deregister it")
	endpointstest.Must(s, structs.CSIVolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v"})

	noCapabilities := &structs.CSIPluginInstance{
		Kind:   structs.CSIKindController,
		NodeID: "n2",
		CSIInfo: structs.CSIInfo{
			PluginID:                 "pl",
			Healthy:                  true,
			RequiresControllerPlugin: true,
			ControllerInfo:           &structs.CSIControllerInfo{},
		},
	}
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{
		CSI: []*structs.CSIPluginInstance{noCapabilities},
		Node: &structs.Node{
			ID:       "n2",
			SecretID: "s",
			Name:     "n",
			Status:   structs.NodeReady,
		},
	})
	s.Nodes.Bind("n2", &endpointstest.FakeNode{Ended: make(chan struct{})})
	v := s.AddVolume("v")
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeCreate, create)
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDelete,
		&structs.CSIVolumeDeleteRequest{ID: "v"})
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeExternal,
		&structs.CSIVolumeExternalRequest{PluginID: "pl"})
	v.RequestedCapacityMin = 1 << 30
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(v))
}

func TestVolumeRegister_RejectsVolumeInCreation(t *testing.T) {
	config := endpointstest.QuickSettings()
	config.VolumeTimeout = config.HoldTimeout
	s := endpointstest.New(t, config)
	s.AddNode("n1", "a")
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(endpointstest.Volume("v")))
	v := endpointstest.Volume("v")
	v.ExternalID = "x"
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(v))
}
