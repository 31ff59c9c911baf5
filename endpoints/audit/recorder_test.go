package audit_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/audit"
	"berth/endpoints/endpointstest"
	"berth/endpoints/rights"
	"berth/fsm"
	"berth/internal/auditlog"
	"berth/internal/opsocket"
	"berth/internal/pki"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/admission"
)

// free is a call of a method that needs no token.
func free(req any) audit.Call {
	return audit.Call{
		Method: "ACL.Login",
		Write:  true,
		Right:  rights.None("a test calls it"),
		Req:    req,
	}
}

var anEntry = &admission.RulePutRequest{Rule: &admission.Rule{
	Name: "r", On: admission.OnJob, Mode: admission.ModeDeny, Expression: "true", Message: "the limit is 3",
}}

// TestAudit_AFreeCallHasItsFirstLineBeforeItsFirstEntry proposes twice, once and never.
func TestAudit_AFreeCallHasItsFirstLineBeforeItsFirstEntry(t *testing.T) {
	s := endpointstest.New(t)
	log, path := openAudit(t)
	r := audit.Recorder{Log: log, Store: s.Store}
	propose := func(ctx context.Context) error {
		_, err := fsm.Propose(ctx, s.Raft, fsm.AdmissionRulePut, anEntry)
		return err
	}
	answer := &structs.Empty{}
	for times, want := range []string{"Complete change ok", "Received change; Complete change ok",
		"Received change; Complete change ok"} {
		resp, err := r.Serve(t.Context(), free(&structs.QueryRequest{}), func(ctx context.Context) (any, error) {
			for range times {
				if err := propose(ctx); err != nil {
					return nil, err
				}
			}
			return answer, nil
		})
		if got := stages(takeEvents(t, path)); got != want || err != nil || resp != any(answer) {
			t.Errorf("%d entries: got %s, %v and %v", times, got, resp, err)
		}
	}
}

// TestAudit_AFreeCallCannotHideThatItsLineIsMissing has a handler that forgets the error of its proposal.
func TestAudit_AFreeCallCannotHideThatItsLineIsMissing(t *testing.T) {
	s := endpointstest.New(t)
	c := auditlog.Config{Enabled: true, Sinks: []*auditlog.Sink{{Name: "out", Type: auditlog.TypeStdout}}}
	c.Finish(t.TempDir())
	log, err := auditlog.Open(c, auditlog.Deps{Logger: s.Logger, Stdout: failing{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	r := audit.Recorder{Log: log, Store: s.Store}
	_, err = r.Serve(t.Context(), free(&structs.QueryRequest{}), func(ctx context.Context) (any, error) {
		_, _ = fsm.Propose(ctx, s.Raft, fsm.AdmissionRulePut, anEntry)
		return &structs.Empty{}, nil
	})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("got %v", err)
	}
}

// TestAudit_NamesTheObjectsOfARequestAndItsAnswer has requests and answers of all forms.
func TestAudit_NamesTheObjectsOfARequestAndItsAnswer(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	log, path := openAudit(t)
	r := audit.Recorder{Log: log, Store: s.Store}
	token := &access.TokenPutRequest{Token: &access.Token{Name: "ci"}}
	job := &structs.JobDeregisterRequest{JobID: "v"}
	for name, c := range map[string]struct {
		method    string
		req, resp any
		fault     error
		want      string // at the end
	}{
		"a row with one of two names": {"ACL.UpsertToken", token, nil, nil, "token:ci"},
		"no row":                      {"ACL.UpsertToken", &access.TokenPutRequest{}, nil, nil, ""},
		"a noun of the method": {"ACL.DeletePolicy", &access.PolicyDeleteRequest{Name: "p"}, nil, nil,
			"policy:p"},
		"one name of two": {"Claim.Release", &structs.VolumeClaimReleaseRequest{VolumeID: "v"}, nil, nil, "volume:v"},
		"a new job": {"Job.Dispatch", job, &structs.JobDispatchResponse{DispatchedJobID: "v/1"}, nil,
			"job:v job:v/1"},
		"an error": {"Job.Dispatch", job, &structs.JobDispatchResponse{DispatchedJobID: "v/1"},
			structs.Invalidf("no"), "job:v"},
		"no answer":           {"Job.Dispatch", job, nil, nil, "job:v"},
		"an answer of a kind": {"Job.Dispatch", job, new(int), nil, "job:v"},
		"no options":          {"Job.Dispatch", &struct{ JobID string }{"v"}, nil, nil, "job:v"},
	} {
		_, err := r.Serve(t.Context(), audit.Call{Method: c.method, Write: true, Req: c.req},
			func(context.Context) (any, error) { return c.resp, c.fault })
		all := takeEvents(t, path)
		if structs.KindOf(err) != structs.KindOf(c.fault) || len(all) != 2 {
			t.Errorf("%s: got %v, %s", name, err, stages(all))
			continue
		}
		_, objects, _ := strings.Cut(stages(all[1:]), all[1].Result)
		if strings.TrimSpace(objects) != c.want || len(all[1].Before) > 0 != strings.HasPrefix(c.want, "volume") {
			t.Errorf("%s: got %s, and the rows %v", name, stages(all), all[1].Before)
		}
		if slices.ContainsFunc(all[1].Objects, func(o auditlog.Object) bool { return o.Namespace != "" }) {
			t.Errorf("%s: an object has a namespace: %+v", name, all[1].Objects)
		}
	}
}

// TestAudit_NamesTheNamespacesThatRowsTell has requests that name a row by its ID alone.
func TestAudit_NamesTheNamespacesThatRowsTell(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	job := state.Job(s.Store.Read(), "default", "job-a1")
	endpointstest.MustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           &structs.Evaluation{ID: "e", JobID: job.ID, Status: structs.EvalComplete},
		JobModifyIndex: job.JobModifyIndex,
		Deployment: &structs.Deployment{
			ID:             "d",
			Namespace:      job.Namespace,
			JobID:          job.ID,
			JobCreateIndex: job.CreateIndex,
			Status:         structs.DeploymentRunning,
			TaskGroups:     map[string]*structs.DeploymentState{"g": {DesiredTotal: 1}},
		},
	})
	log, path := openAudit(t)
	r := audit.Recorder{Log: log, Store: s.Store}
	for object, req := range map[auditlog.Object]any{
		{Type: "deployment", ID: "d", Namespace: "default"}:  &structs.DeploymentFailRequest{DeploymentID: "d"},
		{Type: "deployment", ID: "gone"}:                     &structs.DeploymentFailRequest{DeploymentID: "gone"},
		{Type: "allocation", ID: "a1", Namespace: "default"}: &structs.AllocStopRequest{AllocID: "a1"},
		{Type: "allocation", ID: "d"}:                        &structs.AllocStopRequest{AllocID: "d"},
	} {
		r.Deny(t.Context(), audit.Call{Method: "M.N", Req: req}, structs.Deniedf("no"))
		all := takeEvents(t, path)
		if len(all) != 1 || !slices.Equal(all[0].Objects, []auditlog.Object{object}) {
			t.Errorf("got %+v, want the object %+v", all, object)
		}
	}
}

