package access_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/endpointstest"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

func TestBootstrap_MakesTheFirstTokenOnceAndAfterAReset(t *testing.T) {
	s := endpointstest.New(t)
	s.DataDir = t.TempDir()
	reset := filepath.Join(s.DataDir, "acl-bootstrap-reset")
	s.Name = "server-1"
	s.Guard()

	first := endpointstest.Must(s, access.Bootstrap, &access.BootstrapRequest{})
	if first.Token.Type != access.TypeManagement || first.SecretID == "" {
		t.Fatalf("got %+v, want a management token with its secret", first)
	}
	_, err := rpc.Call(t.Context(), s.RPC, access.TokenList, &access.TokenListRequest{
		QueryOptions: structs.QueryOptions{AuthToken: first.SecretID},
	})
	if err != nil {
		t.Errorf("the first token may not list tokens: %v", err)
	}

	err = endpointstest.Rejected(s, structs.KindConflict, access.Bootstrap, &access.BootstrapRequest{})
	want := fmt.Sprintf("on server server-1, which leads, root writes %d into %s", first.Index, reset)
	if !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
	for _, text := range []string{"", "x", fmt.Sprint(first.Index + 1)} {
		writeText(t, reset, text)
		endpointstest.Rejected(s, structs.KindConflict, access.Bootstrap, &access.BootstrapRequest{})
	}

	writeText(t, reset, fmt.Sprintf("%d\n", first.Index))
	secret := "0f0e0d0c-0b0a-0908-0706-050403020100"
	second := endpointstest.Must(s, access.Bootstrap, &access.BootstrapRequest{Secret: secret})
	if second.SecretID != secret || second.Token.AccessorID == first.Token.AccessorID {
		t.Errorf("got %+v, want another token with the secret of the request", second)
	}
	if _, err := os.Stat(reset); !os.IsNotExist(err) {
		t.Errorf("the file of the reset is still there: %v", err)
	}
	endpointstest.Rejected(s, structs.KindConflict, access.Bootstrap, &access.BootstrapRequest{})
	endpointstest.Rejected(s, structs.KindInvalid, access.Bootstrap, &access.BootstrapRequest{Secret: "short"})
}

// TestBootstrap_WorksInEveryMode: the server that leads may lack the acl block that others have.
func TestBootstrap_WorksInEveryMode(t *testing.T) {
	s := endpointstest.New(t)
	first := endpointstest.Must(s, access.Bootstrap, &access.BootstrapRequest{})
	if first.Token.Type != access.TypeManagement || first.SecretID == "" {
		t.Errorf("got %+v, want a management token with its secret", first)
	}
}

// TestSetMode_LoosensOnlyWhatNoServerTightensAgain: root sets the mode over the operator socket. It needs a
// token, and a mode that is not looser than the configuration of a server.
func TestSetMode_LoosensOnlyWhatNoServerTightensAgain(t *testing.T) {
	s := endpointstest.New(t)
	s.DataDir = t.TempDir()
	s.Guard()
	servers := []access.ServerMode{{Name: "s1", Mode: access.ModeOff}, {Name: "s2", Mode: access.ModeLog}}
	s.AccessModes = func() []access.ServerMode { return servers }
	s.RPC.Close()
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)
	set := func(mode string) error {
		_, err := rpc.Call(opsocket.Mark(t.Context()), s.RPC, access.ModeSet, &access.ModeSetRequest{Mode: mode})
		return err
	}
	check := func(what string, err error, kind structs.Kind, text string) {
		t.Helper()
		if !structs.IsKind(err, kind) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %s with %q", what, err, kind, text)
		}
	}

	check("without a token", set(access.ModeEnforce), structs.KindPrecondition, "berth acl bootstrap")
	endpointstest.Must(s, access.Bootstrap, &access.BootstrapRequest{})
	check("another word", set("none"), structs.KindInvalid, "off, log or enforce")
	if err := set(access.ModeEnforce); err != nil {
		t.Fatal(err)
	}
	check("looser than s2", set(access.ModeOff), structs.KindPrecondition, "server s2 has the acl mode log")
	if err := set(access.ModeLog); err != nil {
		t.Fatal(err)
	}
	got := endpointstest.Must(s, access.ModeGet, &access.ModeGetRequest{})
	if got.Mode != access.ModeLog {
		t.Errorf("the mode is %s", got.Mode)
	}
	_, err := rpc.Call(t.Context(), s.RPC, access.ModeSet, &access.ModeSetRequest{Mode: access.ModeEnforce})
	check("without the socket", err, structs.KindDenied, "")
}

