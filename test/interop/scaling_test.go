package interop

import (
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/defaults"
)

// TestClient_ScalesByPolicies sends a job with a policy, reads it back and sends it again, and reads the
// policies.
func TestClient_ScalesByPolicies(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	job := fullJob()
	job.TaskGroups[0].Count = nil
	job.TaskGroups[0].Scaling = &public.ScalingPolicy{
		Min:    new(int64(2)),
		Max:    new(int64(5)),
		Policy: map[string]any{"cooldown": "13m"},
	}
	var got *structs.Job
	apitest.On(caller, structs.JobRegister, recordJob(&got))
	for range 2 {
		job.Canonicalize()
		_, _, err := c.Jobs().Register(job, nil)
		if !checkNoError(t, "register", err) {
			return
		}
		p := got.TaskGroups[0].Scaling
		if got.TaskGroups[0].Count != 2 || *p.Min != 2 || *p.Max != 5 || !*p.Enabled ||
			p.Type != structs.ScalingHorizontal || p.Policy["cooldown"] != "13m" {
			t.Errorf("the policy arrives as %+v", p)
		}
		defaults.Canonicalize(got)
		got.TaskGroups[0].Scaling = got.ScalingPolicies()[0] // with the fields of the servers
		apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: got})
		job, _, err = c.Jobs().Info("web/one", nil)
		if !checkNoError(t, "info", err) {
			return
		}
	}
	policy := got.ScalingPolicies()[0]
	meta := structs.QueryMeta{Index: 42, KnownLeader: true}
	apitest.Answer(caller, structs.ScalingPolicyList, structs.ScalingPolicyListResponse{
		Policies: []*structs.ScalingPolicyListStub{policy.Stub()}, QueryMeta: meta})
	apitest.Answer(caller, structs.ScalingPolicyGet, structs.ScalingPolicyGetResponse{
		Policy: policy, QueryMeta: meta})
	list, m, err := c.Scaling().ListPolicies(nil)
	if checkNoError(t, "list", err) && (len(list) != 1 || list[0].ID != policy.ID || !list[0].Enabled ||
		list[0].Target["Group"] != "g" || m.LastIndex != 42) {
		t.Errorf("the list has %+v, %+v", list, m)
	}
	one, _, err := c.Scaling().GetPolicy(policy.ID, nil)
	if checkNoError(t, "policy", err) && (one.ID != policy.ID || *one.Min != 2 || *one.Max != 5 ||
		!*one.Enabled || one.Type != "horizontal" || one.Target["Job"] != "web/one" ||
		one.Namespace != "default") {
		t.Errorf("the policy is %+v", one)
	}
}
