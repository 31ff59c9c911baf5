package endpoints_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/authmethod"
	"berth/internal/authmethod/issuertest"
	"berth/internal/keyring/keyringtest"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// loginServer is a server with access control and a root key, and a provider with an auth method of each
// type.
type loginServer struct {
	*server
	issuer *issuertest.Issuer
}

const callbackURI = "http://localhost:4649/oidc/callback"

func newLoginServer(t *testing.T) *loginServer {
	s := &loginServer{server: newServer(t), issuer: issuertest.New(t)}
	s.Clock = time.Now() // the tokens of the provider have real times
	s.server.Guard()
	mustPropose(s.server, fsm.RootKeyAdd, keyringtest.Row("k1"))
	keyringtest.Use(t, s.Keys, "k1")
	must(s.server, access.PolicyPut, &access.PolicyPutRequest{
		Policy: &access.Policy{Name: "reader", Rules: `node { policy = "read" }`},
	})
	must(s.server, access.RolePut, &access.RolePutRequest{Role: &access.Role{
		Name: "ops", Policies: []*access.PolicyLink{{Name: "reader"}},
	}})
	s.putMethod(s.jwtMethod())
	s.putMethod(s.oidcMethod())
	return s
}

func (s *loginServer) putMethod(m *access.AuthMethod) *access.AuthMethod {
	s.T.Helper()
	return must(s.server, access.AuthMethodPut, &access.AuthMethodPutRequest{Method: m}).Method
}

func (s *loginServer) jwtMethod() *access.AuthMethod {
	return &access.AuthMethod{
		Name:          "ci",
		Type:          access.MethodJWT,
		TokenLocality: access.LocalityLocal,
		MaxTokenTTL:   access.Duration(time.Hour),
		Default:       true,
		Config: &access.AuthConfig{
			JWKSURL:           s.issuer.URL + "/keys",
			BoundAudiences:    []string{issuertest.Client},
			BoundIssuer:       []string{s.issuer.URL},
			ClaimMappings:     map[string]string{"sub": "user"},
			ListClaimMappings: map[string]string{"groups": "groups"},
		},
	}
}

func (s *loginServer) oidcMethod() *access.AuthMethod {
	return &access.AuthMethod{
		Name:            "corp",
		Type:            access.MethodOIDC,
		TokenLocality:   access.LocalityGlobal,
		TokenNameFormat: "${value.user} by ${auth_method_name}",
		MaxTokenTTL:     access.Duration(8 * time.Hour),
		Config: &access.AuthConfig{
			OIDCDiscoveryURL:    s.issuer.URL,
			OIDCClientID:        issuertest.Client,
			OIDCClientSecret:    "client-secret",
			AllowedRedirectURIs: []string{callbackURI},
			ClaimMappings:       map[string]string{"sub": "user"},
			ListClaimMappings:   map[string]string{"groups": "groups"},
		},
	}
}

func (s *loginServer) rule(method, selector, kind, name string) *access.BindingRule {
	s.T.Helper()
	return must(s.server, access.BindingRulePut, &access.BindingRulePutRequest{Rule: &access.BindingRule{
		AuthMethod: method, Selector: selector, BindType: kind, BindName: name,
	}}).Rule
}

func (s *loginServer) byToken(token string) *access.TokenLoginRequest {
	return &access.TokenLoginRequest{AuthMethodName: "ci", LoginToken: access.Secret(token), Source: "10.0.0.1"}
}

