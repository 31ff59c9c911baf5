package setup

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/cli/clitest"
	"berth/cli/command"
	"berth/consul"
	"berth/structs/access"
	"berth/test/consultest"
)

// fixture is a Consul with ACLs, which reads the keys of a cluster.
type fixture struct {
	*testing.T
	consul *consultest.Agent
	acl    *api.ACL
	signer *consultest.Signer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{
		T:      t,
		consul: consultest.Start(t, consultest.Options{ACLs: true}),
		signer: consultest.NewSigner(t, "consul.io"),
	}
	fx.acl = fx.consul.API.ACL()
	t.Setenv("CONSUL_HTTP_ADDR", fx.consul.Addr)
	t.Setenv("CONSUL_HTTP_TOKEN", consultest.ManagementToken)
	return fx
}

// run runs berth setup consul. No agent of berth answers.
func (fx *fixture) run(typed string, args ...string) (code int, out, errs string) {
	fx.Helper()
	tree := []command.Command{{Name: "setup", Sub: Commands}}
	args = append([]string{"setup", "consul", "-address", "http://127.0.0.1:1"}, args...)
	return clitest.RunTyped(fx.T, tree, typed, args...)
}

// must runs the command without a question, and checks that it succeeds and says something.
func (fx *fixture) must(says string, args ...string) {
	fx.Helper()
	code, out, errs := fx.run("", append(args, "-y")...)
	if code != 0 || !strings.Contains(out, says) {
		fx.Fatalf("%v: got exit code %d\n%s%s\nwant %q", args, code, out, errs, says)
	}
}

// fails checks that the command fails with an exit code and says something, and changes nothing.
func (fx *fixture) fails(want int, says string, args ...string) {
	fx.Helper()
	before := fx.objects()
	code, out, errs := fx.run("", append(args, "-y")...)
	if code != want || !strings.Contains(errs, says) {
		fx.Errorf("%v: got exit code %d\n%s%s\nwant %d and %q", args, code, out, errs, want, says)
	}
	fx.checkObjects(before)
}

// objects returns all ACLs of Consul but its tokens, with the times of their last changes.
func (fx *fixture) objects() string {
	fx.Helper()
	var all []any
	add := func(v any, err error) {
		fx.Helper()
		if err != nil {
			fx.Fatal(err)
		}
		all = append(all, v)
	}
	methods, _, err := fx.acl.AuthMethodList(nil)
	add(methods, err)
	for _, m := range methods {
		method, _, err := fx.acl.AuthMethodRead(m.Name, nil)
		add(method, err)
		rules, _, err := fx.acl.BindingRuleList(m.Name, nil)
		add(rules, err)
	}
	roles, _, err := fx.acl.RoleList(nil)
	add(roles, err)
	policies, _, err := fx.acl.PolicyList(nil)
	add(policies, err)
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		fx.Fatal(err)
	}
	return string(text)
}

func (fx *fixture) checkObjects(want string) {
	fx.Helper()
	if got := fx.objects(); got != want {
		fx.Errorf("Consul has\n%s\nwant\n%s", got, want)
	}
}

// logIn logs a workload of the namespace of the signer in.
func (fx *fixture) logIn(kind, workload string) *api.ACLToken {
	fx.Helper()
	jwt, err := fx.signer.Identity(access.WantedIdentity{AllocID: "a1", Kind: kind, Workload: workload})
	if err != nil {
		fx.Fatal(err)
	}
	params := &api.ACLLoginParams{AuthMethod: consul.DefaultAuthMethod, BearerToken: string(jwt)}
	token, _, err := fx.acl.Login(params, nil)
	if err != nil {
		fx.Fatal(err)
	}
	return token
}

