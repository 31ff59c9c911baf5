package interop

import (
	"errors"
	"time"

	public "github.com/hashicorp/nomad/api"
)

// loginCalls write, read and delete auth methods and binding rules. Logins need access control, which is off
// in the cluster of the calls: TestPublicClient_LogsIn has them.
var loginCalls = []callRow{
	{"ACLAuthMethods.Create", func(f *callFixture) error {
		m, _, err := f.c.ACLAuthMethods().Create(methodOfCalls("https://ci.example.org/keys"), nil)
		return check(err, func() bool { return m.Name == "calls" && m.MaxTokenTTL == time.Hour }, m)
	}},
	{"ACLAuthMethods.List", func(f *callFixture) error {
		all, _, err := f.c.ACLAuthMethods().List(nil)
		return check(err, func() bool { return len(all) == 1 && all[0].Type == "JWT" && all[0].Default }, all)
	}},
	{"ACLAuthMethods.Get", func(f *callFixture) error {
		m, _, err := f.c.ACLAuthMethods().Get("calls", nil)
		return check(err, func() bool { return m.Config.BoundAudiences[0] == "berth" && !m.CreateTime.IsZero() }, m)
	}},
	{"ACLAuthMethods.Update", func(f *callFixture) error {
		m, _, err := f.c.ACLAuthMethods().Update(methodOfCalls("https://other.example.org/keys"), nil)
		return check(err, func() bool { return m.Config.JWKSURL == "https://other.example.org/keys" }, m)
	}},
	{"ACLBindingRules.Create", func(f *callFixture) error {
		r, _, err := f.c.ACLBindingRules().Create(ruleOfCalls(""), nil)
		return check(err, func() bool { return r.ID != "" && r.AuthMethod == "calls" }, r)
	}},
	{"ACLBindingRules.List", func(f *callFixture) error {
		_, err := onlyRule(f)
		return err
	}},
	{"ACLBindingRules.Get", func(f *callFixture) error {
		known, err := onlyRule(f)
		if err != nil {
			return err
		}
		r, _, err := f.c.ACLBindingRules().Get(known.ID, nil)
		return check(err, func() bool { return r.BindName == "calls" && r.Selector != "" }, r)
	}},
	{"ACLBindingRules.Update", func(f *callFixture) error {
		known, err := onlyRule(f)
		if err != nil {
			return err
		}
		r, _, err := f.c.ACLBindingRules().Update(ruleOfCalls(known.ID), nil)
		return check(err, func() bool { return r.ID == known.ID }, r)
	}},
	{"ACLBindingRules.Delete", func(f *callFixture) error {
		known, err := onlyRule(f)
		if err != nil {
			return err
		}
		_, err = f.c.ACLBindingRules().Delete(known.ID, nil)
		return err
	}},
	{"ACLAuthMethods.Delete", func(f *callFixture) error {
		_, err := f.c.ACLAuthMethods().Delete("calls", nil)
		return err
	}},
}

func methodOfCalls(keys string) *public.ACLAuthMethod {
	return &public.ACLAuthMethod{
		Name: "calls", Type: "JWT", TokenLocality: "local", MaxTokenTTL: time.Hour, Default: true,
		Config: &public.ACLAuthMethodConfig{
			JWKSURL:        keys,
			BoundAudiences: []string{"berth"},
			ClaimMappings:  map[string]string{"sub": "user"},
		},
	}
}

func ruleOfCalls(id string) *public.ACLBindingRule {
	return &public.ACLBindingRule{
		ID: id, AuthMethod: "calls", Selector: `value.user == "ann"`, BindType: "policy", BindName: "calls",
	}
}

// onlyRule returns the one binding rule of the cluster.
func onlyRule(f *callFixture) (*public.ACLBindingRuleListStub, error) {
	all, _, err := f.c.ACLBindingRules().List(nil)
	if err == nil && len(all) != 1 {
		err = errors.New("the cluster has not one binding rule")
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}
