package interop

import (
	"strings"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"
)

// managed is a resource of access control or of quotas by the calls of the public provider of OpenTofu. Each
// apply is followed by a read, which has to have what was applied.
type managed struct {
	name   string
	create func() error
	change func() error
	read   func() (holds bool, err error)
	remove func() error
}

// TestClient_ManagesAccessLikeTheProvider makes the calls of the resources of access control and of quotas:
// it creates, reads, changes and deletes each, and asks whether it is still there.
func TestClient_ManagesAccessLikeTheProvider(t *testing.T) {
	t.Parallel()
	_, c := startLoginAgent(t)
	for _, m := range []managed{
		policyOfProvider(c), roleOfProvider(c), tokenOfProvider(c), methodOfProvider(c), quotaOfProvider(c),
	} {
		for _, step := range []func() error{m.create, m.change} {
			checkNoError(t, "an apply of "+m.name, step())
			holds, err := m.read()
			if err != nil || !holds {
				t.Errorf("%s: the read has what was applied: %t, %v", m.name, holds, err)
			}
		}
		checkNoError(t, "deleting "+m.name, m.remove())
		_, err := m.read()
		if err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("%s: after the deletion: got %v, want the status 404", m.name, err)
		}
	}
}

func policyOfProvider(c *public.Client) managed {
	p := &public.ACLPolicy{Name: "tf", Description: "d", Rules: "node {\n  policy = \"read\"\n}\n"}
	apply := func() error {
		_, err := c.ACLPolicies().Upsert(p, nil)
		return err
	}
	return managed{"a policy", apply, func() error {
		p.Description = "changed"
		return apply()
	}, func() (bool, error) {
		got, _, err := c.ACLPolicies().Info("tf", nil)
		return err == nil && got.Rules == p.Rules && got.Description == p.Description, err
	}, func() error {
		_, err := c.ACLPolicies().Delete("tf", nil)
		return err
	}}
}

func roleOfProvider(c *public.Client) managed {
	r := &public.ACLRole{Name: "tf", Policies: []*public.ACLRolePolicyLink{{Name: "of-role"}}}
	return managed{"a role", func() error {
		p := &public.ACLPolicy{Name: "of-role", Rules: "node {\n  policy = \"read\"\n}\n"}
		_, err := c.ACLPolicies().Upsert(p, nil)
		if err != nil {
			return err
		}
		made, _, err := c.ACLRoles().Create(r, nil)
		if err == nil {
			r.ID = made.ID
		}
		return err
	}, func() error {
		r.Description = "changed"
		_, _, err := c.ACLRoles().Update(r, nil)
		return err
	}, func() (bool, error) {
		got, _, err := c.ACLRoles().Get(r.ID, nil)
		return err == nil && got.Name == "tf" && got.Description == r.Description && len(got.Policies) == 1, err
	}, func() error {
		_, err := c.ACLRoles().Delete(r.ID, nil)
		return err
	}}
}

// tokenOfProvider has a token whose reads lack the secret: the servers have its hash alone.
func tokenOfProvider(c *public.Client) managed {
	token := &public.ACLToken{Name: "tf", Type: "client", Policies: []string{"of-role"}}
	return managed{"a token", func() error {
		made, _, err := c.ACLTokens().Create(token, nil)
		if err == nil {
			token.AccessorID = made.AccessorID
		}
		return err
	}, func() error {
		token.Name = "changed"
		_, _, err := c.ACLTokens().Update(token, nil)
		return err
	}, func() (bool, error) {
		got, _, err := c.ACLTokens().Info(token.AccessorID, nil)
		return err == nil && got.Name == token.Name && len(got.Policies) == 1 && got.SecretID == "" &&
			!got.CreateTime.IsZero(), err
	}, func() error {
		_, err := c.ACLTokens().Delete(token.AccessorID, nil)
		return err
	}}
}

// methodOfProvider has an auth method with all that the provider sends of one. A read has no secret.
func methodOfProvider(c *public.Client) managed {
	m := &public.ACLAuthMethod{
		Name: "tf", Type: "OIDC", TokenLocality: "local", MaxTokenTTL: time.Hour,
		TokenNameFormat: "${auth_method_type}-${auth_method_name}",
		Config: &public.ACLAuthMethodConfig{
			OIDCDiscoveryURL: "https://id.example.org", OIDCClientID: "berth", OIDCClientSecret: "client-secret",
			OIDCScopes: []string{"groups"}, BoundAudiences: []string{"berth"},
			AllowedRedirectURIs: []string{"http://localhost:4649/oidc/callback"},
			ListClaimMappings:   map[string]string{"groups": "groups"},
		},
	}
	return managed{"an auth method", func() error {
		_, _, err := c.ACLAuthMethods().Create(m, nil)
		return err
	}, func() error {
		m.MaxTokenTTL = 2 * time.Hour
		_, _, err := c.ACLAuthMethods().Update(m, nil)
		return err
	}, func() (bool, error) {
		got, _, err := c.ACLAuthMethods().Get("tf", nil)
		return err == nil && got.MaxTokenTTL == m.MaxTokenTTL && got.TokenNameFormat == m.TokenNameFormat &&
			got.Config.OIDCClientSecret == "redacted" && got.Config.OIDCScopes[0] == "groups", err
	}, func() error {
		_, err := c.ACLAuthMethods().Delete("tf", nil)
		return err
	}}
}

// quotaOfProvider has a quota that a namespace names. The provider takes it from the namespace first.
func quotaOfProvider(c *public.Client) managed {
	q := &public.QuotaSpec{Name: "tf", Limits: []*public.QuotaLimit{{
		Region: "global", RegionLimit: &public.QuotaResources{CPU: new(1000), MemoryMB: new(512)},
	}}}
	apply := func() error {
		_, err := c.Quotas().Register(q, nil)
		return err
	}
	return managed{"a quota", apply, func() error {
		q.Description = "changed"
		err := apply()
		if err == nil {
			_, err = c.Namespaces().Register(&public.Namespace{Name: "team", Quota: "tf"}, nil)
		}
		return err
	}, func() (bool, error) {
		got, _, err := c.Quotas().Info("tf", nil)
		return err == nil && got.Description == q.Description && *got.Limits[0].RegionLimit.MemoryMB == 512, err
	}, func() error {
		all, _, err := c.Namespaces().List(nil)
		for _, ns := range all {
			if err == nil && ns.Quota == "tf" {
				ns.Quota = ""
				_, err = c.Namespaces().Register(ns, nil)
			}
		}
		if err == nil {
			_, err = c.Quotas().Delete("tf", nil)
		}
		return err
	}}
}
