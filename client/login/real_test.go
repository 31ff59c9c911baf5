package login

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/taskdirs"
	"berth/client/drivers/driver"
	"berth/consul"
	"berth/consul/lookup"
	"berth/structs"
	"berth/test/consultest"
	"berth/vault/vaulttest"
)

// TestVault_VerifiesTheKeysOfTheServers logs in with an identity that the keys of the servers have signed.
// The role takes the claims of one job alone.
func TestVault_VerifiesTheKeysOfTheServers(t *testing.T) {
	fx := newFixture(t, structs.Vault{Role: "real"})
	s := consultest.NewSigner(t, "vault.io")
	fx.alloc.Identities = s.Of("a1")
	fx.vault.Set(func(v *vaulttest.Server) {
		v.Verify = nil
		v.JWKSURL = s.URL
		v.KV2["db"] = map[string]any{"password": "p"}
		v.Roles["real"] = vaulttest.Role{Audience: "vault.io", TTL: time.Hour, Paths: []string{"secret/data/db"},
			Claims: map[string]string{"nomad_job_id": "web", "nomad_namespace": "default", "nomad_task": "server"}}
	})
	fx.mustUp(fx.hook(), false)
	source := NewVaultSource(fx.cfg.Vault, fx.cfg.Keeper)
	answer, _ := ask(t, source, lookup.Query{Kind: lookup.VaultSecret, Name: "secret/db"}, 0)
	if answer.Data["data"].(map[string]any)["password"] != "p" {
		t.Errorf("got %v", answer.Data)
	}

	// Another job, another audience, and another key are denied.
	other := *s
	other.Job = "other"
	audience := *s
	audience.Audience = "consul.io"
	for want, ids := range map[string]*consultest.Signer{
		"nomad_job_id": &other,
		"audience":     &audience,
		"no known key": consultest.NewSigner(t, "vault.io"),
	} {
		fx.alloc.Identities = ids.Of("a1")
		_, err := fx.hook().subject.Account.Login(t.Context())
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "eyJ") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// withMethod gives a Consul the auth method, the binding rules and the policies of docs/operations.
func withMethod(t *testing.T, c *consultest.Agent, s *consultest.Signer, ttl time.Duration) {
	t.Helper()
	acl := c.API.ACL()
	_, _, err := acl.AuthMethodCreate(&api.ACLAuthMethod{
		Name:        consul.DefaultAuthMethod,
		Type:        "jwt",
		MaxTokenTTL: ttl,
		Config: map[string]any{
			"JWKSURL":          s.URL,
			"JWTSupportedAlgs": []string{"RS256"},
			"BoundAudiences":   []string{"consul.io"},
			"ClaimMappings": map[string]string{"nomad_namespace": "nomad_namespace", "nomad_job_id": "nomad_job_id",
				"nomad_task": "nomad_task", "nomad_service": "nomad_service"},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rules := `key_prefix "app/" { policy = "read" }`
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "tasks", Rules: rules}, nil)
	if err == nil {
		_, _, err = acl.RoleCreate(&api.ACLRole{Name: "nomad-tasks-default",
			Policies: []*api.ACLRolePolicyLink{{ID: policy.ID}}}, nil)
	}
	for _, rule := range []*api.ACLBindingRule{
		{BindType: api.BindingRuleBindTypeService, BindName: "${value.nomad_service}",
			Selector: `"nomad_service" in value`},
		{BindType: api.BindingRuleBindTypeRole, BindName: "nomad-tasks-${value.nomad_namespace}",
			Selector: `"nomad_service" not in value`},
	} {
		rule.AuthMethod = consul.DefaultAuthMethod
		if err == nil {
			_, _, err = acl.BindingRuleCreate(rule, nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newLink makes a link whose own token may neither write services nor read keys.
func newLink(t *testing.T, c *consultest.Agent) *consul.Link {
	t.Helper()
	conf := consul.DefaultConfig()
	conf.Address = c.Addr
	conf.Token = structs.Secret(c.Token(`agent_prefix "" { policy = "read" } node_prefix "" { policy = "read" }
		service_prefix "" { policy = "read" }`))
	link, err := consul.New(conf, t.Name(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		link.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return link
}

// await waits until a real Consul has done something in its own time.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// tokensOf returns the tokens that logins have made.
func tokensOf(t *testing.T, c *consultest.Agent) (list []*api.ACLTokenListEntry) {
	t.Helper()
	all, _, err := c.API.ACL().TokenList(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range all {
		if token.AuthMethod == consul.DefaultAuthMethod {
			list = append(list, token)
		}
	}
	return list
}

// TestConsul_ByIdentity has a real Consul verify identities by the keys of the servers: a service is
// registered, and a template reads a key, with tokens of logins. The agent's own token could do neither.
func TestConsul_ByIdentity(t *testing.T) {
	c := consultest.Start(t, consultest.Options{ACLs: true})
	s := consultest.NewSigner(t, "consul.io")
	withMethod(t, c, s, 0)
	if _, err := c.API.KV().Put(&api.KVPair{Key: "app/limit", Value: []byte("10")}, nil); err != nil {
		t.Fatal(err)
	}
	fx := newFixture(t, structs.Vault{})
	fx.alloc.Identities = s.Of("a1")
	link := newLink(t, c)
	fx.cfg.Consul = link
	service := &structs.Service{Name: "api", Provider: structs.ServiceProviderConsul,
		Identity: &structs.WorkloadIdentity{Name: "consul-service_api-http"}}
	fx.alloc.Group.Services = []*structs.Service{service}
	fx.task.Identities = []*structs.WorkloadIdentity{{Name: structs.ConsulIdentity}}

	allocHook := NewServices(fx.cfg, fx.alloc)
	if err := allocHook.Up(t.Context(), fx.alloc); err != nil {
		t.Fatal(err)
	}
	id := consul.TaskServiceID(service.InstanceID("a1", ""))
	link.Put("a1", []*consul.Service{{ID: id, Name: "api", Port: 80}})
	await(t, "the service is in Consul", func() bool {
		all, err := c.API.Agent().Services()
		return err == nil && all[id] != nil
	})

	task := NewConsul(fx.cfg, fx.alloc, fx.task)
	env := fx.env(false)
	if err := task.Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(taskdirs.Secrets(fx.alloc.Dir, "server"), driver.ConsulTokenFile))
	if err != nil || env.Config.Env["CONSUL_HTTP_TOKEN"] != string(text) || len(text) < 30 ||
		env.Config.Env["CONSUL_TOKEN"] != string(text) {
		t.Errorf("got %v, %d bytes, %v", env.Config.Env, len(text), err)
	}
	source := &ConsulSource{Link: link, Keeper: fx.cfg.Keeper}
	key, err := lookup.ParseKey("app/limit")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Lookup(t.Context(), key, 0, 0); !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("the agent's token reads the key: %v", err)
	}
	key.As = asTask
	answer, err := source.Lookup(t.Context(), key, 0, 0)
	if err != nil || answer.Value.(*lookup.KeyPair).Value != "10" {
		t.Errorf("got %v, %v", answer, err)
	}
	key.Name = "other"
	_, err = source.Lookup(t.Context(), key, 0, 0)
	if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), "the task's token") {
		t.Errorf("the task reads another key: %v", err)
	}
	if n := len(tokensOf(t, c)); n != 2 {
		t.Errorf("got %d tokens of logins", n)
	}

	if err := task.Down(t.Context()); err != nil {
		t.Error(err)
	}
	if err := allocHook.Down(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(tokensOf(t, c)); n != 0 {
		t.Errorf("%d tokens are left", n)
	}
}

// TestConsul_RegistersAgainWithAnotherToken: Consul renews no token, so another login follows before its end.
func TestConsul_RegistersAgainWithAnotherToken(t *testing.T) {
	c := consultest.Start(t, consultest.Options{ACLs: true})
	s := consultest.NewSigner(t, "consul.io")
	withMethod(t, c, s, time.Minute) // the least of Consul
	fx := newFixture(t, structs.Vault{})
	fx.alloc.Identities = s.Of("a1")
	link := newLink(t, c)
	fx.cfg.Consul = link
	service := &structs.Service{Name: "api", Provider: structs.ServiceProviderConsul,
		Identity: &structs.WorkloadIdentity{Name: "consul-service_api-http"}}
	fx.alloc.Group.Services = []*structs.Service{service}
	hook := NewServices(fx.cfg, fx.alloc).(*services)
	if err := hook.Up(t.Context(), fx.alloc); err != nil {
		t.Fatal(err)
	}
	key := hook.list[0].subject.Key
	id := hook.list[0].id
	link.Put("a1", []*consul.Service{{ID: id, Name: "api", Port: 80}})
	await(t, "the first login", func() bool { return fx.cfg.Keeper.secret(key) != "" })
	first := fx.cfg.Keeper.secret(key)
	await(t, "another login", func() bool {
		now := fx.cfg.Keeper.secret(key)
		return now != "" && now != first
	})
	// The service stays when the first token has ended, because Consul has it with the other one.
	await(t, "the end of the first token", func() bool {
		_, err := link.LookUpToken(t.Context(), first)
		return structs.IsKind(err, structs.KindDenied)
	})
	all, err := c.API.Agent().Services()
	if err != nil || all[id] == nil {
		t.Errorf("got %v, %v", all, err)
	}
	if err := hook.Down(t.Context()); err != nil {
		t.Error(err)
	}
}
