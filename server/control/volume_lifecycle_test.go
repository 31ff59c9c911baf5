package control

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/core"
	"berth/internal/agenttest"
	"berth/internal/level"
	"berth/rpc"
	"berth/server/nodeconn"
	statecsi "berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
	"berth/test/oneserver"
)

// soleServer makes a log the Raft of a cluster of one server.
type soleServer struct{ *oneserver.Log }

func (a soleServer) Leader() (string, bool, bool, time.Duration) {
	return "me", true, true, 0
}
func (a soleServer) Alone() bool                     { return true }
func (a soleServer) LostLeadership() <-chan struct{} { return nil }
func (a soleServer) VerifyLeader() error             { return nil }
func (a soleServer) Leads(string) context.Context    { return context.Background() }
func (a soleServer) RemovePeer(string, string) (uint64, error) {
	return 0, nil
}
func (a soleServer) TransferLeadership(context.Context, string, string) error {
	return nil
}
func (a soleServer) Configuration() []*cluster.RaftServer { return nil }
func (a soleServer) Servers() []string                    { return []string{"me"} }
func (a soleServer) Forward(context.Context, string, string, any, any) error {
	return nil
}

// plugin answers the calls that a server makes of a node with a CSI plugin, and notes them.
type plugin struct {
	mu    sync.Mutex
	calls []string
}

func (p *plugin) note(call string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
}

func (p *plugin) serve() *rpc.Server {
	return rpc.NewServer(hclog.NewNullLogger(),
		rpc.Handle(nodecalls.ClientCSIControllerCreate,
			func(_ context.Context, r *nodecalls.ClientCSICreateRequest) (*nodecalls.ClientCSICreateResponse, error) {
				p.note("create")
				return &nodecalls.ClientCSICreateResponse{ExternalID: "x-" + r.Name, Capacity: r.Capacity.RequiredBytes},
					nil
			}),
		rpc.Handle(nodecalls.ClientCSIControllerAttach,
			func(_ context.Context, r *nodecalls.ClientCSIAttachRequest) (*nodecalls.ClientCSIAttachResponse, error) {
				p.note("attach " + r.ExternalNodeID)
				return &nodecalls.ClientCSIAttachResponse{PublishContext: structs.Secrets{"device": "/dev/x"}}, nil
			}),
		rpc.Handle(nodecalls.ClientCSIControllerDetach,
			func(_ context.Context, r *nodecalls.ClientCSIDetachRequest) (*structs.Empty, error) {
				p.note("detach " + r.ExternalNodeID)
				return &structs.Empty{}, nil
			}),
		rpc.Handle(nodecalls.ClientCSIControllerDelete,
			func(context.Context, *nodecalls.ClientCSIDeleteRequest) (*structs.Empty, error) {
				p.note("delete")
				return &structs.Empty{}, nil
			}),
	)
}

