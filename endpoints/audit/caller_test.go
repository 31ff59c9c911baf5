package audit_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/audit"
	"berth/endpoints/endpointstest"
	"berth/internal/auditlog"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// TestAudit_NamesTheWorkload writes and reads with the identity of a task.
func TestAudit_NamesTheWorkload(t *testing.T) {
	s := endpointstest.New(t)
	s.AddSigningKeys()
	s.AddWorkload()
	s.Guard()
	token := s.TaskIdentity()
	endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{Policy: &access.Policy{
		Name: "web", Rules: `namespace "default" { policy = "write" }`,
		JobACL: &access.JobACL{Namespace: "default", JobID: "job-a1"},
	}})
	path, events := audited(t, s)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)

	write := &structs.JobDeregisterRequest{JobID: "j", WriteOptions: structs.WriteOptions{AuthToken: token}}
	_, _ = rpc.Call(t.Context(), s.RPC, structs.JobDeregister, write)
	denied := &access.VariableGetRequest{Path: "other"}
	denied.Namespace = "elsewhere"
	denied.AuthToken = token
	endpointstest.Rejected(s, structs.KindDenied, access.VariableGet, denied)

	all := events()
	if len(all) != 3 || all[2].Kind != auditlog.KindDenied {
		t.Fatalf("got %s", stages(all))
	}
	want := auditlog.Identity{Alloc: "a1", Namespace: "default", Job: "job-a1", Group: "g", Task: "t"}
	for _, e := range all {
		if e.Caller.Identity == nil || *e.Caller.Identity != want || e.Caller.Accessor != "" {
			t.Errorf("%s: got the caller %+v, identity %+v", e.Method, e.Caller, e.Caller.Identity)
		}
	}
	text, err := json.Marshal(all)
	if err != nil || strings.Contains(string(text), token) {
		t.Errorf("%s has the token, %v", path, err)
	}
}

// rowsOf says of rows their types, names and states.
func rowsOf(t *testing.T, rows []any) string {
	t.Helper()
	var texts []string
	for _, row := range rows {
		r, ok := row.(map[string]any)
		if !ok {
			t.Fatalf("got the row %+v", row)
		}
		if r["row"] == "claim" {
			texts = append(texts, strings.Join([]string{"claim", r["volume"].(string), r["allocation"].(string),
				r["node"].(string), r["mode"].(string)}, " "))
			continue
		}
		texts = append(texts, "volume "+r["id"].(string))
	}
	return strings.Join(texts, "; ")
}

// TestAudit_HasTheClaimsBeforeAndAfter releases claims in each way. An event has the claims that the request
// is about, and no others.
func TestAudit_HasTheClaimsBeforeAndAfter(t *testing.T) {
	const own = "claim v a1 n1 write"
	for name, c := range map[string]struct {
		do            func(s *endpointstest.Server)
		before, after string
	}{
		"a detach": {func(s *endpointstest.Server) {
			endpointstest.Must(s, structs.CSIVolumeDetach,
				&structs.CSIVolumeDetachRequest{VolumeID: "v", NodeID: "n1"})
		}, "volume v; " + own, "volume v"},
		"a detach that fails": {func(s *endpointstest.Server) {
			endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDetach,
				&structs.CSIVolumeDetachRequest{VolumeID: "w", NodeID: "n1"})
		}, "volume w; claim w a2 n1 write", "volume w; claim w a2 n1 write"},
		"a release": {func(s *endpointstest.Server) {
			endpointstest.Must(s, structs.VolumeClaimRelease,
				&structs.VolumeClaimReleaseRequest{VolumeID: "v", AllocID: "a1"})
		}, "volume v; " + own, "volume v"},
		"a lost node": {func(s *endpointstest.Server) {
			s.OverSocket = true
			s.SetNodeDown("n1")
			endpointstest.Must(s, cluster.NodeConfirmLost, &cluster.NodeFenceRequest{NodeID: "n1", Why: "it burns"})
		}, own + "; claim w a2 n1 write", ""},
	} {
		s := endpointstest.New(t)
		s.AddNode("n1", "a")
		s.AddNode("n2", "a")
		s.AddVolume("v")
		s.AddVolume("w")
		for _, at := range []struct{ volume, alloc, node string }{
			{"v", "a1", "n1"}, {"w", "a2", "n1"}, {"v", "a3", "n2"},
		} {
			s.AddAlloc(at.alloc, at.node)
			s.Claim(at.volume, at.alloc, at.node)
		}
		s.EndAlloc("a1", "n1")
		_, events := audited(t, s)
		s.RPC.Close()
		s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
		t.Cleanup(s.RPC.Close)

		c.do(s)
		all := events()
		if len(all) != 2 {
			t.Errorf("%s: got %s", name, stages(all))
			continue
		}
		if got := rowsOf(t, all[0].Before); got != c.before || len(all[0].After) != 0 {
			t.Errorf("%s: got %q before, want %q", name, got, c.before)
		}
		for _, o := range all[0].Objects {
			if o.Type == "allocation" && o.Namespace != "default" {
				t.Errorf("%s: got the object %+v", name, o)
			}
		}
		if got := rowsOf(t, all[1].After); got != c.after || rowsOf(t, all[1].Before) != c.before {
			t.Errorf("%s: got %q after, want %q", name, got, c.after)
		}
	}
}

