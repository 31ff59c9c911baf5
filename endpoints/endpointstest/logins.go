package endpointstest

import (
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/authmethod/issuertest"
	"berth/internal/keyring/keyringtest"
	"berth/structs/access"
)

// LoginServer is a server with access control and a root key, and a provider with an auth method of each
// type.
type LoginServer struct {
	*Server
	Issuer *issuertest.Issuer
}

// CallbackURI is the address to which the method of type OIDC redirects.
const CallbackURI = "http://localhost:4649/oidc/callback"

// NewLoginServer makes a server with the role "ops" and the policy "reader", which it has.
func NewLoginServer(t *testing.T) *LoginServer {
	s := &LoginServer{Server: New(t), Issuer: issuertest.New(t)}
	s.Clock = time.Now() // the tokens of the provider have real times
	s.Guard()
	MustPropose(s.Server, fsm.RootKeyAdd, keyringtest.Row("k1"))
	keyringtest.Use(t, s.Keys, "k1")
	Must(s.Server, access.PolicyPut, &access.PolicyPutRequest{
		Policy: &access.Policy{Name: "reader", Rules: `node { policy = "read" }`},
	})
	Must(s.Server, access.RolePut, &access.RolePutRequest{Role: &access.Role{
		Name: "ops", Policies: []*access.PolicyLink{{Name: "reader"}},
	}})
	s.PutMethod(s.JWTMethod())
	s.PutMethod(s.OIDCMethod())
	return s
}

// PutMethod stores an auth method.
func (s *LoginServer) PutMethod(m *access.AuthMethod) *access.AuthMethod {
	s.T.Helper()
	return Must(s.Server, access.AuthMethodPut, &access.AuthMethodPutRequest{Method: m}).Method
}

// JWTMethod returns the method "ci".
func (s *LoginServer) JWTMethod() *access.AuthMethod {
	return &access.AuthMethod{
		Name:          "ci",
		Type:          access.MethodJWT,
		TokenLocality: access.LocalityLocal,
		MaxTokenTTL:   access.Duration(time.Hour),
		Default:       true,
		Config: &access.AuthConfig{
			JWKSURL:           s.Issuer.URL + "/keys",
			BoundAudiences:    []string{issuertest.Client},
			BoundIssuer:       []string{s.Issuer.URL},
			ClaimMappings:     map[string]string{"sub": "user"},
			ListClaimMappings: map[string]string{"groups": "groups"},
		},
	}
}

// OIDCMethod returns the method "corp".
func (s *LoginServer) OIDCMethod() *access.AuthMethod {
	return &access.AuthMethod{
		Name:            "corp",
		Type:            access.MethodOIDC,
		TokenLocality:   access.LocalityGlobal,
		TokenNameFormat: "${value.user} by ${auth_method_name}",
		MaxTokenTTL:     access.Duration(8 * time.Hour),
		Config: &access.AuthConfig{
			OIDCDiscoveryURL:    s.Issuer.URL,
			OIDCClientID:        issuertest.Client,
			OIDCClientSecret:    "client-secret",
			AllowedRedirectURIs: []string{CallbackURI},
			ClaimMappings:       map[string]string{"sub": "user"},
			ListClaimMappings:   map[string]string{"groups": "groups"},
		},
	}
}

// Rule makes a rule that gives callers a role, a policy or the management.
func (s *LoginServer) Rule(method, selector, kind, name string) *access.BindingRule {
	s.T.Helper()
	return Must(s.Server, access.BindingRulePut, &access.BindingRulePutRequest{Rule: &access.BindingRule{
		AuthMethod: method, Selector: selector, BindType: kind, BindName: name,
	}}).Rule
}

// ByToken returns a login with a token of the provider.
func (s *LoginServer) ByToken(token string) *access.TokenLoginRequest {
	return &access.TokenLoginRequest{AuthMethodName: "ci", LoginToken: access.Secret(token), Source: "10.0.0.1"}
}