// addOthers gives Consul objects of others, some with names like those of the command.
func (fx *fixture) addOthers() {
	fx.Helper()
	_, _, err := fx.acl.AuthMethodCreate(&api.ACLAuthMethod{
		Name:   "other",
		Type:   "jwt",
		Config: map[string]any{"JWKSURL": fx.signer.URL, "BoundAudiences": []string{"other"}},
	}, nil)
	if err == nil {
		_, _, err = fx.acl.BindingRuleCreate(&api.ACLBindingRule{AuthMethod: "other", BindName: "x",
			BindType: api.BindingRuleBindTypeService}, nil)
	}
	if err == nil {
		_, _, err = fx.acl.PolicyCreate(&api.ACLPolicy{Name: "nomad-tasks", Rules: `operator = "read"`}, nil)
	}
	if err == nil {
		_, _, err = fx.acl.RoleCreate(&api.ACLRole{Name: "nomad-tasks-other",
			Policies: []*api.ACLRolePolicyLink{{Name: "nomad-tasks"}}}, nil)
	}
	if err != nil {
		fx.Fatal(err)
	}
}

// TestConsul_TakesLogins: after the command services and tasks log in, a second run changes nothing, and
// -destroy leaves what was there before.
func TestConsul_TakesLogins(t *testing.T) {
	fx := newFixture(t)
	fx.addOthers()
	before := fx.objects()
	code, out, _ := fx.run("no\n", "-jwks-url", fx.signer.URL)
	if code != 6 || !strings.Contains(out, "create  auth method") {
		t.Errorf("the answer no: got exit code %d\n%s", code, out)
	}
	fx.checkObjects(before)

	code, out, errs := fx.run("yes\n", "-jwks-url", fx.signer.URL)
	if code != 0 {
		t.Fatalf("the answer yes: got exit code %d\n%s%s", code, out, errs)
	}
	clitest.CheckLines(t, out, "Created the auth method nomad-workloads\n",
		"Created the policy nomad-tasks-default\n", "Created the role nomad-tasks-default\n",
		"Created the binding rule service ${value.nomad_service}", "Created the binding rule role nomad-tasks-",
		`service_identity { aud = ["consul.io"] }`)

	service := fx.logIn(access.IdentityOfService, "api")
	if len(service.ServiceIdentities) != 1 || service.ServiceIdentities[0].ServiceName != "api" ||
		len(service.Roles) > 0 || service.ExpirationTime == nil {
		t.Errorf("the token of a service is %+v", service)
	}
	task := fx.logIn(access.IdentityOfTask, "server")
	if len(task.Roles) != 1 || task.Roles[0].Name != "nomad-tasks-default" || len(task.ServiceIdentities) > 0 {
		t.Errorf("the token of a task is %+v", task)
	}
	checkTaskRights(t, fx, task)

	made := fx.objects()
	fx.must("Nothing is to be done.", "-jwks-url", fx.signer.URL)
	fx.must("Nothing is to be done.")
	fx.checkObjects(made)

	fx.must("Created the role nomad-tasks-prod\n", "-namespace", "prod")
	fx.signer.Namespace = "prod"
	if prod := fx.logIn(access.IdentityOfTask, "server"); prod.Roles[0].Name != "nomad-tasks-prod" {
		t.Errorf("the token of a task in prod is %+v", prod)
	}

	fx.must("Deleted the auth method nomad-workloads\n", "-destroy")
	fx.checkObjects(before)
	fx.must("Nothing is to be done.", "-destroy")
}

// checkTaskRights checks that a task finds services, and reads no key.
func checkTaskRights(t *testing.T, fx *fixture, task *api.ACLToken) {
	t.Helper()
	if _, err := fx.consul.API.KV().Put(&api.KVPair{Key: "app/secret", Value: []byte("s")}, nil); err != nil {
		t.Fatal(err)
	}
	query := &api.QueryOptions{Token: task.SecretID}
	found, _, err := fx.consul.API.Health().Service("consul", "", false, query)
	if err != nil || len(found) != 1 {
		t.Errorf("the task finds %d services, %v", len(found), err)
	}
	pair, _, err := fx.consul.API.KV().Get("app/secret", query)
	if pair != nil || !consul.IsRejected(err, http.StatusForbidden) {
		t.Errorf("the task reads a key: %v, %v", pair, err)
	}
}

