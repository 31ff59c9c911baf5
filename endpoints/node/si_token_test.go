package node_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

// meshServer has node n1 with allocation a1, whose tasks proxy and api take part in the service mesh and
// whose task plain does not. a2 has no service mesh, and node n2 no allocation.
func meshServer(t *testing.T) (*endpointstest.Server, *endpointstest.FakeConsul) {
	t.Helper()
	s := endpointstest.New(t)
	f := &endpointstest.FakeConsul{}
	s.Consul = f
	s.AddNode("n1", "z")
	s.AddNode("n2", "z")
	s.AddAlloc("a1", "n1", func(g *structs.TaskGroup) {
		g.Services = []*structs.Service{{
			Name:     "web",
			Provider: structs.ServiceProviderConsul,
			Connect:  &structs.Connect{SidecarService: &structs.SidecarService{}},
		}}
		g.Tasks = []*structs.Task{
			{Name: "proxy", Driver: "exec", Kind: structs.NewTaskKind(structs.KindConnectProxy, "web")},
			{Name: "api", Driver: "exec", Kind: structs.NewTaskKind(structs.KindConnectNative, "api")},
			{Name: "plain", Driver: "exec"},
		}
	})
	s.AddAlloc("a2", "n1")
	return s, f
}

func derivation(tasks ...string) *access.DeriveSITokenRequest {
	return &access.DeriveSITokenRequest{
		NodeID: "n1", SecretID: endpointstest.SecretOf("n1"), AllocID: "a1", Tasks: tasks,
	}
}

// tokenRows returns the tokens of a1, those that the leader revokes with a "-".
func tokenRows(s *endpointstest.Server) (rows []string) {
	for t := range trust.SITokensOf(s.Store.Read(), "a1") {
		text := t.TaskName
		if t.RevokeTime != 0 {
			text = "-" + text
		}
		rows = append(rows, text)
	}
	slices.Sort(rows)
	return rows
}

func TestDeriveSIToken_RejectsOtherNodesAllocationsAndTasks(t *testing.T) {
	s, f := meshServer(t)
	for name, c := range map[string]struct {
		kind structs.Kind
		edit func(*access.DeriveSITokenRequest)
	}{
		"no node":         {structs.KindDenied, func(r *access.DeriveSITokenRequest) { r.SecretID = "" }},
		"unknown node":    {structs.KindNotFound, func(r *access.DeriveSITokenRequest) { r.NodeID = "n9" }},
		"wrong secret":    {structs.KindDenied, func(r *access.DeriveSITokenRequest) { r.SecretID = "x" }},
		"no allocation":   {structs.KindNotFound, func(r *access.DeriveSITokenRequest) { r.AllocID = "a9" }},
		"no task":         {structs.KindInvalid, func(r *access.DeriveSITokenRequest) { r.Tasks = nil }},
		"unknown task":    {structs.KindNotFound, func(r *access.DeriveSITokenRequest) { r.Tasks = []string{"x"} }},
		"plain task":      {structs.KindInvalid, func(r *access.DeriveSITokenRequest) { r.Tasks[1] = "plain" }},
		"one task twice":  {structs.KindInvalid, func(r *access.DeriveSITokenRequest) { r.Tasks[1] = "proxy" }},
		"no service mesh": {structs.KindInvalid, func(r *access.DeriveSITokenRequest) { r.AllocID = "a2" }},
		"too many": {structs.KindInvalid, func(r *access.DeriveSITokenRequest) {
			r.Tasks = make([]string, structs.MaxTasks+1)
		}},
		"another node's allocation": {structs.KindDenied, func(r *access.DeriveSITokenRequest) {
			r.NodeID = "n2"
			r.SecretID = endpointstest.SecretOf("n2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			req := derivation("proxy", "api")
			c.edit(req)
			_, err := rpc.Call(t.Context(), s.RPC, access.NodeDeriveSIToken, req)
			if !structs.IsKind(err, c.kind) {
				t.Errorf("got error %v (%s), want %s", err, structs.KindOf(err), c.kind)
			}
		})
	}
	s.EndAlloc("a1", "n1")
	endpointstest.Rejected(s, structs.KindPrecondition, access.NodeDeriveSIToken, derivation("proxy"))
	if len(f.Made)+len(f.Revoked)+len(tokenRows(s)) > 0 {
		t.Errorf("rejected requests have made %v and left the rows %v", f.Made, tokenRows(s))
	}
	s.Consul = nil
	endpointstest.Rejected(s, structs.KindPrecondition, access.NodeDeriveSIToken, derivation("proxy"))
}

func TestDeriveSIToken_RejectsAnAllocationThatIsToStop(t *testing.T) {
	s, f := meshServer(t)
	job := state.Job(s.Store.Read(), "default", "job-a1")
	stop := endpointstest.EvalOf(job, structs.TriggerJobDeregister, 1)
	stop.Status = structs.EvalComplete
	endpointstest.MustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           stop,
		JobModifyIndex: job.JobModifyIndex,
		Stop:           []*structs.PlanStop{{AllocID: "a1"}},
	})
	endpointstest.Rejected(s, structs.KindPrecondition, access.NodeDeriveSIToken, derivation("proxy"))
	if len(f.Made) > 0 {
		t.Errorf("there are tokens %v", f.Made)
	}
}

