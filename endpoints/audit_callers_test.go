package endpoints_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/auditlog"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/nodeloss"
	"berth/structs/variable"
)

// TestAudit_NamesTheWorkload writes and reads with the identity of a task.
func TestAudit_NamesTheWorkload(t *testing.T) {
	s := newServer(t)
	addSigningKeys(s)
	addWorkload(s)
	guard(t, s)
	token := taskIdentity(s)
	must(s, access.PolicyPut, &access.PolicyPutRequest{Policy: &access.Policy{
		Name: "web", Rules: `namespace "default" { policy = "write" }`,
		JobACL: &access.JobACL{Namespace: "default", JobID: "job-a1"},
	}})
	path, events := audited(t, s)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)

	write := &structs.JobDeregisterRequest{JobID: "j", WriteOptions: structs.WriteOptions{AuthToken: token}}
	_, _ = rpc.Call(t.Context(), s.RPC, structs.JobDeregister, write)
	denied := &variable.VariableGetRequest{Path: "other"}
	denied.Namespace = "elsewhere"
	denied.AuthToken = token
	rejected(s, structs.KindDenied, variable.VariableGet, denied)

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
		do            func(s *server)
		before, after string
	}{
		"a detach": {func(s *server) {
			must(s, structs.CSIVolumeDetach, &structs.CSIVolumeDetachRequest{VolumeID: "v", NodeID: "n1"})
		}, "volume v; " + own, "volume v"},
		"a detach that fails": {func(s *server) {
			rejected(s, structs.KindPrecondition, structs.CSIVolumeDetach,
				&structs.CSIVolumeDetachRequest{VolumeID: "w", NodeID: "n1"})
		}, "volume w; claim w a2 n1 write", "volume w; claim w a2 n1 write"},
		"a release": {func(s *server) {
			must(s, structs.VolumeClaimRelease, &structs.VolumeClaimReleaseRequest{VolumeID: "v", AllocID: "a1"})
		}, "volume v; " + own, "volume v"},
		"a lost node": {func(s *server) {
			s.OverSocket = true
			s.SetNodeDown("n1")
			must(s, nodeloss.NodeConfirmLost, &nodeloss.NodeFenceRequest{NodeID: "n1", Why: "it burns"})
		}, own + "; claim w a2 n1 write", ""},
	} {
		s := newServer(t)
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
		if got := rowsOf(t, all[1].After); got != c.after || rowsOf(t, all[1].Before) != c.before {
			t.Errorf("%s: got %q after, want %q", name, got, c.after)
		}
	}
}
