package vault_test

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/vault"
	"berth/vault/vaulttest"
)

const jwt = "eyJ.secret-jwt.sig"

// anyone lets each JWT log in.
func anyone(string) (map[string]any, error) { return map[string]any{"nomad_job_id": "web"}, nil }

func newServer(t *testing.T) *vaulttest.Server {
	s := vaulttest.New(t)
	s.Verify = anyone
	s.DefaultRole = "web"
	s.Roles["web"] = vaulttest.Role{TTL: time.Hour, Paths: []string{"secret/", "kv/", "database/", "pki/"}}
	return s
}

func mustLogin(t *testing.T, c *vault.Client) vault.Access {
	t.Helper()
	token, err := c.Login(t.Context(), "", "", jwt)
	if err != nil || token.TTL != time.Hour || !token.Renewable {
		t.Fatalf("got %v, %v", token, err)
	}
	return vault.Access{Token: token.Secret}
}

func TestClient_LogsInRenewsAndRevokes(t *testing.T) {
	s := newServer(t)
	c := s.Client(t)
	a := mustLogin(t, c)
	renewed, err := c.RenewSelf(t.Context(), a)
	if err != nil || renewed.TTL != time.Hour || renewed.Secret != a.Token {
		t.Fatalf("got %v, %v", renewed, err)
	}
	found, err := c.LookupSelf(t.Context(), a)
	if err != nil || found.TTL < time.Hour-time.Minute || !found.Renewable {
		t.Fatalf("got %v, %v", found, err)
	}
	// The second call finds a token that has ended.
	for range 2 {
		if err := c.RevokeSelf(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.LookupSelf(t.Context(), a); !structs.IsKind(err, structs.KindDenied) || s.Live() != 0 {
		t.Errorf("got %v, %d live tokens", err, s.Live())
	}
}

// TestClient_ReadsBothVersionsOfKV names secrets with and without the part data.
func TestClient_ReadsBothVersionsOfKV(t *testing.T) {
	s := newServer(t)
	s.KV2["web/db"] = map[string]any{"password": "p2"}
	s.KV1["web/db"] = map[string]any{"password": "p1"}
	c := s.Client(t)
	a := mustLogin(t, c)
	for _, place := range []vault.Place{{Path: "secret/web/db"}, {Path: "secret/data/web/db"},
		{Path: "secret/data/web/db", Version: "1"}} {
		got, err := c.Read(t.Context(), a, place)
		if err != nil || got.Data["data"].(map[string]any)["password"] != "p2" ||
			got.Data["metadata"].(map[string]any)["asked"] != place.Version {
			t.Errorf("%v: got %v, %v", place, got, err)
		}
	}
	got, err := c.Read(t.Context(), a, vault.Place{Path: "kv/web/db"})
	if err != nil || got.Data["password"] != "p1" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, path := range []string{"secret", "secret/", "secret/metadata"} {
		names, err := c.List(t.Context(), a, path)
		if err != nil || !reflect.DeepEqual(names, []string{"web/db"}) {
			t.Errorf("%s: got %v, %v", path, names, err)
		}
	}
	written, err := c.Write(t.Context(), a, "pki/issue/web", map[string]string{"common_name": "web"})
	if err != nil || written.Data["common_name"] != "web" || written.Data["written"] != "pki/issue/web" {
		t.Errorf("got %v, %v", written, err)
	}
	_, err = c.Read(t.Context(), a, vault.Place{Path: "secret/none"})
	if !structs.IsKind(err, structs.KindNotFound) || !strings.Contains(err.Error(), "secret/data/none") {
		t.Errorf("got %v", err)
	}
	_, err = c.Read(t.Context(), a, vault.Place{Path: "sys/mounts"})
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got %v", err)
	}
}

func TestClient_NamesTheNamespace(t *testing.T) {
	s := newServer(t)
	cfg := s.Config()
	cfg.Namespace = "team/"
	c, err := vault.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := mustLogin(t, c)
	a.Namespace = "other"
	if _, err := c.LookupSelf(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := s.Namespaces(); !reflect.DeepEqual(got, []string{"team", "other"}) {
		t.Errorf("got %q", got)
	}
}

// TestClient_ShowsNoSecretInErrors has answers that repeat the secrets of their requests, and others that no
// Vault gives.
func TestClient_ShowsNoSecretInErrors(t *testing.T) {
	s := newServer(t)
	s.Verify = func(string) (map[string]any, error) { return nil, structs.Invalidf("bad") }
	c := s.Client(t)
	const secret = "hvs.secret-of-the-test"
	a := vault.Access{Token: secret}
	_, err := c.Login(t.Context(), "", "", jwt)
	if !structs.IsKind(err, structs.KindInvalid) || strings.Contains(err.Error(), jwt) ||
		!strings.Contains(err.Error(), structs.Redacted) {
		t.Errorf("got %v", err)
	}
	for _, answer := range []struct {
		status int
		body   string
		kind   structs.Kind
		text   string
	}{
		{403, `{"errors": ["token ` + secret + ` is bad"]}`, structs.KindDenied, structs.Redacted},
		{500, secret, structs.KindUnavailable, "500"},
		{307, "", structs.KindPrecondition, "vault.address"},
		{503, `{"errors": ["Vault is sealed"]}`, structs.KindUnavailable, "sealed"},
		{200, `{"data": {"password": "` + secret, structs.KindInternal, "not one of Vault's API"},
		{200, `{"data": {"x": "` + strings.Repeat("a", 5<<20) + `"}}`, structs.KindPrecondition, "more than"},
		{400, `{"errors": ["` + strings.Repeat("b", 1<<20) + `"]}`, structs.KindInvalid, "bbb"},
	} {
		s.Set(func(s *vaulttest.Server) {
			s.Answer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "https://127.0.0.1:1/other")
				w.WriteHeader(answer.status)
				_, _ = w.Write([]byte(answer.body))
			})
		})
		_, err := c.LookupSelf(t.Context(), a)
		if !structs.IsKind(err, answer.kind) || !strings.Contains(err.Error(), answer.text) ||
			strings.Contains(err.Error(), secret) || len(err.Error()) > 2<<10 {
			t.Errorf("%d: got %.300v", answer.status, err)
		}
	}
}