// TestAudit_HasEachPartOfARequest sends events of requests to a recorder. Both lines of a change have them.
func TestAudit_HasEachPartOfARequest(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	made := endpointstest.Must(s, access.TokenPut, &access.TokenPutRequest{
		Token: &access.Token{Type: access.TypeManagement, Name: "ann\n"},
	})
	log, path := openAudit(t)
	r := audit.Recorder{Log: log, Gate: s.Gate, Store: s.Store}
	request := &structs.VolumeClaimReleaseRequest{VolumeID: "v", AllocID: "a", DryRun: true}
	request.AuthToken = made.SecretID
	request.Origin = &structs.Origin{Agent: "s2\n", Socket: true}
	bare := &structs.JobDeregisterRequest{JobID: "j"}
	node := &structs.Node{ID: "n1"}
	socket := opsocket.Mark(t.Context())
	for name, c := range map[string]struct {
		ctx  context.Context
		call audit.Call
		has  func(e auditlog.Event) bool
	}{
		"a token": {t.Context(), audit.Call{Req: request}, func(e auditlog.Event) bool {
			return e.Caller.Name == "ann " && e.Caller.Accessor == made.Token.AccessorID && e.Caller.Socket
		}},
		"an agent and a dry run": {t.Context(), audit.Call{Req: request}, func(e auditlog.Event) bool {
			return e.TakenBy == "s2 " && e.DryRun
		}},
		"the socket": {socket, audit.Call{Req: bare}, func(e auditlog.Event) bool {
			return e.Caller.Socket && !e.DryRun
		}},
		"a node": {t.Context(), audit.Call{Req: bare, Node: node}, func(e auditlog.Event) bool {
			return e.Caller.Node == "n1" && !e.Caller.Socket
		}},
		"a call by RPC": {t.Context(), audit.Call{Req: bare}, func(e auditlog.Event) bool {
			return len(e.RequestID) == 36 && e.TakenBy == ""
		}},
	} {
		c.call.Method = "Job.Deregister"
		c.call.Write = true
		_, err := r.Serve(c.ctx, c.call, func(context.Context) (any, error) {
			start := time.Now()
			for time.Since(start) < 2*time.Millisecond {
				runtime.Gosched()
			}
			return &structs.Empty{WriteMeta: structs.WriteMeta{Index: 77}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		all := takeEvents(t, path)
		if len(all) != 2 || !c.has(all[0]) || !c.has(all[1]) || all[0].RequestID != all[1].RequestID {
			t.Errorf("%s: got %+v", name, all)
			continue
		}
		if all[0].Index+all[1].Index != 77 || all[0].Duration != 0 || all[1].Duration < 2 {
			t.Errorf("%s: got the index %d, and %f ms", name, all[1].Index, all[1].Duration)
		}
	}
}

// TestAudit_BoundsAnEvent deregisters very many nodes, with an error that is very long.
func TestAudit_BoundsAnEvent(t *testing.T) {
	s := endpointstest.New(t)
	log, path := openAudit(t)
	r := audit.Recorder{Log: log, Store: s.Store}
	req := &structs.NodeDeregisterRequest{}
	for range 100 {
		req.NodeIDs = append(req.NodeIDs, strings.Repeat("n", 5000))
	}
	_, err := r.Serve(t.Context(), audit.Call{Method: "Node.Deregister", Write: true, Req: req}, func(context.Context) (any, error) {
		return nil, structs.Invalidf("%s", strings.Repeat("x", 5000))
	})
	all := takeEvents(t, path)
	if err == nil || len(all) != 2 {
		t.Fatalf("got %v, %s", err, stages(all))
	}
	e := all[1]
	if len(e.Objects) != 16 || e.MoreObjects != 84 || len(e.Objects[0].ID) > 300 || len(e.Error) > 600 {
		t.Errorf("got %d objects and %d more, an ID of %d bytes, an error of %d",
			len(e.Objects), e.MoreObjects, len(e.Objects[0].ID), len(e.Error))
	}
}

// TestAudit_BoundsTheRows detaches a volume of very many allocations.
func TestAudit_BoundsTheRows(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	for _, id := range s.AddAllocs("a", "n1", 20) {
		s.Claim("v", id, "n1")
	}
	log, path := openAudit(t)
	r := audit.Recorder{Log: log, Store: s.Store}
	req := &structs.CSIVolumeDetachRequest{VolumeID: "v"}
	_, err := r.Serve(t.Context(), audit.Call{Method: "CSIVolume.Detach", Write: true, Req: req},
		func(context.Context) (any, error) { return nil, nil })
	all := takeEvents(t, path)
	if err != nil || len(all) != 2 || len(all[0].Before) != 16 || len(all[1].After) != 16 {
		t.Errorf("got %v, %+v", err, all)
	}
}