func TestLogin_GivesATokenOfTheMatchingRules(t *testing.T) {
	s := newLoginServer(t)
	s.rule("ci", `"dev" in list.groups`, access.BindRole, "ops")
	s.rule("ci", `value.user == "ann"`, access.BindPolicy, "reader")
	s.rule("ci", `value.user == "ann"`, access.BindPolicy, "of-${value.user}") // there is no such policy
	s.rule("ci", `value.user == "root"`, access.BindManagement, "")

	got := must(s.server, access.TokenLogin, s.byToken(s.issuer.JWT(map[string]any{
		"sub": "ann", "groups": []string{"dev"},
	})))
	token := got.Token
	if token.Type != access.TypeClient || strings.Join(token.Policies, " ") != "reader" ||
		len(token.Roles) != 1 ||
		token.Roles[0].Name != "ops" || token.Name != "JWT-ci" || token.Global {
		t.Errorf("got %+v, want the role ops and the policy reader", token)
	}
	stored := must(s.server, access.TokenGet, &access.TokenGetRequest{
		AccessorID:   token.AccessorID,
		QueryOptions: structs.QueryOptions{AuthToken: got.SecretID},
	}).Token
	if stored.AuthMethod != "ci" {
		t.Errorf("the token is of the auth method %q, want ci", stored.AuthMethod)
	}
	if token.ExpireTime != s.Clock.Add(time.Hour).UnixNano() {
		t.Error("the token does not end after MaxTokenTTL")
	}
	nodes := &structs.QueryRequest{QueryOptions: structs.QueryOptions{AuthToken: got.SecretID}}
	must(s.server, structs.NodeList, nodes)
	s.Clock = s.Clock.Add(time.Hour)
	rejected(s.server, structs.KindDenied, structs.NodeList, nodes)

	s.Clock = time.Now()
	noName := s.byToken(s.issuer.JWT(map[string]any{"sub": "root"}))
	noName.AuthMethodName = ""
	root := must(s.server, access.TokenLogin, noName)
	if root.Token.Type != access.TypeManagement || len(root.Token.Policies) != 0 {
		t.Errorf("got %+v, want a management token", root.Token)
	}
}

func TestLogin_DeniesWhomNoRuleGivesAnything(t *testing.T) {
	s := newLoginServer(t)
	s.rule("ci", `value.user == "ann"`, access.BindPolicy, "reader")
	s.rule("corp", ``, access.BindPolicy, "reader") // of another method
	err := rejected(s.server, structs.KindDenied, access.TokenLogin,
		s.byToken(s.issuer.JWT(map[string]any{"sub": "bob"})))
	if !strings.Contains(err.Error(), "no binding rule of auth method ci") {
		t.Errorf("got %v", err)
	}
	rejected(s.server, structs.KindDenied, access.TokenLogin,
		s.byToken(s.issuer.JWT(map[string]any{"aud": "x"})))

	absent := s.byToken(s.issuer.JWT(nil))
	absent.AuthMethodName = "none"
	rejected(s.server, structs.KindNotFound, access.TokenLogin, absent)
	other := s.byToken(s.issuer.JWT(nil))
	other.AuthMethodName = "corp"
	rejected(s.server, structs.KindInvalid, access.TokenLogin, other)
	large := s.byToken(strings.Repeat("x", 16<<10+1))
	rejected(s.server, structs.KindInvalid, access.TokenLogin, large)
	rejected(s.server, structs.KindInvalid, access.TokenLogin, s.byToken(""))

	must(s.server, access.AuthMethodDelete, &access.AuthMethodDeleteRequest{Name: "ci"})
	s.putMethod(s.jwtMethod())
	rejected(s.server, structs.KindDenied, access.TokenLogin,
		s.byToken(s.issuer.JWT(map[string]any{"sub": "ann"})))
}

func TestLogin_NeedsAccessControl(t *testing.T) {
	s := newLoginServer(t)
	s.Gate = nil
	rejected(s.server, structs.KindPrecondition, access.TokenLogin, s.byToken(s.issuer.JWT(nil)))
}

func TestLogin_BoundsTheFailuresOfASource(t *testing.T) {
	s := newLoginServer(t)
	bad := s.byToken("a.b.c")
	for range authmethod.OfSource {
		rejected(s.server, structs.KindDenied, access.TokenLogin, bad)
	}
	err := rejected(s.server, structs.KindUnavailable, access.TokenLogin, bad)
	if structs.RetryAfter(err) == 0 {
		t.Errorf("got %v, want a time to wait", err)
	}
	s.rule("ci", ``, access.BindPolicy, "reader")
	other := s.byToken(s.issuer.JWT(nil))
	other.Source = "10.0.0.2"
	must(s.server, access.TokenLogin, other)
	exchange := &access.OneTimeExchangeRequest{OneTimeSecretID: "x", Source: "10.0.0.1"}
	rejected(s.server, structs.KindUnavailable, access.OneTimeExchange, exchange)
}