func TestClient_EndsWithItsTime(t *testing.T) {
	s := newServer(t)
	hold := make(chan struct{})
	defer close(hold)
	s.Answer = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold })
	cfg := s.Config()
	cfg.Timeout = 100 * time.Millisecond
	c, err := vault.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Login(context.Background(), "", "", jwt)
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "no answer came within") {
		t.Errorf("got %v", err)
	}
}

func TestAttributes_TellTheStateOfVault(t *testing.T) {
	s := newServer(t)
	s.Sealed = true
	got, err := s.Client(t).Attributes(t.Context())
	want := map[string]string{"vault.accessible": "false", "vault.version": "1.14.10",
		"vault.cluster_name": "test", "vault.cluster_id": "c1"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestCheckPath_StaysBelowItsPlace(t *testing.T) {
	for path, good := range map[string]bool{
		"secret/a":                           true,
		"secret/a b?c#d%2e":                  true,
		"":                                   false,
		"secret/../sys/mounts":               false,
		"./a":                                false,
		"a\nb":                               false,
		strings.Repeat("a", vault.MaxPath):   true,
		strings.Repeat("a", 1+vault.MaxPath): false,
	} {
		if err := vault.CheckPath(path); (err == nil) != good {
			t.Errorf("%.40q: got %v", path, err)
		}
	}
}

func TestConfig_Validates(t *testing.T) {
	for want, edit := range map[string]func(*vault.Config){
		"":                     func(*vault.Config) {},
		" ":                    func(c *vault.Config) { c.Address = "http://127.0.0.1:8200" },
		"not on this machine":  func(c *vault.Config) { c.Address = "http://vault:8200" },
		"expected https://":    func(c *vault.Config) { c.Address = "vault:8200" },
		"vault.namespace":      func(c *vault.Config) { c.Namespace = "../x" },
		"vault.jwt_auth":       func(c *vault.Config) { c.JWTAuthBackendPath = "" },
		"vault.create_from":    func(c *vault.Config) { c.CreateFromRole = "a/b" },
		"vault.ca_file":        func(c *vault.Config) { c.CAFile = "ca.pem" },
		"expected both":        func(c *vault.Config) { c.KeyFile = "/k" },
		"vault.timeout":        func(c *vault.Config) { c.Timeout = time.Hour },
		"identity.ttl: 1s":     func(c *vault.Config) { c.DefaultIdentity.TTL = time.Second },
		"identity.aud: it is":  func(c *vault.Config) { c.DefaultIdentity.Env = true },
		"identity.aud: an aud": func(c *vault.Config) { c.DefaultIdentity.Audience = []string{""} },
		"vault.enabled is false": func(c *vault.Config) {
			c.Enabled = false
			c.DefaultIdentity.Audience = []string{"vault.io"}
		},
	} {
		c := vault.DefaultConfig()
		c.Enabled = true
		edit(&c)
		err := c.Validate()
		if good := strings.TrimSpace(want) == ""; good != (err == nil) ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}
