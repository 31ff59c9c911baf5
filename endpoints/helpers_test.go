package endpoints

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/internal/admission"
	"berth/internal/level"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRaft is a cluster of one server: it applies a proposal at once.
type fakeRaft struct {
	mu       sync.Mutex
	fsm      *fsm.FSM
	index    uint64
	entries  int
	largest  int // bytes of an entry
	log      bytes.Buffer
	leader   string
	isMe     bool
	verify   error
	verifies func() error // if set, it answers in place of verify
	lost     chan struct{}
	watched  func() // called for each watch of lost
	proposed error
	hold     chan struct{} // if set, proposals wait until it is closed
	forwards []string
	leads    context.Context
	frozen   bool // a forwarded call waits for its end
	forward  func(method string, req, resp any) error
}

func (r *fakeRaft) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *fakeRaft) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	r.mu.Lock()
	if hold := r.hold; hold != nil {
		r.mu.Unlock()
		<-hold
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	if r.proposed != nil {
		return 0, nil, r.proposed
	}
	r.index++
	r.entries++
	r.largest = max(r.largest, len(entry))
	r.log.Write(entry)
	return r.index, r.fsm.Apply(&raft.Log{
		Index: r.index,
		Type:  raft.LogCommand,
		Data:  entry,
	}), nil
}

func (r *fakeRaft) Leader() (string, bool, bool, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader, r.isMe, r.leader != "", time.Second
}

func (r *fakeRaft) VerifyLeader() error {
	if r.verifies != nil {
		return r.verifies()
	}
	return r.verify
}
func (r *fakeRaft) Alone() bool       { return r.isMe && r.verify == nil }
func (r *fakeRaft) Servers() []string { return []string{r.leader} }
func (r *fakeRaft) LostLeadership() <-chan struct{} {
	if r.watched != nil {
		r.watched()
	}
	return r.lost
}

func (r *fakeRaft) Configuration() []*structs.RaftServer {
	return []*structs.RaftServer{{ID: "s1", Address: r.leader, Leader: true, Voter: true}}
}

func (r *fakeRaft) Leads(string) context.Context {
	if r.leads != nil {
		return r.leads
	}
	return context.Background()
}
func (r *fakeRaft) RemovePeer(string, string) (uint64, error) { return 7, nil }
func (r *fakeRaft) TransferLeadership(context.Context, string, string) error {
	return nil
}

func (r *fakeRaft) Forward(ctx context.Context, addr, method string, req, resp any) error {
	r.mu.Lock()
	r.forwards = append(r.forwards, addr+" "+method)
	r.mu.Unlock()
	if r.frozen {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.forward(method, req, resp)
}

func (r *fakeRaft) written() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries
}

type fakeLeases struct {
	mu      sync.Mutex
	renewed []string
	// extended has the node and the length of each longer lease.
	extended []string
	second   *structs.SecondAgent
	notYet   int    // how often the server has not begun to lead yet
	granting func() // called before each lease is granted
}

func (l *fakeLeases) Admit(row *structs.Node, hasVolumes bool, agent *structs.AgentProof) error {
	return admission.Check(admission.Node{Row: row, HasVolumes: hasVolumes}, agent)
}

func (l *fakeLeases) NoteSecond(_ string, _ *structs.AgentProof, s structs.SecondAgent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.second = &s
}

func (l *fakeLeases) Second(string) *structs.SecondAgent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.second
}

func (l *fakeLeases) Forget(string) {}

func (l *fakeLeases) Renew(id string, _ *structs.AgentProof) (structs.LeaseGrant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notYet > 0 {
		l.notYet--
		return structs.LeaseGrant{}, structs.NotServedf("not yet")
	}
	if l.granting != nil {
		l.granting()
	}
	l.renewed = append(l.renewed, id)
	return structs.LeaseGrant{HeartbeatTTL: 10 * time.Second, LeaseTerm: 1}, nil
}

func (l *fakeLeases) Length(ordered time.Duration) (time.Duration, error) {
	if ordered > time.Hour {
		return 0, structs.Invalidf("too long")
	}
	return ordered + time.Second, nil
}

func (l *fakeLeases) Extend(id string, length time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extended = append(l.extended, id+" "+length.String())
	return nil
}

// fakeNode answers the calls that servers make.
type fakeNode struct {
	mu     sync.Mutex
	calls  []string
	answer func(method string, req, resp any) error
	done   chan struct{}
}