// begin takes the first step of a login by OIDC, and goes to the provider with a browser.
func (s *loginServer) begin() *access.CompleteAuthRequest {
	s.T.Helper()
	begun := &access.AuthURLRequest{
		AuthMethodName: "corp",
		RedirectURI:    callbackURI,
		ClientNonce:    "0123456789abcdef",
		Source:         "10.0.0.1",
	}
	address := must(s.server, access.AuthURL, begun).AuthURL
	back := s.issuer.Browse(address)
	return &access.CompleteAuthRequest{
		AuthMethodName: "corp",
		RedirectURI:    callbackURI,
		ClientNonce:    begun.ClientNonce,
		State:          access.Secret(back.Get("state")),
		Code:           access.Secret(back.Get("code")),
		Iss:            back.Get("iss"),
		Source:         "10.0.0.1",
	}
}

func TestOIDC_GivesATokenOnce(t *testing.T) {
	s := newLoginServer(t)
	s.rule("corp", `"dev" in list.groups`, access.BindRole, "ops")
	s.issuer.Person(map[string]any{"sub": "ann"}, map[string]any{"groups": []string{"dev"}})
	req := s.begin()
	got := must(s.server, access.CompleteAuth, req)
	if got.Token.Name != "ann by corp" || got.Token.Roles[0].Name != "ops" || !got.Token.Global {
		t.Errorf("got %+v", got.Token)
	}
	if got.Token.ExpireTime != s.Clock.Add(8*time.Hour).UnixNano() {
		t.Error("the token does not end after MaxTokenTTL")
	}

	err := rejected(s.server, structs.KindDenied, access.CompleteAuth, req)
	if !strings.Contains(err.Error(), "has made its token already") {
		t.Errorf("a second time: got %v", err)
	}
	log := s.Raft.Text()
	for _, secret := range []string{got.SecretID, "client-secret", string(req.Code)} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has the secret %q", secret)
		}
	}
}

func TestOIDC_CompletesTheLoginThatBegan(t *testing.T) {
	s := newLoginServer(t)
	s.rule("corp", ``, access.BindRole, "ops")
	second := s.oidcMethod()
	second.Name = "other"
	s.putMethod(second)
	// The code goes to the provider only for the login that began, so the text of the denial counts.
	const began = "the login began with another"
	for name, c := range map[string]struct {
		change func(*access.CompleteAuthRequest)
		want   string
	}{
		"a nonce":  {func(r *access.CompleteAuthRequest) { r.ClientNonce = "another-nonce-0123" }, began},
		"a method": {func(r *access.CompleteAuthRequest) { r.AuthMethodName = "other" }, began},
		"a redirect": {func(r *access.CompleteAuthRequest) { r.RedirectURI = "http://localhost:9/oidc/callback" },
			began},
		"an issuer": {func(r *access.CompleteAuthRequest) { r.Iss = "https://evil.example.org" }, "from issuer"},
		"a forged state": {func(r *access.CompleteAuthRequest) {
			r.State = "k1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		}, ""},
		"no state": {func(r *access.CompleteAuthRequest) { r.State = "?" }, ""},
		"a key":    {func(r *access.CompleteAuthRequest) { r.State = "k2" + r.State[2:] }, ""},
		"a code":   {func(r *access.CompleteAuthRequest) { r.Code = "x" }, "provider"},
	} {
		req := s.begin()
		req.Source = ""
		c.change(req)
		_, err := rpc.Call(t.Context(), s.RPC, access.CompleteAuth, req)
		if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("another, or %s: got %v, want denied with %q", name, err, c.want)
		}
	}

	late := s.begin()
	s.Clock = s.Clock.Add(11 * time.Minute)
	err := rejected(s.server, structs.KindDenied, access.CompleteAuth, late)
	if !strings.Contains(err.Error(), "log in again") {
		t.Errorf("got %v", err)
	}
	for field, change := range map[string]func(*access.CompleteAuthRequest){
		"ClientNonce": func(r *access.CompleteAuthRequest) { r.ClientNonce = "short" },
		"RedirectURI": func(r *access.CompleteAuthRequest) { r.RedirectURI = strings.Repeat("x", 1025) },
		"Code": func(r *access.CompleteAuthRequest) {
			r.Code = access.Secret(strings.Repeat("x",
				4097))
		},
		"State": func(r *access.CompleteAuthRequest) {
			r.State = access.Secret(strings.Repeat("x",
				4097))
		},
	} {
		req := *late
		change(&req)
		err := rejected(s.server, structs.KindInvalid, access.CompleteAuth, &req)
		if !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want the field %s", err, field)
		}
	}
}