// TestConsul_ChangesWhatItHasMade by the options alone: what an operator has changed stays.
func TestConsul_ChangesWhatItHasMade(t *testing.T) {
	fx := newFixture(t)
	fx.must("Created", "-jwks-url", fx.signer.URL)
	rules := filepath.Join(t.TempDir(), "rules.hcl")
	clitest.WriteFile(t, rules, []byte(`key_prefix "app/" { policy = "read" }`))
	method, _, err := fx.acl.AuthMethodRead(consul.DefaultAuthMethod, nil)
	if err != nil {
		t.Fatal(err)
	}

	// The life of tokens is the operator's choice, and an audience is missing.
	method.MaxTokenTTL = time.Hour
	method.Config["BoundAudiences"] = []string{"own"}
	if _, _, err := fx.acl.AuthMethodUpdate(method, nil); err != nil {
		t.Fatal(err)
	}
	rule := fx.rule(api.BindingRuleBindTypeService)
	rule.BindName = "all"
	if _, _, err := fx.acl.BindingRuleUpdate(rule, nil); err != nil {
		t.Fatal(err)
	}
	before := fx.objects()
	code, out, _ := fx.run("", "-check", "-policy-file", rules)
	if code != 1 || !strings.Contains(out, "BoundAudiences lacks consul.io") ||
		!strings.Contains(out, "3 objects would be") {
		t.Errorf("-check: got exit code %d\n%s", code, out)
	}
	fx.checkObjects(before)

	other := consultest.NewSigner(t, "consul.io")
	fx.must("Changed the auth method", "-policy-file", rules, "-jwks-url", other.URL)
	method, _, err = fx.acl.AuthMethodRead(consul.DefaultAuthMethod, nil)
	if err != nil || method.MaxTokenTTL != time.Hour || method.Config["JWKSURL"] != other.URL ||
		!slices.Equal(method.Config["BoundAudiences"].([]any), []any{"own", "consul.io"}) {
		t.Errorf("the method is %+v, %v", method, err)
	}
	policy, _, err := fx.acl.PolicyReadByName("nomad-tasks-default", nil)
	if err != nil || !strings.Contains(policy.Rules, "app/") {
		t.Errorf("the policy is %+v, %v", policy, err)
	}
	fx.signer = other
	fx.logIn(access.IdentityOfService, "api")
	fx.must("Nothing is to be done.")
	fx.must("Nothing is to be done.", "-policy-file", rules, "-jwks-url", other.URL)

	// The role has other rights by now.
	role, _, err := fx.acl.RoleReadByName("nomad-tasks-default", nil)
	if err != nil {
		t.Fatal(err)
	}
	role.Policies = nil
	role.ServiceIdentities = []*api.ACLServiceIdentity{{ServiceName: "web"}}
	if _, _, err := fx.acl.RoleUpdate(role, nil); err != nil {
		t.Fatal(err)
	}
	fx.must("Nothing is to be done.")
	fx.must("Deleted the policy", "-destroy")
}

// rule returns the binding rule of a type.
func (fx *fixture) rule(kind api.BindingRuleBindType) *api.ACLBindingRule {
	fx.Helper()
	rules, _, err := fx.acl.BindingRuleList(consul.DefaultAuthMethod, nil)
	at := slices.IndexFunc(rules, func(r *api.ACLBindingRule) bool { return r.BindType == kind })
	if err != nil || at < 0 {
		fx.Fatalf("got %v, %v", rules, err)
	}
	return rules[at]
}

