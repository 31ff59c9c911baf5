package job

import (
	"berth/endpoints/query"
	"berth/state"
	"berth/structs"
)

// ScalingPolicies lists the policies of the jobs that are not stopped. A policy has no row: it is part of the
// group that it scales.
func (j Jobs) ScalingPolicies(
	tx *state.ReadTx, req *structs.ScalingPolicyListRequest, resp *structs.ScalingPolicyListResponse,
) (err error) {
	list := query.List[structs.ScalingPolicy, structs.ScalingPolicyListStub]{
		Key:  func(p *structs.ScalingPolicy) []string { return []string{p.ID} },
		Stub: func(p *structs.ScalingPolicy, s *structs.ScalingPolicyListStub) { *s = *p.Stub() },
		Keep: func(p *structs.ScalingPolicy) bool {
			return (req.Job == "" || p.JobID() == req.Job) && (req.Type == "" || p.Type == req.Type)
		},
	}
	rows := state.ScalingPoliciesFrom(tx, req.RequestNamespace(), req.Prefix, query.Start(req))
	resp.Policies, err = list.Page(rows, req, resp)
	return err
}

// ScalingPolicy reads a scaling policy. The error is not-found.
func (j Jobs) ScalingPolicy(
	tx *state.ReadTx, req *structs.ScalingPolicyGetRequest, resp *structs.ScalingPolicyGetResponse,
) error {
	resp.Policy = state.ScalingPolicy(tx, req.ID)
	if resp.Policy == nil {
		return structs.NotFoundf("there is no scaling policy %q", structs.Cut(req.ID, structs.MaxQuoted))
	}
	return nil
}