// The state of a login is in no memory: another server, which leads now, completes it.
func TestOIDC_OutlivesItsLeader(t *testing.T) {
	s := newLoginServer(t)
	s.rule("corp", ``, access.BindRole, "ops")
	begun := s.begin()
	next := newServer(t)
	next.Clock = time.Now()
	next.Guard()
	mustPropose(next, fsm.RootKeyAdd, keyringtest.Row("k1"))
	keyringtest.Use(t, next.Keys, "k1")
	other := &loginServer{server: next, issuer: s.issuer}
	must(next, access.PolicyPut, &access.PolicyPutRequest{
		Policy: &access.Policy{Name: "reader", Rules: `node { policy = "read" }`},
	})
	other.putMethod(other.oidcMethod())
	other.rule("corp", ``, access.BindPolicy, "reader")
	must(next, access.CompleteAuth, begun)
}

// A change of the method between the verification of a login and its entry ends the login.
func TestLoginEntry_IsOfTheVersionThatVerified(t *testing.T) {
	s := newLoginServer(t)
	m := state.AuthMethod(s.Store.Read(), "ci")
	change := &access.LoginChange{
		Token: &access.Token{
			AccessorID: "a", SecretHash: []byte("h"), Type: access.TypeClient, Policies: []string{"reader"},
			ExpireTime: s.Clock.Add(time.Minute).UnixNano(),
		},
		Method:      "ci",
		MethodIndex: m.ModifyIndex,
		Now:         s.Clock.UnixNano(),
	}
	s.putMethod(s.jwtMethod())
	_, err := fsm.Propose(t.Context(), s.Raft, fsm.ACLLogin, change)
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
}

// The address of the provider has the challenge of the verifier and not the verifier itself.
func TestAuthURL_KeepsTheVerifierSecret(t *testing.T) {
	s := newLoginServer(t)
	address := must(s.server, access.AuthURL, &access.AuthURLRequest{
		AuthMethodName: "corp", RedirectURI: callbackURI, ClientNonce: "0123456789abcdef",
	}).AuthURL
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s.rule("corp", ``, access.BindRole, "ops")
	back := s.issuer.Browse(address)
	must(s.server, access.CompleteAuth, &access.CompleteAuthRequest{
		AuthMethodName: "corp", RedirectURI: callbackURI, ClientNonce: "0123456789abcdef",
		State: access.Secret(back.Get("state")), Code: access.Secret(back.Get("code")),
	})
	verifier := s.issuer.LastTokenRequest().Get("code_verifier")
	if len(verifier) < 43 || strings.Contains(u.RawQuery, verifier) {
		t.Errorf("the verifier %q is short, or in the address", verifier)
	}
	rejected(s.server, structs.KindInvalid, access.AuthURL, &access.AuthURLRequest{
		AuthMethodName: "corp", RedirectURI: "https://evil.example.org/", ClientNonce: "0123456789abcdef",
	})
}

// The token of a login ends with its session: it may delete itself, and no other token.
func TestLogin_TokensEndThemselves(t *testing.T) {
	s := newLoginServer(t)
	s.rule("ci", "", access.BindPolicy, "reader")
	begin := func() *access.TokenPutResponse {
		return must(s.server, access.TokenLogin, s.byToken(s.issuer.JWT(map[string]any{"sub": "ann"})))
	}
	first, second := begin(), begin()
	given := must(s.server, access.TokenPut, &access.TokenPutRequest{
		Token: &access.Token{Type: access.TypeClient, Policies: []string{"reader"}},
	})
	del := func(secret, accessor string) *access.TokenDeleteRequest {
		return &access.TokenDeleteRequest{
			AccessorID:   accessor,
			WriteOptions: structs.WriteOptions{AuthToken: secret},
		}
	}
	rejected(s.server, structs.KindDenied, access.TokenDelete, del(first.SecretID, second.Token.AccessorID))
	rejected(s.server, structs.KindDenied, access.TokenDelete, del(first.SecretID, ""))
	rejected(s.server, structs.KindDenied, access.TokenDelete, del(given.SecretID, given.Token.AccessorID))
	must(s.server, access.TokenDelete, del(first.SecretID, first.Token.AccessorID))
	nodes := &structs.QueryRequest{QueryOptions: structs.QueryOptions{AuthToken: first.SecretID}}
	rejected(s.server, structs.KindDenied, structs.NodeList, nodes)
	nodes.AuthToken = second.SecretID
	must(s.server, structs.NodeList, nodes)
}
