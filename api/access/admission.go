package access

import (
	"context"

	"berth/api"
	"berth/structs"
	"berth/structs/admission"
)

var admissionRuleList = api.NewEndpoint(&table, api.Get, "/v1/admission/rules",
	api.ServeMethod(admission.RuleList, nil,
		func(a *admission.RuleListResponse) []*admission.Rule { return a.Rules }))

// AdmissionRules lists the admission rules by name.
func AdmissionRules(ctx context.Context, c *api.Client, q *api.Query) ([]*admission.Rule, *api.Meta, error) {
	return admissionRuleList.Fetch(ctx, c, "", q)
}

var admissionRuleGet = api.NewEndpoint(&table, api.Get, "/v1/admission/rule/{id}",
	api.ServeMethod(admission.RuleGet,
		api.WithID(func(q *admission.RuleGetRequest, id string) { q.Name = id }),
		func(a *admission.RuleGetResponse) *admission.Rule { return a.Rule }))

// AdmissionRule reads an admission rule.
func AdmissionRule(ctx context.Context, c *api.Client, name string) (*admission.Rule, error) {
	r, _, err := admissionRuleGet.Fetch(ctx, c, name, nil)
	return r, err
}

var admissionRulePut = api.NewEndpoint(&table, api.Put, "/v1/admission/rule/{id}",
	api.ServeMethod(admission.RulePut, bindAdmissionRule, api.Whole))

func bindAdmissionRule(c *api.Call, req *admission.RulePutRequest) error {
	req.Rule = &admission.Rule{}
	err := c.DecodeBody(req.Rule)
	if err == nil {
		err = c.SameID("admission rule", req.Rule.Name)
	}
	req.Rule.Name = c.ID()
	return err
}

// PutAdmissionRule creates or replaces an admission rule.
func PutAdmissionRule(ctx context.Context, c *api.Client, r *admission.Rule) error {
	return admissionRulePut.Exec(ctx, c, api.Request{ID: r.Name, Body: r})
}

var admissionRuleDelete = api.NewEndpoint(&table, api.Remove, "/v1/admission/rule/{id}",
	api.ServeMethod(admission.RuleDelete,
		api.WithID(func(q *admission.RuleDeleteRequest, id string) { q.Name = id }), api.Whole))

// DeleteAdmissionRule deletes an admission rule.
func DeleteAdmissionRule(ctx context.Context, c *api.Client, name string) error {
	return admissionRuleDelete.Exec(ctx, c, api.Request{ID: name})
}

// AdmissionTest is the body of a test: a rule, or the name of a stored one, and a job or a volume.
type AdmissionTest struct {
	Name   string
	Rule   *admission.Rule    `json:",omitempty"`
	Job    *structs.Job       `json:",omitempty"`
	Volume *structs.CSIVolume `json:",omitempty"`
}

var admissionRuleTest = api.NewEndpoint(&table, api.Put, "/v1/admission/test",
	api.ServeMethod(admission.RuleTest, bindAdmissionTest, api.Whole), api.HoldsJobs)

func bindAdmissionTest(c *api.Call, req *admission.RuleTestRequest) error {
	var b AdmissionTest
	err := c.DecodeBody(&b)
	req.Name = b.Name
	req.Rule = b.Rule
	req.Job = b.Job
	req.Volume = b.Volume
	return err
}

// TryAdmissionRule evaluates a rule on a job or a volume. Nothing is stored.
func TryAdmissionRule(
	ctx context.Context, c *api.Client, t *AdmissionTest,
) (*admission.RuleTestResponse, error) {
	return admissionRuleTest.Send(ctx, c, api.Request{Body: t})
}
