package access_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/authmethod"
	"berth/internal/keyring/keyringtest"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

func TestLogin_GivesATokenOfTheMatchingRules(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Rule("ci", `"dev" in list.groups`, access.BindRole, "ops")
	s.Rule("ci", `value.user == "ann"`, access.BindPolicy, "reader")
	s.Rule("ci", `value.user == "ann"`, access.BindPolicy, "of-${value.user}") // there is no such policy
	s.Rule("ci", `value.user == "root"`, access.BindManagement, "")

	got := endpointstest.Must(s.Server, access.TokenLogin, s.ByToken(s.Issuer.JWT(map[string]any{
		"sub": "ann", "groups": []string{"dev"},
	})))
	token := got.Token
	if token.Type != access.TypeClient || strings.Join(token.Policies, " ") != "reader" ||
		len(token.Roles) != 1 ||
		token.Roles[0].Name != "ops" || token.Name != "JWT-ci" || token.Global {
		t.Errorf("got %+v, want the role ops and the policy reader", token)
	}
	stored := endpointstest.Must(s.Server, access.TokenGet, &access.TokenGetRequest{
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
	endpointstest.Must(s.Server, structs.NodeList, nodes)
	s.Clock = s.Clock.Add(time.Hour)
	endpointstest.Rejected(s.Server, structs.KindDenied, structs.NodeList, nodes)

	s.Clock = time.Now()
	noName := s.ByToken(s.Issuer.JWT(map[string]any{"sub": "root"}))
	noName.AuthMethodName = ""
	root := endpointstest.Must(s.Server, access.TokenLogin, noName)
	if root.Token.Type != access.TypeManagement || len(root.Token.Policies) != 0 {
		t.Errorf("got %+v, want a management token", root.Token)
	}
}

func TestLogin_DeniesWhomNoRuleGivesAnything(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Rule("ci", `value.user == "ann"`, access.BindPolicy, "reader")
	s.Rule("corp", ``, access.BindPolicy, "reader") // of another method
	err := endpointstest.Rejected(s.Server, structs.KindDenied, access.TokenLogin,
		s.ByToken(s.Issuer.JWT(map[string]any{"sub": "bob"})))
	if !strings.Contains(err.Error(), "no binding rule of auth method ci") {
		t.Errorf("got %v", err)
	}
	endpointstest.Rejected(s.Server, structs.KindDenied, access.TokenLogin,
		s.ByToken(s.Issuer.JWT(map[string]any{"aud": "x"})))

	absent := s.ByToken(s.Issuer.JWT(nil))
	absent.AuthMethodName = "none"
	endpointstest.Rejected(s.Server, structs.KindNotFound, access.TokenLogin, absent)
	other := s.ByToken(s.Issuer.JWT(nil))
	other.AuthMethodName = "corp"
	endpointstest.Rejected(s.Server, structs.KindInvalid, access.TokenLogin, other)
	large := s.ByToken(strings.Repeat("x", 16<<10+1))
	endpointstest.Rejected(s.Server, structs.KindInvalid, access.TokenLogin, large)
	endpointstest.Rejected(s.Server, structs.KindInvalid, access.TokenLogin, s.ByToken(""))

	endpointstest.Must(s.Server, access.AuthMethodDelete, &access.AuthMethodDeleteRequest{Name: "ci"})
	s.PutMethod(s.JWTMethod())
	endpointstest.Rejected(s.Server, structs.KindDenied, access.TokenLogin,
		s.ByToken(s.Issuer.JWT(map[string]any{"sub": "ann"})))
}

func TestLogin_NeedsAccessControl(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Gate = nil
	endpointstest.Rejected(s.Server, structs.KindPrecondition, access.TokenLogin, s.ByToken(s.Issuer.JWT(nil)))
}

func TestLogin_BoundsTheFailuresOfASource(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	bad := s.ByToken("a.b.c")
	for range authmethod.OfSource {
		endpointstest.Rejected(s.Server, structs.KindDenied, access.TokenLogin, bad)
	}
	err := endpointstest.Rejected(s.Server, structs.KindUnavailable, access.TokenLogin, bad)
	if structs.RetryAfter(err) == 0 {
		t.Errorf("got %v, want a time to wait", err)
	}
	s.Rule("ci", ``, access.BindPolicy, "reader")
	other := s.ByToken(s.Issuer.JWT(nil))
	other.Source = "10.0.0.2"
	endpointstest.Must(s.Server, access.TokenLogin, other)
	exchange := &access.OneTimeExchangeRequest{OneTimeSecretID: "x", Source: "10.0.0.1"}
	endpointstest.Rejected(s.Server, structs.KindUnavailable, access.OneTimeExchange, exchange)
}

// begin takes the first step of a login by OIDC, and goes to the provider with a browser.
func begin(s *endpointstest.LoginServer) *access.CompleteAuthRequest {
	s.T.Helper()
	begun := &access.AuthURLRequest{
		AuthMethodName: "corp",
		RedirectURI:    endpointstest.CallbackURI,
		ClientNonce:    "0123456789abcdef",
		Source:         "10.0.0.1",
	}
	address := endpointstest.Must(s.Server, access.AuthURL, begun).AuthURL
	back := s.Issuer.Browse(address)
	return &access.CompleteAuthRequest{
		AuthMethodName: "corp",
		RedirectURI:    endpointstest.CallbackURI,
		ClientNonce:    begun.ClientNonce,
		State:          access.Secret(back.Get("state")),
		Code:           access.Secret(back.Get("code")),
		Iss:            back.Get("iss"),
		Source:         "10.0.0.1",
	}
}

func TestOIDC_GivesATokenOnce(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Rule("corp", `"dev" in list.groups`, access.BindRole, "ops")
	s.Issuer.Person(map[string]any{"sub": "ann"}, map[string]any{"groups": []string{"dev"}})
	req := begin(s)
	got := endpointstest.Must(s.Server, access.CompleteAuth, req)
	if got.Token.Name != "ann by corp" || got.Token.Roles[0].Name != "ops" || !got.Token.Global {
		t.Errorf("got %+v", got.Token)
	}
	if got.Token.ExpireTime != s.Clock.Add(8*time.Hour).UnixNano() {
		t.Error("the token does not end after MaxTokenTTL")
	}

	err := endpointstest.Rejected(s.Server, structs.KindDenied, access.CompleteAuth, req)
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
	s := endpointstest.NewLoginServer(t)
	s.Rule("corp", ``, access.BindRole, "ops")
	second := s.OIDCMethod()
	second.Name = "other"
	s.PutMethod(second)
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
		req := begin(s)
		req.Source = ""
		c.change(req)
		_, err := rpc.Call(t.Context(), s.RPC, access.CompleteAuth, req)
		if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("another, or %s: got %v, want denied with %q", name, err, c.want)
		}
	}

	late := begin(s)
	s.Clock = s.Clock.Add(11 * time.Minute)
	err := endpointstest.Rejected(s.Server, structs.KindDenied, access.CompleteAuth, late)
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
		err := endpointstest.Rejected(s.Server, structs.KindInvalid, access.CompleteAuth, &req)
		if !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want the field %s", err, field)
		}
	}
}

