package setup

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/cli/clitest"
)

// The policy of a path names the accessor of its auth method, so no path shares it with another.
func TestVault_GivesEachPathItsPolicy(t *testing.T) {
	v := newVault(t)
	v.run(0, "Created", "", "-y", "-jwks-url", keysURL)
	first := v.value(policyAt, "policy")
	v.run(0, "with the policy nomad-workloads-team-b", "", "-y", "-jwks-url", keysURL, "-auth-path", "Team/b")
	const otherAt = "sys/policies/acl/nomad-workloads-team-b"
	if got := v.value(otherAt, "policy"); strings.Count(got, "aliases.auth_jwt_2.metadata") != 2 {
		t.Errorf("the policy of the second path is %s", got)
	}
	role := "auth/Team/b/role/nomad-workloads"
	if got := v.value(role, "token_policies"); got != `["nomad-workloads-team-b"]` {
		t.Errorf("the role of the second path has the policies %s", got)
	}
	for _, path := range []string{"jwt-nomad", "Team/b"} {
		if writes := v.run(0, "Nothing is to be done.", "", "-auth-path", path); len(writes) > 0 {
			t.Errorf("the second run for %s: %v", path, writes)
		}
	}

	// Another path may lead to the same name of a policy.
	v.run(5, "is that of another auth method", "", "-y", "-jwks-url", keysURL, "-auth-path", "team-b")
	for _, path := range []string{"team-b", "jwt-nomat"} {
		writes := v.run(0, "Nothing is to be done.", "", "-destroy", "-y", "-auth-path", path)
		if len(writes) > 0 {
			t.Errorf("-destroy of the path %s, which is not there: %v", path, writes)
		}
	}
	writes := v.run(0, "Deleted", "", "-destroy", "-y", "-auth-path", "Team/b")
	if !slices.Equal(writes, []string{"DELETE sys/auth/Team/b", "DELETE " + otherAt}) {
		t.Errorf("-destroy of the second path: %v", writes)
	}
	if got := v.value(policyAt, "policy"); got != first {
		t.Errorf("the policy of the first path has become %s", got)
	}

	v.mu.Lock()
	delete(v.paths, methodAt)
	v.mu.Unlock()
	writes = v.run(0, "Deleted the policy nomad-workloads", "", "-destroy", "-y")
	if !slices.Equal(writes, []string{"DELETE " + policyAt}) {
		t.Errorf("-destroy without the auth method: %v", writes)
	}
}

// A policy gets the accessor of an auth method that was made anew, after an interrupted run, too.
func TestVault_FollowsTheAccessor(t *testing.T) {
	v := newVault(t)
	v.run(0, "Created", "", "-y", "-jwks-url", keysURL)
	v.change(methodAt, "accessor", "auth_jwt_77")
	v.run(0, "names the new auth method", "", "-y")
	if got := v.value(policyAt, "policy"); strings.Count(got, "aliases.auth_jwt_77.metadata") != 2 {
		t.Errorf("the policy is %s", got)
	}
	v.run(0, "Nothing is to be done.", "")

	v.change(policyAt, "policy", `path "secret/data/{{identity.entity.aliases.auth_jwt_77.name}}" {}`)
	v.change(methodAt, "accessor", "auth_jwt_78")
	for _, want := range []string{"no rule names the accessor auth_jwt_78", "Nothing is to be done."} {
		if writes := v.run(0, want, "", "-y"); len(writes) > 0 {
			t.Errorf("a policy of somebody else: %v", writes)
		}
	}
	v.mu.Lock()
	delete(v.paths, methodAt)
	v.mu.Unlock()
	v.run(1, "the accessor of the new auth method", "", "-check", "-jwks-url", keysURL)
}

func TestVault_PrintsWhatNodesNeed(t *testing.T) {
	v := newVault(t)
	v.run(0, "Created", "", "-y", "-jwks-url", keysURL)
	again := func(says string) {
		t.Helper()
		v.change(roleAt, "bound_audiences", []string{"own"}) // so something is to be done
		v.run(0, says, "", "-y")
	}
	again("address = \"" + v.url + "\"\n    default_identity { aud = [\"vault.io\"] }\n  }\n")

	srv := httptest.NewTLSServer(v)
	defer srv.Close()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	der, err := x509.MarshalPKCS8PrivateKey(srv.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	clitest.WriteFile(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	clitest.WriteFile(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	t.Setenv("VAULT_ADDR", srv.URL)
	t.Setenv("VAULT_NAMESPACE", "team/a")
	t.Setenv("VAULT_CACERT", cert)
	t.Setenv("VAULT_CAPATH", filepath.Dir(cert))
	t.Setenv("VAULT_CLIENT_CERT", cert)
	t.Setenv("VAULT_CLIENT_KEY", key)
	t.Setenv("VAULT_TLS_SERVER_NAME", "example.com")
	again(`    address = "` + srv.URL + `"
    namespace = "team/a"
    ca_file = "` + cert + `"
    ca_path = "` + dir + `"
    cert_file = "` + cert + `"
    key_file = "` + key + `"
    tls_server_name = "example.com"
    default_identity { aud = ["vault.io"] }
  }

The files are those of this machine.`)
	t.Setenv("VAULT_SKIP_VERIFY", "1")
	again("    tls_skip_verify = true\n")
}

func TestVault_NamesTheVariable(t *testing.T) {
	v := newVault(t)
	missing := filepath.Join(t.TempDir(), "ca.pem")
	for _, test := range []struct{ variable, value, says string }{
		{"VAULT_ADDR", "127.0.0.1:8200", `: VAULT_ADDR is "127.0.0.1:8200"; expected https://host:port`},
		{"VAULT_ADDR", "http://192.0.2.1:8200", ": VAULT_ADDR begins with http://"},
		{"VAULT_CACERT", "ca.pem", `: VAULT_CACERT: "ca.pem" is not an absolute path`},
		{"VAULT_CACERT", missing, ": VAULT_CACERT or VAULT_CAPATH: open " + missing},
		{"VAULT_CAPATH", "certs", `: VAULT_CAPATH: "certs" is not`},
		{"VAULT_CLIENT_CERT", missing, ": VAULT_CLIENT_CERT and VAULT_CLIENT_KEY: expected both or none"},
		{"VAULT_CLIENT_CERT", "c.pem", `: VAULT_CLIENT_CERT: "c.pem" is not`},
		{"VAULT_CLIENT_KEY", "k.pem", `: VAULT_CLIENT_KEY: "k.pem" is not`},
		{"VAULT_TLS_SERVER_NAME", strings.Repeat("a", 1000), ": VAULT_TLS_SERVER_NAME: it has 1000 bytes"},
		{"VAULT_NAMESPACE", "../x", `: VAULT_NAMESPACE: "../x" is no namespace`},
	} {
		t.Run(test.variable, func(t *testing.T) {
			t.Setenv(test.variable, test.value)
			v.run(2, test.says, "")
		})
	}
	v.run(2, ": -vault-address is", "", "-vault-address", "vault:8200")
	v.run(2, ": -auth-path: ", "", "-auth-path", "../x")
}
