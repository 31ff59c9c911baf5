package access

import (
	"context"
	"fmt"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/internal/admit"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/admission"
)

// AdmissionRules serves the methods of admission rules. The methods that store jobs and volumes ask
// core.Server.Admit.
type AdmissionRules struct {
	*core.Server
	// Job and Volume return an object of a request in the form in which a server would store it.
	Job    func(given *structs.Job, namespace string) (*structs.Job, error)
	Volume func(given *structs.CSIVolume, namespace string) (*structs.CSIVolume, error)
}

// List lists the rules by name.
func (AdmissionRules) List(
	tx *state.ReadTx, _ *structs.QueryRequest, resp *admission.RuleListResponse,
) error {
	resp.Rules = []*admission.Rule{}
	for r := range state.AdmissionRules(tx) {
		resp.Rules = append(resp.Rules, r)
	}
	return nil
}

// Rule reads a rule.
func (AdmissionRules) Rule(
	tx *state.ReadTx, req *admission.RuleGetRequest, resp *admission.RuleGetResponse,
) error {
	resp.Rule = state.AdmissionRule(tx, req.Name)
	if resp.Rule == nil {
		return state.NoAdmissionRule(req.Name)
	}
	return nil
}

// Put stores a rule whose expression compiles.
func (p AdmissionRules) Put(
	ctx context.Context, req *admission.RulePutRequest, _ *structs.Empty,
) (uint64, error) {
	err := p.check(req.Rule)
	if err != nil {
		return 0, err
	}
	return fsm.Propose(ctx, p.Raft, fsm.AdmissionRulePut, req)
}

func (p AdmissionRules) check(r *admission.Rule) error {
	err := state.CheckAdmissionRule(r)
	if err != nil {
		return err
	}

	err = p.Rules.Check(r)
	if err != nil {
		return fmt.Errorf("admission rule %q: Expression: %w", r.Name, err)
	}
	return nil
}

// Test evaluates a rule on a job or a volume as if it was registered now. Nothing is stored.
func (p AdmissionRules) Test(
	ctx context.Context, req *admission.RuleTestRequest,
) (*admission.RuleTestResponse, error) {
	tx := p.Store.Read()
	rule := req.Rule
	if rule == nil {
		rule = state.AdmissionRule(tx, req.Name)
	}
	if rule == nil {
		return nil, state.NoAdmissionRule(req.Name)
	}
	err := p.check(rule)
	if err != nil {
		return nil, err
	}

	in, err := p.input(tx, req)
	if err != nil {
		return nil, err
	}
	if in.On != rule.On {
		return nil, structs.Invalidf("admission rule %q is about a %s; the request has a %s", rule.Name, rule.On,
			in.On)
	}

	resp := &admission.RuleTestResponse{Rule: rule.Name, Admitted: true}
	resp.Applies = admit.Applies(rule, in.On, in.Namespace)
	if !resp.Applies {
		return resp, nil
	}

	in.Caller = core.CallerSeen(tx, p.Gate.CallerOf(ctx, tx))
	out := p.Rules.Evaluate(ctx, rule, in)
	resp.Cost = out.Cost
	if !out.Holds {
		resp.Message = admit.Line(rule, in, out)
		resp.Admitted = rule.Mode == admission.ModeWarn
	}
	return resp, nil
}

// input returns the object of a test.
func (p AdmissionRules) input(tx *state.ReadTx, req *admission.RuleTestRequest) (admit.Input, error) {
	ns := req.RequestNamespace()
	switch {
	case (req.Job == nil) == (req.Volume == nil):
		return admit.Input{}, structs.Invalidf("expected either a Job or a Volume")
	case req.Job != nil:
		job, err := p.Job(req.Job, ns)
		if err != nil {
			return admit.Input{}, err
		}
		return admit.OfJob(job, state.Job(tx, job.Namespace, job.ID)), nil
	}

	v, err := p.Volume(req.Volume, ns)
	if err != nil {
		return admit.Input{}, err
	}
	return admit.OfVolume(v, csi.Volume(tx, v.Namespace, v.ID)), nil
}
