package interop

import (
	"errors"

	public "github.com/hashicorp/nomad/api"
)

// aclCalls write, read and delete policies, roles and tokens. Access control is off in the cluster of the
// calls, so they need no token: TestPeersCommandLine_ControlsAccess has one with it. A call that leaves
// something for the next ones keeps it in the fixture.
var aclCalls = []callRow{
	{"ACLPolicies.Upsert", func(f *callFixture) error {
		p := &public.ACLPolicy{Name: "calls", Description: "d", Rules: "node {\n  policy = \"read\"\n}\n"}
		_, err := f.c.ACLPolicies().Upsert(p, nil)
		return err
	}},
	{"ACLPolicies.List", func(f *callFixture) error {
		all, _, err := f.c.ACLPolicies().List(nil)
		return check(err, func() bool { return len(all) == 1 && all[0].Name == "calls" }, all)
	}},
	{"ACLPolicies.Info", func(f *callFixture) error {
		p, _, err := f.c.ACLPolicies().Info("calls", nil)
		return check(err, func() bool { return p.Description == "d" && p.Rules != "" && p.ModifyIndex > 0 }, p)
	}},
	{"ACLPolicies.Self", func(f *callFixture) error {
		all, _, err := f.c.ACLPolicies().Self(nil)
		return check(err, func() bool { return len(all) == 1 }, all)
	}},

	{"ACLRoles.Create", func(f *callFixture) error {
		r, _, err := f.c.ACLRoles().Create(roleOfCalls(""), nil)
		return check(err, func() bool { return r.ID != "" && r.Name == "calls" }, r)
	}},
	{"ACLRoles.List", func(f *callFixture) error {
		_, err := onlyRole(f)
		return err
	}},
	{"ACLRoles.Get", func(f *callFixture) error {
		known, err := onlyRole(f)
		if err != nil {
			return err
		}
		r, _, err := f.c.ACLRoles().Get(known.ID, nil)
		return check(err, func() bool { return len(r.Policies) == 1 }, r)
	}},
	{"ACLRoles.GetByName", func(f *callFixture) error {
		r, _, err := f.c.ACLRoles().GetByName("calls", nil)
		return check(err, func() bool { return r.Policies[0].Name == "calls" }, r)
	}},
	{"ACLRoles.Update", func(f *callFixture) error {
		known, err := onlyRole(f)
		if err != nil {
			return err
		}
		r, _, err := f.c.ACLRoles().Update(roleOfCalls(known.ID), nil)
		return check(err, func() bool { return r.ID == known.ID }, r)
	}},

	{"ACLTokens.Create", func(f *callFixture) error {
		t, _, err := f.c.ACLTokens().Create(tokenOfCalls(), nil)
		return check(err, func() bool { return t.SecretID != "" && t.Roles[0].Name == "calls" }, t)
	}},
	{"ACLTokens.List", func(f *callFixture) error {
		_, err := onlyToken(f)
		return err
	}},
	{"ACLTokens.Info", func(f *callFixture) error {
		known, err := onlyToken(f)
		if err != nil {
			return err
		}
		t, _, err := f.c.ACLTokens().Info(known.AccessorID, nil)
		return check(err, func() bool { return t.Name == "calls" && !t.CreateTime.IsZero() }, t)
	}},
	{"ACLTokens.Update", func(f *callFixture) error {
		known, err := onlyToken(f)
		if err != nil {
			return err
		}
		change := tokenOfCalls()
		change.AccessorID = known.AccessorID
		change.Name = "changed"
		t, _, err := f.c.ACLTokens().Update(change, nil)
		return check(err, func() bool { return t.Name == "changed" }, t)
	}},
	{"ACLTokens.Self", func(f *callFixture) error {
		made, _, err := f.c.ACLTokens().Create(tokenOfCalls(), nil)
		if err != nil {
			return err
		}
		own, _, err := f.c.ACLTokens().Self(&public.QueryOptions{AuthToken: made.SecretID})
		if err == nil {
			_, err = f.c.ACLTokens().Delete(made.AccessorID, nil)
		}
		return check(err, func() bool { return own.AccessorID == made.AccessorID }, own)
	}},
	{"ACLTokens.Delete", func(f *callFixture) error {
		known, err := onlyToken(f)
		if err != nil {
			return err
		}
		_, err = f.c.ACLTokens().Delete(known.AccessorID, nil)
		return err
	}},
	{"ACLTokens.Bootstrap", func(f *callFixture) error {
		t, _, err := f.c.ACLTokens().Bootstrap(nil)
		return check(err, func() bool { return t.SecretID != "" && t.Type == "management" }, t)
	}},
	{"ACLRoles.Delete", func(f *callFixture) error {
		known, err := onlyRole(f)
		if err != nil {
			return err
		}
		_, err = f.c.ACLRoles().Delete(known.ID, nil)
		return err
	}},
	{"ACLPolicies.Delete", func(f *callFixture) error {
		_, err := f.c.ACLPolicies().Delete("calls", nil)
		return err
	}},
}

func roleOfCalls(id string) *public.ACLRole {
	return &public.ACLRole{ID: id, Name: "calls", Policies: []*public.ACLRolePolicyLink{{Name: "calls"}}}
}

func tokenOfCalls() *public.ACLToken {
	return &public.ACLToken{Name: "calls", Type: "client", Roles: []*public.ACLTokenRoleLink{{Name: "calls"}}}
}

// onlyRole returns the one role of the cluster.
func onlyRole(f *callFixture) (*public.ACLRoleListStub, error) {
	all, _, err := f.c.ACLRoles().List(nil)
	if err == nil && len(all) != 1 {
		err = errors.New("the cluster has not one role")
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// onlyToken returns the one token of the cluster.
func onlyToken(f *callFixture) (*public.ACLTokenListStub, error) {
	all, _, err := f.c.ACLTokens().List(nil)
	if err == nil && len(all) != 1 {
		err = errors.New("the cluster has not one token")
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}
