package access

import (
	"context"

	"berth/api"
	"berth/structs"
	"berth/structs/access"
)

var methodList = api.NewEndpoint(&table, api.Get, "/v1/acl/auth-methods",
	api.ServeMethod(access.AuthMethodList, nil,
		func(a *access.AuthMethodListResponse) []*access.AuthMethodStub { return a.Methods }))

// AuthMethods lists the auth methods, without their configuration.
func AuthMethods(
	ctx context.Context, c *api.Client, q *api.Query,
) ([]*access.AuthMethodStub, *api.Meta, error) {
	return methodList.Fetch(ctx, c, "", q)
}

var methodGet = api.NewEndpoint(&table, api.Get, "/v1/acl/auth-method/{id}",
	api.ServeMethod(access.AuthMethodGet,
		api.WithID(func(q *access.AuthMethodGetRequest, name string) { q.Name = name }),
		func(a *access.AuthMethodGetResponse) *access.AuthMethod { return a.Method }))

// AuthMethod reads an auth method, without its secrets.
func AuthMethod(ctx context.Context, c *api.Client, name string) (*access.AuthMethod, error) {
	m, _, err := methodGet.Fetch(ctx, c, name, nil)
	return m, err
}

var (
	methodCreate = api.NewEndpoint(&table, api.Put, "/v1/acl/auth-method",
		api.ServeMethod(access.AuthMethodPut, bindMethod, methodOf))
	methodUpdate = api.NewEndpoint(&table, api.Put, "/v1/acl/auth-method/{id}",
		api.ServeMethod(access.AuthMethodPut, bindMethod, methodOf))
)

func methodOf(a *access.AuthMethodPutResponse) *access.AuthMethod { return a.Method }

// bindMethod takes the name of the path, if it has one.
func bindMethod(c *api.Call, req *access.AuthMethodPutRequest) error {
	req.Method = &access.AuthMethod{}
	err := c.DecodeBody(req.Method)
	if err != nil || c.ID() == "" {
		return err
	}
	err = c.SameID("auth method", req.Method.Name)
	req.Method.Name = c.ID()
	return err
}

// CreateAuthMethod creates an auth method, or changes the one with the name.
func CreateAuthMethod(ctx context.Context, c *api.Client, m *access.AuthMethod) (*access.AuthMethod, error) {
	return methodCreate.Send(ctx, c, api.Request{Body: m})
}

// UpdateAuthMethod changes an auth method. A part that m leaves out keeps its value, and so do secrets.
func UpdateAuthMethod(ctx context.Context, c *api.Client, m *access.AuthMethod) (*access.AuthMethod, error) {
	return methodUpdate.Send(ctx, c, api.Request{ID: m.Name, Body: m})
}

var methodDelete = api.NewEndpoint(&table, api.Remove, "/v1/acl/auth-method/{id}",
	api.ServeMethod(access.AuthMethodDelete,
		api.WithID(func(q *access.AuthMethodDeleteRequest, name string) { q.Name = name }), api.Whole))

// DeleteAuthMethod deletes an auth method with its binding rules.
func DeleteAuthMethod(ctx context.Context, c *api.Client, name string) error {
	return methodDelete.Exec(ctx, c, api.Request{ID: name})
}

var bindingRuleList = api.NewEndpoint(&table, api.Get, "/v1/acl/binding-rules",
	api.ServeMethod(access.BindingRuleList, nil,
		func(a *access.BindingRuleListResponse) []*access.BindingRuleStub { return a.Rules }))

// BindingRules lists the binding rules.
func BindingRules(
	ctx context.Context, c *api.Client, q *api.Query,
) ([]*access.BindingRuleStub, *api.Meta, error) {
	return bindingRuleList.Fetch(ctx, c, "", q)
}

var bindingRuleGet = api.NewEndpoint(&table, api.Get, "/v1/acl/binding-rule/{id}",
	api.ServeMethod(access.BindingRuleGet,
		api.WithID(func(q *access.BindingRuleGetRequest, id string) { q.ID = id }),
		func(a *access.BindingRuleGetResponse) *access.BindingRule { return a.Rule }))

// BindingRule reads a binding rule.
func BindingRule(ctx context.Context, c *api.Client, id string) (*access.BindingRule, error) {
	r, _, err := bindingRuleGet.Fetch(ctx, c, id, nil)
	return r, err
}

var (
	ruleCreate = api.NewEndpoint(&table, api.Put, "/v1/acl/binding-rule",
		api.ServeMethod(access.BindingRulePut, bindBindingRule, ruleOf))
	ruleUpdate = api.NewEndpoint(&table, api.Put, "/v1/acl/binding-rule/{id}",
		api.ServeMethod(access.BindingRulePut, bindBindingRule, ruleOf))
)

func ruleOf(a *access.BindingRulePutResponse) *access.BindingRule { return a.Rule }

// bindBindingRule takes the ID of the path. A rule that is created has none.
func bindBindingRule(c *api.Call, req *access.BindingRulePutRequest) error {
	req.Rule = &access.BindingRule{}
	err := c.DecodeBody(req.Rule)
	if err != nil {
		return err
	}

	if c.ID() == "" && req.Rule.ID != "" {
		return structs.Invalidf("ID: expected none for a new binding rule; the path of a change has it")
	}
	err = c.SameID("binding rule", req.Rule.ID)
	req.Rule.ID = c.ID()
	return err
}

// PutBindingRule creates a binding rule, or changes the one with the ID. A part that r leaves out keeps its
// value.
func PutBindingRule(ctx context.Context, c *api.Client, r *access.BindingRule) (*access.BindingRule, error) {
	if r.ID == "" {
		return ruleCreate.Send(ctx, c, api.Request{Body: r})
	}
	return ruleUpdate.Send(ctx, c, api.Request{ID: r.ID, Body: r})
}

var bindingRuleDelete = api.NewEndpoint(&table, api.Remove, "/v1/acl/binding-rule/{id}",
	api.ServeMethod(access.BindingRuleDelete,
		api.WithID(func(q *access.BindingRuleDeleteRequest, id string) { q.ID = id }), api.Whole))

// DeleteBindingRule deletes a binding rule.
func DeleteBindingRule(ctx context.Context, c *api.Client, id string) error {
	return bindingRuleDelete.Exec(ctx, c, api.Request{ID: id})
}