func (n *fakeNode) Call(_ context.Context, method string, req, resp any) error {
	n.mu.Lock()
	n.calls = append(n.calls, method)
	answer := n.answer
	n.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(method, req, resp)
}
func (n *fakeNode) Done() <-chan struct{} { return n.done }
func (n *fakeNode) RemoteAddr() net.Addr  { return &net.TCPAddr{} }

func (n *fakeNode) called() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.calls...)
}

// server is one server with its procedures.
type server struct {
	*Endpoints
	t      testing.TB
	raft   *fakeRaft
	leases *fakeLeases
	rpc    *rpc.Server
	clock  time.Time
	// overSocket makes must and rejected call over the operator socket.
	overSocket bool
}

// testJobSource bounds the sources of jobs in tests.
const testJobSource = 1_000_000

func newServer(t testing.TB, config ...core.Settings) *server {
	t.Helper()
	store := state.New()
	s := &server{
		t:      t,
		leases: &fakeLeases{},
		clock:  time.Unix(1_000_000, 0),
	}
	s.raft = &fakeRaft{
		fsm:    fsm.New(store),
		leader: "s1:4747",
		isMe:   true,
		index:  100,
	}
	d := core.Deps{
		Store:          store,
		Raft:           s.raft,
		Leases:         s.leases,
		Autopilot:      fakeAutopilot{},
		Nodes:          nodeconn.NewSessions(),
		Logger:         hclog.NewNullLogger(),
		Level:          func() int { return level.Now },
		Now:            func() time.Time { return s.clock },
		JobSource:      testJobSource,
		CollectGarbage: func(context.Context, fsm.Proposer) (uint64, error) { return 0, nil },
	}
	c := core.DefaultSettings()
	if len(config) > 0 {
		c = config[0]
	}
	s.Endpoints = NewWith(d, c)
	s.rpc = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.rpc.Close)
	return s
}

// callContext returns the context of a request: over the operator socket, or over a port.
func (s *server) callContext() context.Context {
	if s.overSocket {
		return opsocket.Mark(s.t.Context())
	}
	return s.t.Context()
}

// must calls a method and fails the test when it fails.
func must[Req, Resp any](s *server, m structs.Method[Req, Resp], req *Req) *Resp {
	s.t.Helper()
	resp, err := rpc.Call(s.callContext(), s.rpc, m, req)
	if err != nil {
		s.t.Fatalf("%s: %v (%s)", m.Name, err, structs.KindOf(err))
	}
	return resp
}

// rejected calls a method and fails the test unless it fails with the kind.
func rejected[Req, Resp any](s *server, kind structs.Kind, m structs.Method[Req, Resp], req *Req) error {
	s.t.Helper()
	_, err := rpc.Call(s.callContext(), s.rpc, m, req)
	if !structs.IsKind(err, kind) {
		s.t.Fatalf("%s: got %v (%s), want %s", m.Name, err, structs.KindOf(err), kind)
	}
	return err
}

func mustPropose[P any](s *server, c fsm.Command[P], p *P) {
	s.t.Helper()
	if _, err := fsm.Propose(s.t.Context(), s.raft, c, p); err != nil {
		s.t.Fatalf("%s: %v", c.Name, err)
	}
}

func secretOf(node string) string { return node + "-secret" }

// addNode registers a ready node that runs both halves of the plugin "pl" in the zone.
func (s *server) addNode(id, zone string) *fakeNode {
	s.t.Helper()
	topology := &structs.CSITopology{Segments: map[string]string{"zone": zone}}
	must(s, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       id,
			SecretID: secretOf(id),
			Name:     "name-" + id,
			Status:   structs.NodeReady,
			NodeResources: &structs.NodeResources{
				CPU:    structs.NodeCPUResources{CpuShares: 4000},
				Memory: structs.NodeMemoryResources{MemoryMB: 4000},
				Disk:   structs.NodeDiskResources{DiskMB: 40000},
			},
		},
		CSI: []*structs.CSIPluginInstance{
			{
				Kind:   structs.CSIKindController,
				NodeID: id,
				CSIInfo: structs.CSIInfo{
					PluginID:                 "pl",
					Provider:                 "pl.csi",
					Healthy:                  true,
					RequiresControllerPlugin: true,
					ControllerInfo: &structs.CSIControllerInfo{
						SupportsCreateDelete: true,
						SupportsAttachDetach: true,
						SupportsListVolumes:  true,
						SupportsExpand:       true,
					},
				},
			},
			{
				Kind:   structs.CSIKindNode,
				NodeID: id,
				CSIInfo: structs.CSIInfo{
					PluginID:                 "pl",
					Provider:                 "pl.csi",
					Healthy:                  true,
					RequiresControllerPlugin: true,
					NodeInfo:                 &structs.CSINodeInfo{ID: "ext-" + id, AccessibleTopology: topology},
				},
			},
		},
	})
	n := &fakeNode{done: make(chan struct{})}
	s.Nodes.Bind(id, n)
	return n
}

