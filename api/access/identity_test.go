package access_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/go-hclog"

	"berth/api"
	_ "berth/api/access"
	"berth/api/areas"
	"berth/internal/idtoken"
	"berth/structs/access"
)

// servers answer with public keys and an issuer.
type servers struct{ answer access.KeysResponse }

func (s servers) Call(_ context.Context, _ string, _, resp any) error {
	*resp.(*access.KeysResponse) = s.answer
	return nil
}

func get(t *testing.T, s servers, path string) *httptest.ResponseRecorder {
	t.Helper()
	h := api.NewHandler(api.Config{Routes: areas.Routes(), Caller: s, ACL: true, Logger: hclog.NewNullLogger()})
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "127.0.0.1"
	h.ServeHTTP(w, r)
	return w
}

// The answers need no token, and may be kept for as long as the servers count on.
func TestWellKnown_HasTheKeysAndTheirPlace(t *testing.T) {
	public, _, err := idtoken.Generate(access.KeyRS256)
	if err != nil {
		t.Fatal(err)
	}
	s := servers{access.KeysResponse{
		PublicKeys: []access.PublicKey{{KeyID: "k", Algorithm: access.KeyRS256, PublicKey: public}},
		Issuer:     "https://berth.example.com/",
	}}
	w := get(t, s, "/.well-known/jwks.json")
	var set jose.JSONWebKeySet
	err = json.Unmarshal(w.Body.Bytes(), &set)
	if err != nil || len(set.Key("k")) != 1 || !set.Keys[0].Valid() || set.Keys[0].Use != "sig" {
		t.Errorf("got %s, error %v", w.Body, err)
	}
	if got := w.Header().Get("Cache-Control"); got != "public, max-age=900" {
		t.Errorf("the answer may be kept for %q", got)
	}

	w = get(t, s, "/.well-known/openid-configuration")
	want := `{"issuer":"https://berth.example.com/","jwks_uri":"https://berth.example.com/.well-known/jwks.json",` +
		`"response_types_supported":["code"],"id_token_signing_alg_values_supported":["RS256","EdDSA"],` +
		`"subject_types_supported":["public"]}`
	if got := strings.TrimSpace(w.Body.String()); got != want {
		t.Errorf("got %s", got)
	}

	w = get(t, servers{}, "/.well-known/openid-configuration")
	if w.Code != 404 || !strings.Contains(w.Body.String(), "oidc_issuer") {
		t.Errorf("without an issuer: %d %s", w.Code, w.Body)
	}
}
