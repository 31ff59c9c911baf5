package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"strings"

	"berth/internal/auditlog"
)

// auditBlock turns the audit log of an agent on, in its data directory.
const auditBlock = "audit {\n  enabled = true\n}\n"

// useTokens makes auth methods and a token, and sends requests with the token, with one that does not exist,
// with the identity of the task, and a login. It notes the secrets that the cluster makes.
func (c *secretCluster) useTokens(alloc string) {
	c.t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(pair.Public())
	if err != nil {
		c.t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for name, config := range map[string]map[string]any{
		"corp OIDC": {
			"OIDCDiscoveryURL":    "https://127.0.0.1:1",
			"OIDCClientID":        "berth",
			"OIDCClientSecret":    ofProvider,
			"BoundAudiences":      []string{"berth"},
			"AllowedRedirectURIs": []string{"http://localhost:4649/oidc/callback"},
		},
		"ci JWT": {
			"BoundAudiences":       []string{"berth"},
			"JWTValidationPubKeys": []string{string(key)},
		},
	} {
		name, kind, _ := strings.Cut(name, " ")
		c.wantStatus(http.StatusOK, "/v1/acl/auth-method", "", map[string]any{
			"Name":          name,
			"Type":          kind,
			"TokenLocality": "local",
			"MaxTokenTTL":   "1h",
			"Config":        config,
		})
	}

	made := map[string]any{"Name": "duty", "Type": "management"}
	answer := c.wantStatus(http.StatusOK, "/v1/acl/token", "", made)
	token := decode[struct{ SecretID string }](c.t, string(answer)).SecretID
	c.own["the token"] = []byte(token)
	identity, err := os.ReadFile(c.n.data("alloc", alloc, "t", "secrets", "nomad_token"))
	if err != nil || len(identity) == 0 {
		c.t.Fatalf("the identity of the task: %v", err)
	}
	c.own["the identity of the task"] = identity

	c.wantStatus(http.StatusOK, "/v1/system/gc", token, nil)
	c.wantStatus(http.StatusForbidden, "/v1/system/gc", ofNobody, nil)
	c.wantStatus(http.StatusForbidden, "/v1/system/gc", string(identity), nil)
	c.wantStatus(http.StatusForbidden, "/v1/acl/login", "", map[string]any{
		"AuthMethodName": "ci",
		"LoginToken":     ofLogin,
	})
}

// wantStatus sends a change with a token, and returns the answer.
func (c *secretCluster) wantStatus(want int, path, token string, body any) []byte {
	c.t.Helper()
	answer, status := c.send(http.MethodPut, path, token, body)
	if status != want {
		c.t.Fatalf("%s: got the status %d, want %d: %s", path, status, want, answer)
	}
	return answer
}

// searchAudit wants the audit log of the server to have the requests with secrets, and neither log the secret
// of the node. The logs are among the files that searchFiles has searched for the others.
func (c *secretCluster) searchAudit(alloc string) {
	c.t.Helper()
	secret, err := os.ReadFile(c.n.data("client", "secret-id"))
	if err != nil || len(bytes.TrimSpace(secret)) == 0 {
		c.t.Fatalf("the secret of the node: %v", err)
	}
	var all []auditlog.Event
	for _, a := range []*agent{c.s, c.n} {
		text, err := os.ReadFile(a.data("audit", "audit.log"))
		if err != nil {
			c.t.Fatal(err)
		}
		if bytes.Contains(text, bytes.TrimSpace(secret)) {
			c.t.Errorf("the audit log of %s has the secret of the node", a.name)
		}
		for line := range bytes.Lines(text) {
			all = append(all, decode[auditlog.Event](c.t, string(line)))
		}
	}

	has := map[string]bool{}
	for _, e := range all {
		for _, o := range e.Objects {
			has[e.Method+" "+o.Type+" "+o.ID] = true
		}
		if e.Kind == auditlog.KindDenied && e.Caller.Identity != nil && e.Caller.Identity.Alloc == alloc {
			has["the identity"] = true
		}
		if e.Method == "System.GarbageCollect" && e.Result == "ok" && e.Caller.Accessor != "" {
			has["the token"] = true
		}
	}
	for _, want := range []string{
		"CSIVolume.Create volume a", "CSIVolume.Create volume b", "Variables.Apply variable " + pathOfVariable,
		"ACL.UpsertAuthMethod auth method corp", "ACL.Login auth method ci", "Job.Register job web",
		"CSIVolume.Delete volume b", "the identity", "the token",
	} {
		if !has[want] {
			c.t.Errorf("the audit logs lack %s", want)
		}
	}
}