// The state of a login is in no memory: another server, which leads now, completes it.
func TestOIDC_OutlivesItsLeader(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Rule("corp", ``, access.BindRole, "ops")
	begun := begin(s)
	next := endpointstest.New(t)
	next.Clock = time.Now()
	next.Guard()
	endpointstest.MustPropose(next, fsm.RootKeyAdd, keyringtest.Row("k1"))
	keyringtest.Use(t, next.Keys, "k1")
	other := &endpointstest.LoginServer{Server: next, Issuer: s.Issuer}
	endpointstest.Must(next, access.PolicyPut, &access.PolicyPutRequest{
		Policy: &access.Policy{Name: "reader", Rules: `node { policy = "read" }`},
	})
	other.PutMethod(other.OIDCMethod())
	other.Rule("corp", ``, access.BindPolicy, "reader")
	endpointstest.Must(next, access.CompleteAuth, begun)
}

// A change of the method between the verification of a login and its entry ends the login.
func TestLoginEntry_IsOfTheVersionThatVerified(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
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
	s.PutMethod(s.JWTMethod())
	_, err := fsm.Propose(t.Context(), s.Raft, fsm.ACLLogin, change)
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
}

// The address of the provider has the challenge of the verifier and not the verifier itself.
func TestAuthURL_KeepsTheVerifierSecret(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	address := endpointstest.Must(s.Server, access.AuthURL, &access.AuthURLRequest{
		AuthMethodName: "corp", RedirectURI: endpointstest.CallbackURI, ClientNonce: "0123456789abcdef",
	}).AuthURL
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s.Rule("corp", ``, access.BindRole, "ops")
	back := s.Issuer.Browse(address)
	endpointstest.Must(s.Server, access.CompleteAuth, &access.CompleteAuthRequest{
		AuthMethodName: "corp", RedirectURI: endpointstest.CallbackURI, ClientNonce: "0123456789abcdef",
		State: access.Secret(back.Get("state")), Code: access.Secret(back.Get("code")),
	})
	verifier := s.Issuer.LastTokenRequest().Get("code_verifier")
	if len(verifier) < 43 || strings.Contains(u.RawQuery, verifier) {
		t.Errorf("the verifier %q is short, or in the address", verifier)
	}
	endpointstest.Rejected(s.Server, structs.KindInvalid, access.AuthURL, &access.AuthURLRequest{
		AuthMethodName: "corp", RedirectURI: "https://evil.example.org/", ClientNonce: "0123456789abcdef",
	})
}

// The token of a login ends with its session: it may delete itself, and no other token.
func TestLogin_TokensEndThemselves(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Rule("ci", "", access.BindPolicy, "reader")
	begin := func() *access.TokenPutResponse {
		return endpointstest.Must(s.Server, access.TokenLogin,
			s.ByToken(s.Issuer.JWT(map[string]any{"sub": "ann"})))
	}
	first, second := begin(), begin()
	given := endpointstest.Must(s.Server, access.TokenPut, &access.TokenPutRequest{
		Token: &access.Token{Type: access.TypeClient, Policies: []string{"reader"}},
	})
	del := func(secret, accessor string) *access.TokenDeleteRequest {
		return &access.TokenDeleteRequest{
			AccessorID:   accessor,
			WriteOptions: structs.WriteOptions{AuthToken: secret},
		}
	}
	endpointstest.Rejected(s.Server, structs.KindDenied, access.TokenDelete,
		del(first.SecretID, second.Token.AccessorID))
	endpointstest.Rejected(s.Server, structs.KindDenied, access.TokenDelete, del(first.SecretID, ""))
	endpointstest.Rejected(s.Server, structs.KindDenied, access.TokenDelete,
		del(given.SecretID, given.Token.AccessorID))
	endpointstest.Must(s.Server, access.TokenDelete, del(first.SecretID, first.Token.AccessorID))
	nodes := &structs.QueryRequest{QueryOptions: structs.QueryOptions{AuthToken: first.SecretID}}
	endpointstest.Rejected(s.Server, structs.KindDenied, structs.NodeList, nodes)
	nodes.AuthToken = second.SecretID
	endpointstest.Must(s.Server, structs.NodeList, nodes)
}