// TestConsul_LeavesObjectsOfOthers changes none, and -destroy takes nothing from them.
func TestConsul_LeavesObjectsOfOthers(t *testing.T) {
	fx := newFixture(t)
	fx.must("Created", "-jwks-url", fx.signer.URL)
	own := &api.ACLBindingRule{AuthMethod: consul.DefaultAuthMethod, BindName: "own",
		BindType: api.BindingRuleBindTypeService}
	own, _, err := fx.acl.BindingRuleCreate(own, nil)
	if err != nil {
		t.Fatal(err)
	}
	fx.fails(5, "the binding rule "+own.ID, "-destroy")
	if _, err := fx.acl.BindingRuleDelete(own.ID, nil); err != nil {
		t.Fatal(err)
	}
	for _, has := range []*api.ACLToken{
		{Policies: []*api.ACLTokenPolicyLink{{Name: "nomad-tasks-default"}}},
		{Roles: []*api.ACLTokenRoleLink{{Name: "nomad-tasks-default"}}},
	} {
		token, _, err := fx.acl.TokenCreate(has, nil)
		if err != nil {
			t.Fatal(err)
		}
		fx.fails(5, "the token "+token.AccessorID, "-destroy")
		if _, err := fx.acl.TokenDelete(token.AccessorID, nil); err != nil {
			t.Fatal(err)
		}
	}
	role, _, err := fx.acl.RoleCreate(&api.ACLRole{Name: "own",
		Policies: []*api.ACLRolePolicyLink{{Name: "nomad-tasks-default"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fx.fails(5, "the role own", "-destroy")
	if _, err := fx.acl.RoleDelete(role.ID, nil); err != nil {
		t.Fatal(err)
	}
	fx.fails(2, "exclude each other", "-destroy", "-jwks-url", fx.signer.URL)

	// Somebody else has the method and the role from now on.
	fx.disown()
	fx.fails(5, "somebody else has made the auth method nomad-workloads", "-jwks-url", "http://127.0.0.1:2")
	rules := filepath.Join(t.TempDir(), "rules.hcl")
	clitest.WriteFile(t, rules, []byte(`operator = "read"`))
	fx.fails(5, "somebody else has made the role", "-jwks-url", fx.signer.URL, "-policy-file", rules)
	fx.fails(5, "somebody else has made the policy", "-jwks-url", fx.signer.URL, "-namespace", "taken")
	before := fx.objects()
	fx.must("Nothing is to be done.", "-jwks-url", fx.signer.URL)
	fx.must("Nothing is to be done.", "-destroy")
	fx.checkObjects(before)
}

// disown makes the objects of the command those of somebody else, and adds a policy.
func (fx *fixture) disown() {
	fx.Helper()
	method, _, err := fx.acl.AuthMethodRead(consul.DefaultAuthMethod, nil)
	if err == nil {
		method.Description = ""
		_, _, err = fx.acl.AuthMethodUpdate(method, nil)
	}
	for _, kind := range []api.BindingRuleBindType{api.BindingRuleBindTypeService, api.BindingRuleBindTypeRole} {
		rule := fx.rule(kind)
		rule.Description = "By hand."
		if err == nil {
			_, _, err = fx.acl.BindingRuleUpdate(rule, nil)
		}
	}
	role, _, errRead := fx.acl.RoleReadByName("nomad-tasks-default", nil)
	policy, _, errPolicy := fx.acl.PolicyReadByName("nomad-tasks-default", nil)
	if err != nil || errRead != nil || errPolicy != nil {
		fx.Fatal(err, errRead, errPolicy)
	}
	role.Description = "mine"
	policy.Description = "mine"
	_, _, err = fx.acl.RoleUpdate(role, nil)
	if err == nil {
		_, _, err = fx.acl.PolicyUpdate(policy, nil)
	}
	if err == nil {
		_, _, err = fx.acl.PolicyCreate(&api.ACLPolicy{Name: "nomad-tasks-taken"}, nil)
	}
	if err != nil {
		fx.Fatal(err)
	}
}

// TestConsul_NamesTheRemedy of each fault, and changes nothing.
func TestConsul_NamesTheRemedy(t *testing.T) {
	fx := newFixture(t)
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	empty := filepath.Join(t.TempDir(), "empty")
	clitest.WriteFile(t, empty, []byte("\n"))
	keys := []string{"-jwks-url", fx.signer.URL}
	fx.fails(6, "Consul must reach "+broken.URL, "-jwks-url", broken.URL)
	fx.fails(2, `expected a URL that begins with http://`, "-jwks-url", "keys.json")
	fx.fails(2, "is empty", append(keys, "-policy-file", empty)...)
	fx.fails(2, "names one namespace", append(keys, "-namespace", "*")...)
	fx.fails(2, "choose a shorter namespace", append(keys, "-namespace", strings.Repeat("n", 120))...)
	fx.fails(7, "(-consul-address, CONSUL_HTTP_ADDR) does not answer",
		append(keys, "-consul-address", "127.0.0.1:1")...)
	fx.fails(2, "-consul-address", "-consul-address", "ftp://127.0.0.1:1")
	fx.fails(7, "127.0.0.1:1") // the agent, whose keys are the default
	fx.fails(2, "name the URL", "-address", fx.socketOfAgent())

	t.Setenv("CONSUL_HTTP_TOKEN", fx.consul.Token(`node_prefix "" { policy = "write" }`))
	fx.fails(3, `a token with acl = "write"`, keys...)
	t.Setenv("CONSUL_HTTP_TOKEN", fx.consul.Token(`acl = "read"`))
	fx.fails(3, `a token with acl = "write"`, keys...)

	plain := consultest.Start(t, consultest.Options{})
	fx.fails(6, "the ACLs of Consul are off", append(keys, "-consul-address", plain.Addr)...)
}

// socketOfAgent serves an agent without an issuer on a socket.
func (fx *fixture) socketOfAgent() string {
	fx.Helper()
	path := filepath.Join(fx.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		fx.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.NotFoundHandler()}}
	server.Start()
	fx.Cleanup(server.Close)
	return "unix://" + path
}

// TestConsul_ReadsTheKeysAtTheAgent unless its servers have an issuer.
func TestConsul_ReadsTheKeysAtTheAgent(t *testing.T) {
	fx := newFixture(t)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != keysPath {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, fx.signer.URL, http.StatusFound)
	}))
	defer agent.Close()
	code, out, errs := fx.run("", "-address", agent.URL, "-check", "-json")
	var answer outcome
	err := json.Unmarshal([]byte(out), &answer)
	if code != 1 || err != nil || answer.Consul != fx.consul.Addr || len(answer.Steps) != 5 ||
		!strings.HasSuffix(answer.Steps[0].Detail, agent.URL+keysPath) ||
		!strings.Contains(errs, "is one of this machine alone") {
		t.Errorf("got exit code %d, %v\n%s%s", code, err, out, errs)
	}

	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"jwks_uri": fx.signer.URL})
	}))
	defer issuer.Close()
	fx.must("verifies identities by the keys at "+fx.signer.URL, "-address", issuer.URL)
	fx.logIn(access.IdentityOfService, "api")
}

// TestConsul_AsksATerminalAlone: a script needs -y.
func TestConsul_AsksATerminalAlone(t *testing.T) {
	fx := newFixture(t)
	before := fx.objects()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var out, errs strings.Builder
	root := command.Command{Name: "berth", Sub: Commands}
	code := root.Main(t.Context(), []string{"consul", "-jwks-url", fx.signer.URL},
		command.Stdio{In: null, Out: &out, Err: &errs})
	if code != 2 || !strings.Contains(errs.String(), "the input is no terminal: set -y ") {
		t.Errorf("got exit code %d\n%s%s", code, out.String(), errs.String())
	}
	fx.checkObjects(before)
}