// addAlloc places an allocation of a new job on the node.
func (s *server) addAlloc(id, node string, edits ...func(*structs.TaskGroup)) {
	s.t.Helper()
	job := &structs.Job{
		ID:        "job-" + id,
		Namespace: "default",
		Type:      structs.JobService,
		TaskGroups: []*structs.TaskGroup{
			{
				Name:  "g",
				Count: 1,
				Tasks: []*structs.Task{{Name: "t", Driver: "exec"}},
			}},
	}
	for _, edit := range edits {
		edit(job.TaskGroups[0])
	}
	mustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	stored := state.Job(s.Store.Read(), "default", job.ID)
	e := evaluationOf(stored, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	mustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: stored.JobModifyIndex,
		Place: []*structs.Allocation{
			{
				ID:        id,
				Namespace: "default",
				JobID:     job.ID,
				TaskGroup: "g",
				Name:      structs.AllocName(job.ID, "g", 0),
				NodeID:    node,
			}},
	})
	if state.Alloc(s.Store.Read(), id) == nil {
		s.t.Fatalf("allocation %s was not placed: %s", id, state.Eval(s.Store.Read(), e.ID).StatusDescription)
	}
}

func (s *server) endAlloc(id, node string) {
	s.t.Helper()
	must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   node,
		SecretID: secretOf(node),
		Allocs:   []*structs.AllocClientUpdate{{ID: id, ClientStatus: structs.AllocComplete}},
	})
}

// loseAlloc gives an allocation up, as the scheduler does when its node is down.
func (s *server) loseAlloc(id string) {
	s.t.Helper()
	a := state.Alloc(s.Store.Read(), id)
	job := state.Job(s.Store.Read(), a.Namespace, a.JobID)
	e := evaluationOf(job, structs.TriggerNodeUpdate, 1)
	e.Status = structs.EvalComplete
	mustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: job.JobModifyIndex,
		Stop: []*structs.PlanStop{{
			AllocID:      id,
			ClientStatus: structs.AllocLost,
			Description:  "its node is down",
		}},
	})
}

// addVolume registers a volume that is there, for many writers.
func (s *server) addVolume(id string) *structs.CSIVolume {
	s.t.Helper()
	v := testVolume(id)
	v.ExternalID = "ext-" + id
	return must(s, structs.CSIVolumeRegister, registerRequest(v)).Volumes[0]
}

func registerRequest(volumes ...*structs.CSIVolume) *structs.CSIVolumeRegisterRequest {
	return &structs.CSIVolumeRegisterRequest{Volumes: volumes}
}

func (s *server) getVolume(id string) *structs.CSIVolumeDetail {
	s.t.Helper()
	return must(s, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: id}).Volume
}

func testVolume(id string) *structs.CSIVolume {
	return &structs.CSIVolume{
		ID:           id,
		PluginID:     "pl",
		Secrets:      structs.Secrets{"password": "hunter2"},
		MountOptions: &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=hunter2"}},
		RequestedCapabilities: []*structs.CSIVolumeCapability{
			{AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem}},
	}
}

// readyVolume is a volume as the row of a created one.
func readyVolume(id string) *structs.CSIVolume {
	v := testVolume(id)
	v.Namespace = "default"
	v.ExternalID = "ext-" + id
	v.State = structs.VolumeReady
	return v
}

func testClaim(volume, alloc string) *structs.CSIClaim {
	return &structs.CSIClaim{
		VolumeID:       volume,
		AllocID:        alloc,
		Mode:           structs.ClaimWrite,
		AccessMode:     structs.CSIMultiNodeMultipleWriter,
		AttachmentMode: structs.CSIFileSystem,
	}
}

func (s *server) claim(volume, alloc, node string) *structs.CSIClaim {
	s.t.Helper()
	return must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:   node,
		SecretID: secretOf(node),
		Claims:   []*structs.CSIClaim{testClaim(volume, alloc)},
	}).Claims[0]
}

// wantText fails the test unless the error has the text.
func wantText(t *testing.T, err error, text string) {
	t.Helper()
	if !strings.Contains(err.Error(), text) {
		t.Errorf("got error %q, want %q in it", err, text)
	}
}
