package consulacl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"berth/consul"
	"berth/structs"
	"berth/test/consultest"
)

func demandToken(c *consul.Config) { c.AllowUnauthenticated = false }

func TestCheckSubmitter_FollowsTheRulesOfConsul(t *testing.T) {
	a := consultest.Start(t, consultest.Options{ACLs: true})
	c := clientOf(t, a.Addr, consultest.ManagementToken, demandToken)
	var many []string
	for i := range maxRights + 6 {
		many = append(many, fmt.Sprintf("web-%03d", i))
	}
	prefix := a.Token(`service_prefix "web" { policy = "write" } service "web-069" { policy = "read" }`)
	identity := order("web")
	own, err := c.CreateToken(t.Context(), identity)
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]struct {
		token    string
		services []string
		kind     structs.Kind // "" passes
		says     string
	}{
		"nothing":          {"", nil, "", ""},
		"everything":       {consultest.ManagementToken, []string{"api", "web"}, "", ""},
		"by name":          {a.Token(`service "web" { policy = "write" }`), []string{"web"}, "", ""},
		"another":          {a.Token(`service "web" { policy = "write" }`), []string{"api"}, structs.KindDenied, `"api"`},
		"reads":            {a.Token(`service "web" { policy = "read" }`), []string{"web"}, structs.KindDenied, `"web"`},
		"by prefix":        {prefix, many[:maxRights+5], "", ""},
		"all but the last": {prefix, many, structs.KindDenied, `"web-069"`},
		"by identity":      {string(own), []string{"web"}, "", ""},
		"no token":         {"", []string{"web"}, structs.KindDenied, "CONSUL_HTTP_TOKEN"},
		"unknown token":    {structs.NewID(), []string{"web"}, structs.KindDenied, "does not know"},
		"placeholder":      {prefix, []string{"web-${meta.x}"}, structs.KindDenied, "placeholders"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.CheckSubmitter(t.Context(), structs.Secret(check.token), check.services)
			if structs.KindOf(err) != check.kind {
				t.Fatalf("got error %v (%s), want %q", err, structs.KindOf(err), check.kind)
			}
			if err != nil && (!strings.Contains(err.Error(), check.says) ||
				check.token != "" && strings.Contains(err.Error(), check.token)) {
				t.Errorf("got error %q, want one with %q and without the token", err, check.says)
			}
		})
	}
	a.Kill()
	err = c.CheckSubmitter(t.Context(), structs.Secret(prefix), []string{"web"})
	wantKind(t, err, structs.KindUnavailable)
}

// A proxy before Consul with basic authentication gets that of the configuration, and Consul the token.
func TestCheckSubmitter_PassesAProxyWithAuthentication(t *testing.T) {
	a := consultest.Start(t, consultest.Options{ACLs: true})
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: a.Addr})
	behind.Transport = &http.Transport{DisableKeepAlives: true}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "berth" || password != "p:w" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	c := clientOf(t, proxy.URL, consultest.ManagementToken, demandToken, func(c *consul.Config) {
		c.Auth = "berth:p:w"
	})
	token := structs.Secret(a.Token(`service "web" { policy = "write" }`))
	if err := c.CheckSubmitter(t.Context(), token, []string{"web"}); err != nil {
		t.Error(err)
	}
	wantKind(t, c.CheckSubmitter(t.Context(), token, []string{"api"}), structs.KindDenied)
}

func TestCheckSubmitter_NeedsAConsulWithACLs(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	err := clientOf(t, a.Addr, "", demandToken).CheckSubmitter(t.Context(), "x", []string{"web"})
	wantKind(t, err, structs.KindPrecondition)
	err = clientOf(t, a.Addr, "").CheckSubmitter(t.Context(), "", []string{"web"})
	if err != nil {
		t.Errorf("without the setting: %v", err)
	}
}
