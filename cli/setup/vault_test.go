package setup

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/cli/clitest"
	"berth/cli/command"
)

const vaultToken = "s.hunter2"

// vaultServer keeps what is written to the paths of Vault's API, and records the writes.
type vaultServer struct {
	*testing.T
	url string

	mu       sync.Mutex
	paths    map[string]map[string]any // what is written, by its path
	writes   []string
	accessor int
	status   int // of each answer, 0: as the request asks
}

func newVault(t *testing.T) *vaultServer {
	t.Helper()
	v := &vaultServer{T: t, paths: map[string]map[string]any{}}
	srv := httptest.NewServer(v)
	t.Cleanup(srv.Close)
	v.url = srv.URL
	t.Setenv("VAULT_ADDR", srv.URL)
	t.Setenv("VAULT_TOKEN", vaultToken)
	return v
}

// ServeHTTP has the objects below the paths to which they are written, as Vault does.
func (v *vaultServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	var data map[string]any
	switch {
	case v.status != 0 || r.Header.Get("X-Vault-Token") != vaultToken:
		w.WriteHeader(max(v.status, http.StatusForbidden))
		return
	case r.Method == "GET" && path == "sys/auth":
		data = map[string]any{"token/": map[string]any{"type": "token"}}
		for at, method := range v.paths {
			if name, ok := strings.CutPrefix(at, "sys/auth/"); ok {
				data[name+"/"] = method
			}
		}
	case r.Method == "GET":
		data = v.paths[path]
	case r.Method == "LIST":
		var keys []string
		for at := range v.paths {
			if name, ok := strings.CutPrefix(at, path+"/"); ok {
				keys = append(keys, name)
			}
		}
		data = map[string]any{"keys": keys}
	case r.Method == "DELETE":
		v.writes = append(v.writes, "DELETE "+path)
		delete(v.paths, path)
		below := "auth/" + strings.TrimPrefix(path, "sys/auth/") + "/"
		maps.DeleteFunc(v.paths, func(at string, _ map[string]any) bool { return strings.HasPrefix(at, below) })
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		v.write(w, r, path)
		return
	}
	if data == nil {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
}

// write keeps the body of a write, which replaces the object.
func (v *vaultServer) write(w http.ResponseWriter, r *http.Request, path string) {
	var body map[string]any
	err := json.NewDecoder(r.Body).Decode(&body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v.writes = append(v.writes, r.Method+" "+path)
	if strings.HasPrefix(path, "sys/auth/") {
		v.accessor++
		body["accessor"] = fmt.Sprintf("auth_jwt_%d", v.accessor)
	}
	if strings.Contains(path, "/role/") {
		fault := completeRole(body)
		if fault != "" {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{fault}})
			return
		}
	}
	v.paths[path] = body
	w.WriteHeader(http.StatusNoContent)
}

// completeRole gives a role the values that a write resets if it lacks them, and returns the fault of the
// role. Vault and OpenBao keep some other values of the former role. This server keeps none, so a test does
// not depend on which.
func completeRole(role map[string]any) (fault string) {
	for key, value := range map[string]string{
		"role_type":         "oidc",
		"bound_claims_type": "string",
		"callback_mode":     "client", // of OpenBao
	} {
		if role[key] == nil {
			role[key] = value
		}
	}
	switch {
	case role["user_claim"] == nil:
		return "a user claim must be defined on the role"
	case role["role_type"] == "oidc" && role["allowed_redirect_uris"] == nil:
		return "'allowed_redirect_uris' must be set if 'role_type' is 'oidc' or unspecified."
	}
	return ""
}

// change changes a value, as an operator does.
func (v *vaultServer) change(path, key string, value any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.paths[path] == nil {
		v.paths[path] = map[string]any{}
	}
	v.paths[path][key] = value
}

func (v *vaultServer) value(path, key string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	text, err := json.Marshal(v.paths[path][key])
	if err != nil {
		v.Fatal(err)
	}
	return string(text)
}