// The rows are older than the tokens, and no row, entry or other answer has a secret.
func TestDeriveSIToken_RecordsTheTokensBeforeItMakesThem(t *testing.T) {
	s, f := meshServer(t)
	f.Create = func(_ context.Context, order core.ServiceToken) error {
		if rows := tokenRows(s); !slices.Equal(rows, []string{"api", "proxy"}) {
			return structs.Internalf("the rows are %v while token %s is made", rows, order.AccessorID)
		}
		return nil
	}
	resp := endpointstest.Must(s, access.NodeDeriveSIToken, derivation("proxy", "api"))
	if len(resp.Tokens) != 2 || resp.Index == 0 {
		t.Fatalf("got %d tokens at index %d", len(resp.Tokens), resp.Index)
	}
	cluster := trust.ClusterID(s.Store.Read())
	for task, service := range map[string]string{"proxy": "web", "api": "api"} {
		for row := range trust.SITokensOf(s.Store.Read(), "a1", task) {
			want := core.ServiceToken{
				AccessorID:  row.AccessorID,
				Service:     service,
				Description: "berth service token: cluster " + cluster + ", allocation a1, task " + task,
			}
			if !slices.Contains(f.Made, want) {
				t.Errorf("task %s: made %+v, want %+v", task, f.Made, want)
			}
			if resp.Tokens[task] != endpointstest.SecretFor(row.AccessorID) {
				t.Errorf("task %s has the token of another one", task)
			}
		}
	}
	var saved bytes.Buffer
	if err := s.Store.Save(&saved); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{saved.String(), s.Raft.Text(), fmt.Sprintf("%+v", resp)} {
		if strings.Contains(text, "secret of") {
			t.Error("a secret is in the state, in the log or in a text")
		}
	}
	if !bytes.Contains(saved.Bytes(), []byte(f.Made[0].AccessorID)) || cluster == "" {
		t.Error("the state does not have the tokens")
	}
}

func TestDeriveSIToken_RevokesAllTokensAfterAnError(t *testing.T) {
	s, f := meshServer(t)
	f.Create = func(ctx context.Context, order core.ServiceToken) error {
		if order.Service == "web" {
			return structs.Unavailablef("no answer")
		}
		<-ctx.Done() // the first failure ends the other calls
		return nil   // the token is made all the same
	}
	err := endpointstest.Rejected(s, structs.KindUnavailable, access.NodeDeriveSIToken,
		derivation("proxy", "api"))
	if structs.RetryAfter(err) == 0 {
		t.Errorf("the node repeats the request at each other server: %v", err)
	}
	if len(f.Made) != 1 || len(f.Revoked) != 2 || !slices.Contains(f.Revoked, f.Made[0].AccessorID) {
		t.Errorf("made %v, revoked %v, want all", f.Made, f.Revoked)
	}
	if got := tokenRows(s); !slices.Equal(got, []string{"-api", "-proxy"}) {
		t.Errorf("the rows are %v", got)
	}
	f.Create = nil
	endpointstest.Must(s, access.NodeDeriveSIToken, derivation("proxy"))
	if got := tokenRows(s); !slices.Equal(got, []string{"-api", "-proxy", "proxy"}) {
		t.Errorf("after a second request the rows are %v", got)
	}
}

// A Consul that never answers holds a request until its node gives up, and nothing after it.
func TestDeriveSIToken_EndsWithItsRequest(t *testing.T) {
	s, f := meshServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.Create = func(ctx context.Context, _ core.ServiceToken) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	_, err := rpc.Call(ctx, s.RPC, access.NodeDeriveSIToken, derivation("proxy", "api"))
	if err == nil || structs.KindOf(err).Final() {
		t.Errorf("got error %v (%s), want one after which the node asks again", err, structs.KindOf(err))
	}
	s.RPC.Close() // waits for the handler
	if len(f.Revoked) != 2 {
		t.Errorf("revoked %v, want both tokens", f.Revoked)
	}
	if got := tokenRows(s); !slices.Equal(got, []string{"-api", "-proxy"}) {
		t.Errorf("the rows are %v", got)
	}
}

func TestDeriveSIToken_RevokesAlthoughTheLogIsLost(t *testing.T) {
	s, f := meshServer(t)
	f.Create = func(context.Context, core.ServiceToken) error {
		s.Raft.Fail(structs.Unavailablef("not the leader"))
		return structs.Unavailablef("no answer")
	}
	endpointstest.Rejected(s, structs.KindUnavailable, access.NodeDeriveSIToken, derivation("proxy"))
	if len(f.Revoked) != 1 {
		t.Errorf("revoked %v, want the token", f.Revoked)
	}
	s.Raft.Fail(nil)
	s.EndAlloc("a1", "n1")
	if got := tokenRows(s); !slices.Equal(got, []string{"-proxy"}) {
		t.Errorf("after the end of the allocation the rows are %v", got)
	}
}

func TestDeriveSIToken_GoesToTheLeader(t *testing.T) {
	s, f := meshServer(t)
	s.Raft.IsMe = false
	s.Raft.LeaderAddr = "s2:4747"
	s.Raft.OnForward = func(_ string, _, resp any) error {
		resp.(*access.DeriveSITokenResponse).Tokens = structs.Secrets{"proxy": "x"}
		return nil
	}
	if got := endpointstest.Must(s, access.NodeDeriveSIToken, derivation("proxy")); got.Tokens["proxy"] != "x" {
		t.Error("the answer of the leader is lost")
	}
	s.Raft.LeaderAddr = ""
	s.Settings.HoldTimeout = time.Millisecond
	endpointstest.Rejected(s, structs.KindUnavailable, access.NodeDeriveSIToken, derivation("proxy"))
	if len(f.Made) > 0 {
		t.Error("a follower has made a token")
	}
}