// TestLoops_TakeAJobFromPlacementToDeletedVolume goes the whole way with real connections and the real
// scheduler: a node registers, a volume is created, a job is placed, its volume attached, used, released and
// deleted.
func TestLoops_TakeAJobFromPlacementToDeletedVolume(t *testing.T) {
	w := newTestEnv(t)
	nodes := nodeconn.NewSessions(nil)
	w.Nodes = nodes
	e := endpoints.New(core.Deps{
		Store:  w.Store,
		Raft:   soleServer{w.log},
		Leases: w.Leases,
		Nodes:  nodes,
		Logger: hclog.NewNullLogger(),
		Level:  func() int { return level.Now },
	})
	srv := rpc.NewServer(hclog.NewNullLogger(), e.List()...)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stopListening := start(rpc.NewListener(ln, hclog.NewNullLogger(),
		map[byte]func(net.Conn){rpc.ByteMux: srv.ServeMux}).Run)
	t.Cleanup(func() { srv.Close(); stopListening() })
	for _, l := range Loops(w.Deps) {
		t.Cleanup(start(l.Run))
	}
	csi := &plugin{}
	node := csi.serve()
	pool := rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), node)
	t.Cleanup(func() { pool.Close(); node.Close() })
	c := pool.At(ln.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)

	info := structs.CSIInfo{PluginID: "pl", Healthy: true, RequiresControllerPlugin: true}
	controller, half := &structs.CSIPluginInstance{
		Kind:    structs.CSIKindController,
		NodeID:  "n1",
		CSIInfo: info,
	},
		&structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: "n1", CSIInfo: info}
	controller.ControllerInfo = &structs.CSIControllerInfo{
		SupportsCreateDelete: true,
		SupportsAttachDetach: true,
	}
	half.NodeInfo = &structs.CSINodeInfo{ID: "ext-n1"}
	call(t, ctx, c, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       "n1",
			SecretID: "s",
			Name:     "n1",
			Status:   structs.NodeReady,
			Drivers:  map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
			NodeResources: &structs.NodeResources{
				CPU:    structs.NodeCPUResources{CpuShares: 4000},
				Memory: structs.NodeMemoryResources{MemoryMB: 4000},
				Disk:   structs.NodeDiskResources{DiskMB: 4000},
			},
		},
		CSI: []*structs.CSIPluginInstance{controller, half}})

	capability := &structs.CSIVolumeCapability{
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}
	made := call(t, ctx, c, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{
			{
				ID: "v",
				CSIVolumeSpec: structs.CSIVolumeSpec{
					PluginID:              "pl",
					Name:                  "v",
					RequestedCapacityMin:  1 << 20,
					RequestedCapabilities: []*structs.CSIVolumeCapability{capability},
				},
			}}})
	if v := made.Volumes[0]; v.State != structs.VolumeReady || v.ExternalID != "x-"+v.ExternalName {
		t.Fatalf("created %+v", v)
	}

	registered := call(t, ctx, c, structs.JobRegister,
		&structs.JobRegisterRequest{Job: &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{
			{
				Name:  "g",
				Count: 1,
				Tasks: []*structs.Task{{
					Name:   "t",
					Driver: "exec",
					Config: map[string]any{"command": "true"},
				}},
				Volumes: map[string]*structs.VolumeRequest{"data": {
					Type:           "csi",
					Source:         "v",
					AccessMode:     capability.AccessMode,
					AttachmentMode: capability.AttachmentMode,
				}},
			}}}})
	if registered.Warnings != "" {
		t.Errorf("warnings %q", registered.Warnings)
	}
	ask := &structs.NodeGetRequest{NodeID: "n1", SecretID: "s"}
	ask.MinIndex = 1
	allocs := call(t, ctx, c, structs.NodeClientAllocs, ask)
	var alloc string
	for alloc = range allocs.Allocs {
	}

	own := structs.CSIVolumeClaimRequest{
		NodeID:   "n1",
		SecretID: "s",
		Claims: []*structs.CSIClaim{
			{
				VolumeID:       "v",
				AllocID:        alloc,
				Mode:           structs.ClaimWrite,
				AccessMode:     capability.AccessMode,
				AttachmentMode: capability.AttachmentMode,
			}},
	}
	if got := call(t, ctx, c, structs.CSIVolumeClaim, &own).Claims[0]; got.State != structs.ClaimGranted {
		t.Fatalf("the claim is %s: %s", got.State, got.Reason)
	}
	get := &structs.CSIClaimGetRequest{
		VolumeID: "v",
		AllocID:  alloc,
		NodeID:   "n1",
		SecretID: "s",
	}
	claim := call(t, ctx, c, structs.CSIClaimGet, get)
	for !claim.Ready {
		get.MinIndex = claim.Index
		claim = call(t, ctx, c, structs.CSIClaimGet, get)
	}
	if claim.Attachment.PublishContext["device"] != "/dev/x" {
		t.Errorf("publish context %d keys", len(claim.Attachment.PublishContext))
	}

	call(t, ctx, c, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: "j"})
	call(t, ctx, c, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   "n1",
		SecretID: "s",
		Allocs:   []*structs.AllocClientUpdate{{ID: alloc, ClientStatus: structs.AllocComplete}},
	})
	call(t, ctx, c, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n1",
		SecretID: "s",
		Claims: []structs.CSIClaimKey{{
			Namespace: "default",
			VolumeID:  "v",
			AllocID:   alloc,
		}},
	})
	for tx := w.Store.ReadWatched(); statecsi.Attachment(tx, "default", "v",
		"n1") != nil; tx = w.Store.ReadWatched() {
		if err := w.Store.Wait(ctx, tx); err != nil {
			t.Fatal(err)
		}
	}
	call(t, ctx, c, structs.CSIVolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
	csi.mu.Lock()
	defer csi.mu.Unlock()
	if want := []string{"create", "attach ext-n1", "detach ext-n1", "delete"}; !slices.Equal(csi.calls, want) {
		t.Errorf("plugin calls %v, want %v", csi.calls, want)
	}
	w.check()
}

func call[Req, Resp any](t *testing.T, ctx context.Context, c rpc.Caller, m structs.Method[Req, Resp],
	req *Req) *Resp {
	t.Helper()
	agenttest.Stamp(req)
	resp, err := rpc.Call(ctx, c, m, req)
	if err != nil {
		t.Fatalf("%s: %v (%s)", m.Name, err, structs.KindOf(err))
	}
	return resp
}
