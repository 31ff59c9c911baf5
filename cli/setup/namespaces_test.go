package setup

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"berth/cli/clitest"
	"berth/consul"
	"berth/structs/access"
)

// prepare runs the command for a namespace, whose tasks may read the keys below its name, and checks that it
// makes the policy and the role of the namespace and nothing else.
func (fx *fixture) prepare(namespace string, args ...string) {
	fx.Helper()
	rules := filepath.Join(fx.TempDir(), "rules.hcl")
	clitest.WriteFile(fx.T, rules, []byte(rulesOf(namespace)))
	args = append([]string{"-namespace", namespace, "-policy-file", rules}, args...)
	code, out, errs := fx.run("", append(args, "-check")...)
	if code != 1 || !strings.Contains(out, "create  policy ") || !strings.Contains(out, "create  role ") ||
		!strings.Contains(out, "2 objects would be") {
		fx.Errorf("-check for %s: got exit code %d\n%s%s", namespace, code, out, errs)
	}
	fx.must("Created the role nomad-tasks-"+namespace+"\n", args...)
}

func rulesOf(namespace string) string { return `key_prefix "` + namespace + `/" { policy = "read" }` }

// rulesInConsul returns the rules of the policy of a namespace.
func (fx *fixture) rulesInConsul(namespace string) string {
	fx.Helper()
	policy, _, err := fx.acl.PolicyReadByName("nomad-tasks-"+namespace, nil)
	if err != nil || policy == nil {
		fx.Fatalf("the policy of %s: %v, %v", namespace, policy, err)
	}
	return policy.Rules
}

// checkTask logs a task of a namespace in, which may read the keys of its own namespace alone.
func (fx *fixture) checkTask(namespace string, all []string) {
	fx.Helper()
	fx.signer.Namespace = namespace
	task := fx.logIn(access.IdentityOfTask, "server")
	if len(task.Roles) != 1 || task.Roles[0].Name != "nomad-tasks-"+namespace || len(task.Policies) > 0 {
		fx.Errorf("the token of a task in %s is %+v", namespace, task)
	}
	query := &api.QueryOptions{Token: task.SecretID}
	for _, of := range all {
		pair, _, err := fx.consul.API.KV().Get(of+"/key", query)
		denied := consul.IsRejected(err, http.StatusForbidden)
		if reads := err == nil && pair != nil; reads != (of == namespace) || !reads && !denied {
			fx.Errorf("a task in %s reads the key of %s: %v, %v", namespace, of, pair, err)
		}
	}
}

// checkNoLogin checks that a task of a namespace gets no token.
func (fx *fixture) checkNoLogin(namespace string) {
	fx.Helper()
	fx.signer.Namespace = namespace
	task := access.WantedIdentity{AllocID: "a1", Kind: access.IdentityOfTask, Workload: "t"}
	jwt, err := fx.signer.Identity(task)
	if err != nil {
		fx.Fatal(err)
	}
	params := &api.ACLLoginParams{AuthMethod: consul.DefaultAuthMethod, BearerToken: string(jwt)}
	token, _, err := fx.acl.Login(params, nil)
	if !consul.IsRejected(err, http.StatusForbidden) {
		fx.Errorf("a task in %s gets the token %+v, %v", namespace, token, err)
	}
}

// TestConsul_HasRightsForEachNamespace after one run for each. The runs share the auth method and the rules.
func TestConsul_HasRightsForEachNamespace(t *testing.T) {
	fx := newFixture(t)
	before := fx.objects()
	fx.must("Created the auth method", "-jwks-url", fx.signer.URL)
	prepared := []string{"prod", "dev"}
	for _, namespace := range prepared {
		pair := &api.KVPair{Key: namespace + "/key", Value: []byte("v")}
		if _, err := fx.consul.API.KV().Put(pair, nil); err != nil {
			t.Fatal(err)
		}
		fx.checkNoLogin(namespace)
		fx.prepare(namespace)
	}
	fx.checkTask("prod", prepared)
	fx.checkTask("dev", prepared)
	fx.checkTask("default", prepared)
	fx.checkNoLogin("stage")

	// A run for one namespace leaves the rights of the others as they are.
	rules := filepath.Join(t.TempDir(), "rules.hcl")
	clitest.WriteFile(t, rules, []byte(`key "dev/key" { policy = "read" }`))
	fx.must("Changed the policy nomad-tasks-dev\n", "-namespace", "dev", "-policy-file", rules)
	if got := fx.rulesInConsul("prod"); got != rulesOf("prod") {
		t.Errorf("the tasks of prod have the rules %s", got)
	}
	if got := fx.rulesInConsul("default"); strings.Contains(got, "key") {
		t.Errorf("the tasks of default have the rules %s", got)
	}
	for _, namespace := range append(prepared, "default") {
		fx.must("Nothing is to be done.", "-namespace", namespace)
	}

	fx.fails(2, "names one namespace", "-namespace", "prod,stage")
	if role, _, err := fx.acl.RoleReadByName("nomad-tasks-stage", nil); role != nil || err != nil {
		t.Errorf("got the role %v, %v", role, err)
	}

	fx.must("Deleted the auth method", "-namespace", "prod", "-destroy")
	fx.checkObjects(before)
	fx.checkNoLogin("prod")
}