func TestTokens_AreMadeAndChanged(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{
		Policy: &access.Policy{Name: "read", Rules: `node { policy = "read" }`},
	})
	endpointstest.Rejected(s, structs.KindInvalid, access.PolicyPut,
		&access.PolicyPutRequest{Policy: &access.Policy{Name: "bad", Rules: "node {}"}})
	role := endpointstest.Must(s, access.RolePut, &access.RolePutRequest{Role: &access.Role{
		Name: "ops", Policies: []*access.PolicyLink{{Name: "read"}},
	}}).Role

	made := endpointstest.Must(s, access.TokenPut, &access.TokenPutRequest{
		Token: &access.Token{Name: "duty", Type: access.TypeClient, Roles: []*access.Link{{Name: "ops"}}},
		TTL:   time.Hour,
	})
	token := made.Token
	if made.SecretID == "" || token.Roles[0].ID != role.ID || token.Roles[0].Name != "ops" ||
		token.ExpireTime != s.Clock.Add(time.Hour).UnixNano() {
		t.Fatalf("got %+v, want a token of the role that ends in an hour", made)
	}
	nodes := &structs.QueryRequest{QueryOptions: structs.QueryOptions{AuthToken: made.SecretID}}
	endpointstest.Must(s, structs.NodeList, nodes)

	changed := endpointstest.Must(s, access.TokenPut, &access.TokenPutRequest{
		Token: &access.Token{AccessorID: token.AccessorID, Name: "night", Policies: []string{"read"}},
	})
	if changed.SecretID != "" || changed.Token.Name != "night" || changed.Token.ExpireTime != token.ExpireTime {
		t.Errorf("got %+v, want another name, the former end and no secret", changed)
	}
	log := s.Raft.Text()
	if strings.Contains(log, made.SecretID) || !strings.Contains(log, token.AccessorID) {
		t.Error("the log has the secret of a new token, or not the token")
	}
	own := endpointstest.Must(s, access.TokenGet, &access.TokenGetRequest{QueryOptions: nodes.QueryOptions})
	if own.Token.AccessorID != token.AccessorID {
		t.Errorf("the token of the caller is %s, want %s", own.Token.AccessorID, token.AccessorID)
	}

	s.Clock = s.Clock.Add(time.Hour)
	endpointstest.Rejected(s, structs.KindDenied, structs.NodeList, nodes)
	for kind, req := range map[structs.Kind]*access.TokenPutRequest{
		structs.KindNotFound: {Token: &access.Token{AccessorID: "gone", Policies: []string{"read"}}},
		structs.KindPrecondition: {
			Token: &access.Token{Type: access.TypeClient, Roles: []*access.Link{{Name: "none"}}},
		},
		structs.KindInvalid: {
			Token: &access.Token{Type: access.TypeClient, Policies: []string{"read"}},
			TTL:   -1,
		},
	} {
		endpointstest.Rejected(s, kind, access.TokenPut, req)
	}
}

// A client token sees its own policies and roles in lists, and no others.
func TestPolicies_AreShownToTheirTokens(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	secret := s.Token(`node { policy = "read" }`)
	s.Token(`operator { policy = "read" }`)
	q := structs.QueryOptions{AuthToken: secret}
	policies := endpointstest.Must(s, access.PolicyList, &structs.QueryRequest{QueryOptions: q}).Policies
	if len(policies) != 1 {
		t.Fatalf("got %d policies, want the one of the token", len(policies))
	}
	endpointstest.Must(s, access.PolicyGet, &access.NameRequest{Name: policies[0].Name, QueryOptions: q})
	endpointstest.Rejected(s, structs.KindDenied, access.PolicyGet,
		&access.NameRequest{Name: "p2", QueryOptions: q})
	all := endpointstest.Must(s, access.PolicyList, &structs.QueryRequest{
		QueryOptions: structs.QueryOptions{AuthToken: s.ManagementToken()},
	}).Policies
	if len(all) != 2 {
		t.Errorf("a management token sees %d policies, want 2", len(all))
	}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	err := os.WriteFile(path, []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}
}
