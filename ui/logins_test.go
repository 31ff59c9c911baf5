package ui

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/access"
)

// withMethods returns the page of a cluster with an auth method of each type.
func withMethods(t *testing.T) (http.Handler, *apitest.Caller) {
	t.Helper()
	h, servers := newPage(t)
	apitest.Answer(servers, access.AuthMethodList, access.AuthMethodListResponse{
		Methods: []*access.AuthMethodStub{
			{Name: "corp", Type: access.MethodOIDC}, {Name: "ci", Type: access.MethodJWT}},
	})
	return h, servers
}

func TestLogin_OffersTheMethods(t *testing.T) {
	h, _ := withMethods(t)
	_, body := get(t, h, "/ui/login")
	wants(t, body, `href="/ui/login/oidc?method=corp"`, `name="method" value="ci"`, `action="/ui/login/jwt"`)
}

func TestLogin_TakesAJWT(t *testing.T) {
	h, servers := withMethods(t)
	apitest.On(servers, access.TokenLogin, func(_ context.Context, q *access.TokenLoginRequest) (
		*access.TokenPutResponse, error,
	) {
		if q.AuthMethodName != "ci" || q.LoginToken != "a.b.c" || q.AuthToken != "" {
			return nil, structs.Deniedf("the JWT is not valid")
		}
		return tokenOfLogin(), nil
	})
	form := url.Values{"method": {"ci"}, "jwt": {" a.b.c\n"}}
	old := loggedIn(h, "s.old")
	resp, body := post(t, h, "/ui/login/jwt", form, "Cookie", old)
	wants(t, body, "You are logged in")
	if got := tokenOf(h, resp); got != "s.new" || resp.Header.Get("Refresh") != "0; url=/ui/" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
	form.Set("jwt", "x")
	resp, body = post(t, h, "/ui/login/jwt", form)
	wants(t, body, "the JWT is not valid", `type="password"`)
	if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
}

// tokenOfLogin is the answer to a login.
func tokenOfLogin() *access.TokenPutResponse {
	return &access.TokenPutResponse{Token: &access.Token{}, SecretID: "s.new"}
}

func TestLogin_ByAProviderEndsInTheBrowserThatBeganIt(t *testing.T) {
	h, servers := withMethods(t)
	const back = "http://127.0.0.1/ui/login/callback"
	var nonce access.Secret
	apitest.On(servers, access.AuthURL, func(_ context.Context, q *access.AuthURLRequest) (
		*access.AuthURLResponse, error,
	) {
		nonce = q.ClientNonce
		if q.AuthMethodName != "corp" || q.RedirectURI != back {
			t.Errorf("asked for %+v", q)
		}
		return &access.AuthURLResponse{AuthURL: "https://id.example/auth?state=st.1"}, nil
	})
	apitest.On(servers, access.CompleteAuth, func(_ context.Context, q *access.CompleteAuthRequest) (
		*access.TokenPutResponse, error,
	) {
		if q.AuthMethodName != "corp" || q.State != "st.1" || q.Code != "c1" ||
			q.ClientNonce != nonce || q.RedirectURI != back {
			t.Errorf("ended with %+v", q)
		}
		return tokenOfLogin(), nil
	})

	resp, _ := get(t, h, "/ui/login/oidc?method=corp")
	begun := resp.Cookies()[0]
	to := resp.Header.Get("Location")
	if resp.StatusCode != http.StatusFound || to != "https://id.example/auth?state=st.1" ||
		begun.SameSite != http.SameSiteLaxMode || !begun.HttpOnly || begun.Path != "/ui/login" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}

	cookie := begun.Name + "=" + begun.Value
	for path, want := range map[string]string{
		"?state=other&code=c1":            "of another login",
		"?code=c1":                        "of another login",
		"?state=st.1&error=access_denied": "access_denied",
	} {
		resp, body := get(t, h, "/ui/login/callback"+path, "Cookie", cookie)
		wants(t, body, want)
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: got %d", path, resp.StatusCode)
		}
	}
	_, body := get(t, h, "/ui/login/callback?state=st.1&code=c1")
	wants(t, body, "has begun no login")

	resp, _ = get(t, h, "/ui/login/callback?state=st.1&code=c1", "Cookie", cookie)
	cookies := strings.Join(resp.Header.Values("Set-Cookie"), "\n")
	if tokenOf(h, resp) != "s.new" || !strings.Contains(cookies, "berth_login=;") {
		t.Errorf("got %d and the cookies %s", resp.StatusCode, cookies)
	}
}