// run runs berth setup vault, and returns the writes.
func (v *vaultServer) run(want int, says, typed string, args ...string) (writes []string) {
	v.Helper()
	v.mu.Lock()
	v.writes = nil
	v.mu.Unlock()
	tree := []command.Command{{Name: "setup", Sub: Commands}}
	args = append([]string{"setup", "vault", "-address", "http://127.0.0.1:1"}, args...)
	code, out, errs := clitest.RunTyped(v.T, tree, typed, args...)
	if code != want || !strings.Contains(out+errs, says) {
		v.Fatalf("%v: got exit code %d\n%s%s\nwant %d and %q", args, code, out, errs, want, says)
	}
	if strings.Contains(out+errs, "hunter2") {
		v.Errorf("%v shows the token:\n%s%s", args, out, errs)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.writes
}

const (
	keysURL    = "https://berth.example.com:4746/.well-known/jwks.json"
	methodAt   = "sys/auth/jwt-nomad"
	configAt   = "auth/jwt-nomad/config"
	roleAt     = "auth/jwt-nomad/role/nomad-workloads"
	policyAt   = "sys/policies/acl/nomad-workloads"
	defaultAlg = `["RS256","EdDSA"]`
)

func TestVault_MakesWhatLoginsNeed(t *testing.T) {
	v := newVault(t)
	if writes := v.run(6, "create  auth method", "no\n", "-jwks-url", keysURL); len(writes) > 0 {
		t.Errorf("the answer no: %v", writes)
	}
	if writes := v.run(1, "4 objects would be made", "", "-check", "-jwks-url", keysURL); len(writes) > 0 {
		t.Errorf("-check: %v", writes)
	}
	writes := v.run(0, `default_identity { aud = ["vault.io"] }`, "yes\n", "-jwks-url", keysURL)
	want := []string{"POST " + methodAt, "POST " + configAt, "PUT " + policyAt, "POST " + roleAt}
	if !slices.Equal(writes, want) {
		t.Errorf("the writes are %v", writes)
	}
	for _, want := range []struct{ path, key, value string }{
		{methodAt, "type", `"jwt"`},
		{configAt, "jwks_url", `"` + keysURL + `"`},
		{configAt, "jwt_supported_algs", defaultAlg},
		{configAt, "default_role", `"nomad-workloads"`},
		{roleAt, "role_type", `"jwt"`},
		{roleAt, "bound_audiences", `["vault.io"]`},
		{roleAt, "user_claim", `"/nomad_job_id"`},
		{roleAt, "user_claim_json_pointer", "true"},
		{roleAt, "claim_mappings",
			`{"nomad_job_id":"nomad_job_id","nomad_namespace":"nomad_namespace","nomad_task":"nomad_task"}`},
		{roleAt, "token_type", `"service"`},
		{roleAt, "token_policies", `["nomad-workloads"]`},
		{roleAt, "token_period", `"30m"`},
	} {
		if got := v.value(want.path, want.key); got != want.value {
			t.Errorf("%s has %s %s, want %s", want.path, want.key, got, want.value)
		}
	}
	policy := v.value(policyAt, "policy")
	if strings.Contains(policy, "ACCESSOR") || strings.Count(policy, "aliases.auth_jwt_1.metadata") != 2 {
		t.Errorf("the policy is %s", policy)
	}

	if writes := v.run(0, "Nothing is to be done.", ""); len(writes) > 0 {
		t.Errorf("the second run: %v", writes)
	}
	writes = v.run(0, "Deleted the auth method jwt-nomad", "", "-destroy", "-y")
	if !slices.Equal(writes, []string{"DELETE " + methodAt, "DELETE " + policyAt}) || len(v.paths) > 0 {
		t.Errorf("-destroy: %v leave %v", writes, v.paths)
	}
	v.run(0, "Nothing is to be done.", "", "-destroy", "-y")
}

// The command restores the values that are needed. It keeps the other changes of an operator.
func TestVault_ChangesWhatLacks(t *testing.T) {
	v := newVault(t)
	v.run(0, "Created", "", "-y", "-jwks-url", keysURL)
	v.change(roleAt, "bound_audiences", []string{"own"})
	v.change(roleAt, "token_period", 60)
	v.change(roleAt, "bound_claims", map[string]any{"nomad_job_id": "web-*"})
	v.change(roleAt, "bound_claims_type", "glob")
	v.change(roleAt, "callback_mode", "device")
	v.change(roleAt, "verbose_oidc_logging", false)
	v.change(roleAt, "groups_claim", "")
	v.change(roleAt, "policies", []string{"nomad-workloads"}) // the former name of token_policies
	v.change(roleAt, "period", 60)
	v.change(configAt, "jwt_supported_algs", []string{"RS256", "ES256"})
	v.change(configAt, "bound_issuer", "https://own")
	v.change(configAt, "default_role", "own")
	v.change(configAt, "oidc_client_id", "")
	v.change(configAt, "status", "valid")
	v.change(policyAt, "policy", v.paths[policyAt]["policy"].(string)+"\n# more")
	writes := v.run(0, "bound_audiences lacks vault.io", "", "-y", "-jwks-url", keysURL)
	if !slices.Equal(writes, []string{"POST " + configAt, "POST " + roleAt}) {
		t.Errorf("the writes are %v", writes)
	}
	for _, want := range []struct{ path, key, value string }{
		{roleAt, "bound_audiences", `["own","vault.io"]`},
		{roleAt, "token_period", "60"},
		{roleAt, "bound_claims", `{"nomad_job_id":"web-*"}`},
		{roleAt, "bound_claims_type", `"glob"`},
		{roleAt, "callback_mode", `"device"`},
		{roleAt, "verbose_oidc_logging", "false"},
		{roleAt, "user_claim", `"/nomad_job_id"`},
		{roleAt, "user_claim_json_pointer", "true"},
		{roleAt, "role_type", `"jwt"`},
		{roleAt, "groups_claim", "null"},
		{roleAt, "policies", "null"},
		{roleAt, "period", "null"},
		{configAt, "jwt_supported_algs", `["RS256","ES256","EdDSA"]`},
		{configAt, "bound_issuer", `"https://own"`},
		{configAt, "default_role", `"own"`},
		{configAt, "oidc_client_id", "null"},
		{configAt, "status", "null"},
	} {
		if got := v.value(want.path, want.key); got != want.value {
			t.Errorf("%s has %s %s, want %s", want.path, want.key, got, want.value)
		}
	}

	rules := filepath.Join(t.TempDir(), "rules.hcl")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	clitest.WriteFile(t, rules, []byte(`path "kv/{{identity.entity.aliases.ACCESSOR.name}}" {}`))
	clitest.WriteFile(t, ca, []byte("an authority"))
	files := []string{"-y", "-policy-file", rules, "-jwks-ca-file", ca}
	v.run(0, "Changed the policy nomad-workloads", "", files...)
	if got := v.value(policyAt, "policy"); !strings.Contains(got, "aliases.auth_jwt_1.name}}") {
		t.Errorf("the policy is %s", got)
	}
	if got := v.value(configAt, "jwks_ca_pem"); got != `"an authority"` {
		t.Errorf("the authority is %s", got)
	}
	v.run(0, "Nothing is to be done.", "", files...)

	// The auth method is made anew, with another accessor.
	v.mu.Lock()
	for _, at := range []string{methodAt, configAt, roleAt} {
		delete(v.paths, at)
	}
	v.mu.Unlock()
	v.run(0, "Changed the policy", "", "-y", "-jwks-url", keysURL)
	if got := v.value(policyAt, "policy"); !strings.Contains(got, "aliases.auth_jwt_2.name}}") {
		t.Errorf("the policy of the new method is %s", got)
	}
}

func TestVault_LeavesObjectsOfOthers(t *testing.T) {
	v := newVault(t)
	v.run(0, "Created", "", "-y", "-jwks-url", keysURL)
	v.change("auth/jwt-nomad/role/own", "role_type", "jwt")
	unchanged := func(code int, says string, args ...string) {
		t.Helper()
		if writes := v.run(code, says, "", append(args, "-y")...); len(writes) > 0 {
			t.Errorf("%v: %v", args, writes)
		}
	}
	unchanged(5, "the role own", "-destroy")
	v.change(methodAt, "description", "by hand")
	v.change(policyAt, "policy", "# by hand")
	unchanged(0, "no rule names the accessor auth_jwt_1")
	v.change(policyAt, "policy", "# by hand, for auth_jwt_1")
	unchanged(0, "Kind           Name\n") // no object has a remark
	unchanged(0, "Nothing is to be done.", "-destroy")
	unchanged(5, "somebody else has made the auth method jwt-nomad", "-jwks-url", "https://other/keys")
	rules := filepath.Join(t.TempDir(), "rules.hcl")
	clitest.WriteFile(t, rules, []byte("# rules"))
	unchanged(5, "somebody else has made the policy", "-policy-file", rules)
	v.change(configAt, "oidc_discovery_url", "https://other")
	unchanged(5, "which excludes a jwks_url")
	v.change(methodAt, "type", "oidc")
	unchanged(5, "expected jwt")
	v.run(0, "Created the auth method own/jwt", "", "-y", "-auth-path", "own/jwt", "-jwks-url", keysURL)
}

func TestVault_NamesTheRemedy(t *testing.T) {
	v := newVault(t)
	empty := filepath.Join(t.TempDir(), "empty")
	clitest.WriteFile(t, empty, []byte("\n"))
	v.run(2, "is empty", "", "-policy-file", empty)
	v.run(2, "expected a URL that begins with http", "", "-jwks-url", "keys.json")
	v.run(2, "exclude each other", "", "-destroy", "-jwks-url", keysURL)
	v.run(2, "no path of an auth method", "", "-auth-path", "../x")
	v.run(2, "tokens would cross the network", "", "-vault-address", "http://192.0.2.1:8200")
	v.run(7, "(-vault-address, VAULT_ADDR)", "", "-vault-address", "http://127.0.0.1:1")
	t.Setenv("VAULT_SKIP_VERIFY", "perhaps")
	v.run(2, "VAULT_SKIP_VERIFY", "")
	t.Setenv("VAULT_SKIP_VERIFY", "")
	t.Setenv("VAULT_TOKEN", "s.other")
	v.run(3, "a token that may write auth methods and policies", "")
	t.Setenv("VAULT_TOKEN", "")
	v.run(2, "VAULT_TOKEN is not set", "")
}