// TestAudit_NamesTheMachineOfACall has calls over connections with and without certificates.
func TestAudit_NamesTheMachineOfACall(t *testing.T) {
	s := endpointstest.New(t)
	log, path := openAudit(t)
	r := audit.Recorder{Log: log, Store: s.Store}
	as := func(role pki.Role) context.Context {
		return rpc.WithPeer(t.Context(), pki.Identity{Region: "global", Role: role, ID: "x"})
	}
	from := func(o structs.Origin) any {
		req := &structs.JobDeregisterRequest{JobID: "j"}
		req.Origin = &o
		return req
	}
	bare := &structs.JobDeregisterRequest{JobID: "j"}
	type machine struct {
		certificate, handedOn string
		socket                bool
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		req  any
		want machine
	}{
		"this process": {t.Context(), bare, machine{}},
		"a node": {as(pki.RoleNode), bare,
			machine{certificate: "spiffe://global/node/x", handedOn: "spiffe://global/node/x"}},
		"a server": {as(pki.RoleServer), bare, machine{handedOn: "spiffe://global/server/x"}},
		"a node that hands on": {as(pki.RoleNode), from(structs.Origin{Certificate: "of ann"}),
			machine{certificate: "of ann", handedOn: "spiffe://global/node/x"}},
		"no certificate": {rpc.WithoutPeer(t.Context()), bare,
			machine{handedOn: "a machine without a certificate"}},
		"the socket of this agent":    {opsocket.Mark(t.Context()), from(structs.Origin{}), machine{socket: true}},
		"the socket of another agent": {t.Context(), from(structs.Origin{Socket: true}), machine{socket: true}},
		"no socket":                   {t.Context(), from(structs.Origin{}), machine{}},
	} {
		r.Deny(c.ctx, audit.Call{Method: "Job.Deregister", Req: c.req}, structs.Deniedf("no"))
		all := takeEvents(t, path)
		if len(all) != 1 {
			t.Fatalf("%s: got %s", name, stages(all))
		}
		got := machine{all[0].Caller.Certificate, all[0].HandedOnBy, all[0].Caller.Socket}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}

	read := &structs.JobGetRequest{JobID: "j"}
	read.Origin = &structs.Origin{RequestID: "id-1"}
	r.Deny(t.Context(), audit.Call{Method: "Job.GetJob", Req: read}, structs.Deniedf("no"))
	if all := takeEvents(t, path); len(all) != 1 || all[0].RequestID != "id-1" {
		t.Errorf("a read: got %+v", all)
	}
}
