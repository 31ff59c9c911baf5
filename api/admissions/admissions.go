// Package admissions has the routes of admission rules, each with the call of the client.
package admissions

import (
	"context"

	"berth/api"
	"berth/structs"
	"berth/structs/admission"
)

var ruleList = api.NewEndpoint(api.Get, "/v1/admission/rules",
	api.ServeMethod(admission.RuleList, nil,
		func(a *admission.RuleListResponse) []*admission.Rule { return a.Rules }))

// Rules lists the admission rules by name.
func Rules(ctx context.Context, c *api.Client, q *api.Query) ([]*admission.Rule, *api.Meta, error) {
	return ruleList.Fetch(ctx, c, "", q)
}

var ruleGet = api.NewEndpoint(api.Get, "/v1/admission/rule/{id}",
	api.ServeMethod(admission.RuleGet,
		api.WithID(func(q *admission.RuleGetRequest, id string) { q.Name = id }),
		func(a *admission.RuleGetResponse) *admission.Rule { return a.Rule }))

// Rule reads an admission rule.
func Rule(ctx context.Context, c *api.Client, name string) (*admission.Rule, error) {
	r, _, err := ruleGet.Fetch(ctx, c, name, nil)
	return r, err
}

var rulePut = api.NewEndpoint(api.Put, "/v1/admission/rule/{id}",
	api.ServeMethod(admission.RulePut, bindRule, api.Whole))

func bindRule(c *api.Call, req *admission.RulePutRequest) error {
	req.Rule = &admission.Rule{}
	err := c.DecodeBody(req.Rule)
	if err == nil {
		err = c.SameID("admission rule", req.Rule.Name)
	}
	req.Rule.Name = c.ID()
	return err
}

// PutRule creates or replaces an admission rule.
func PutRule(ctx context.Context, c *api.Client, r *admission.Rule) error {
	return rulePut.Exec(ctx, c, api.Request{ID: r.Name, Body: r})
}

var ruleDelete = api.NewEndpoint(api.Remove, "/v1/admission/rule/{id}",
	api.ServeMethod(admission.RuleDelete,
		api.WithID(func(q *admission.RuleDeleteRequest, id string) { q.Name = id }), api.Whole))

// DeleteRule deletes an admission rule.
func DeleteRule(ctx context.Context, c *api.Client, name string) error {
	return ruleDelete.Exec(ctx, c, api.Request{ID: name})
}

// Test is the body of a test: a rule, or the name of a stored one, and a job or a volume.
type Test struct {
	Name   string
	Rule   *admission.Rule    `json:",omitempty"`
	Job    *structs.Job       `json:",omitempty"`
	Volume *structs.CSIVolume `json:",omitempty"`
}

var ruleTest = api.NewEndpoint(api.Put, "/v1/admission/test",
	api.ServeMethod(admission.RuleTest, bindTest, api.Whole), api.HoldsJobs)

func bindTest(c *api.Call, req *admission.RuleTestRequest) error {
	var b Test
	err := c.DecodeBody(&b)
	req.Name = b.Name
	req.Rule = b.Rule
	req.Job = b.Job
	req.Volume = b.Volume
	return err
}

// TestRule evaluates a rule on a job or a volume. Nothing is stored.
func TestRule(ctx context.Context, c *api.Client, t *Test) (*admission.RuleTestResponse, error) {
	return ruleTest.Send(ctx, c, api.Request{Body: t})
}
