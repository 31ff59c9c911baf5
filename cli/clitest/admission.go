package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/admission"
)

// answerAdmission answers the requests about admission rules. The one rule denies all in its tests.
func (w *Cluster) answerAdmission() {
	rule := &admission.Rule{
		Name:        "few",
		Description: "Keeps jobs small",
		On:          admission.OnJob,
		Mode:        admission.ModeDeny,
		Namespaces:  []string{"team-*"},
		Expression:  "job.TaskGroups.all(g, g.Count <= 3)",
		Message:     "at most 3 instances",
	}
	apitest.Answer(w.Caller, admission.RuleList, admission.RuleListResponse{Rules: []*admission.Rule{rule}})
	apitest.Answer(w.Caller, admission.RuleGet, admission.RuleGetResponse{Rule: rule})
	apitest.Answer(w.Caller, admission.RulePut, structs.Empty{})
	apitest.Answer(w.Caller, admission.RuleDelete, structs.Empty{})
	apitest.On(w.Caller, admission.RuleTest, answerTest)
}

func answerTest(_ context.Context, r *admission.RuleTestRequest) (*admission.RuleTestResponse, error) {
	switch {
	case r.Rule == nil:
		return &admission.RuleTestResponse{
			Rule:    r.Name,
			Applies: true,
			Message: `admission rule "few" denies job "` + r.Job.ID + `": at most 3 instances`,
		}, nil
	case r.Rule.Mode == admission.ModeWarn:
		return &admission.RuleTestResponse{
			Rule:     r.Rule.Name,
			Applies:  true,
			Admitted: true,
			Message:  `admission rule "w" warns about volume "` + r.Volume.ID + `": it is large`,
		}, nil
	}
	return &admission.RuleTestResponse{
		Rule:     r.Rule.Name,
		Applies:  r.Rule.On == admission.OnJob,
		Admitted: true,
	}, nil
}
