package interop

import (
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"berth/internal/authmethod/issuertest"
)

// browser plays the browser of a login at the address of the provider.
type browser struct {
	t      *testing.T
	issuer *issuertest.Issuer
}

// answer visits the address of the provider, and returns the address to which it sends the browser back. With
// changed values in its query, the answer is another one.
func (b browser) answer(address string, changes map[string]string) string {
	begun, err := url.Parse(address)
	if err != nil {
		b.t.Fatal(err)
	}
	q := b.issuer.Browse(address)
	if changes["error"] != "" {
		q.Del("code")
	}
	for name, value := range changes {
		q.Set(name, value)
	}
	return begun.Query().Get("redirect_uri") + "?" + q.Encode()
}

// TestCommandLine_TakesTheLoginOfItsBrowserAlone logs in by berth's command line. The test is the browser,
// and the answer that it brings back is not that of the provider to this login.
func TestCommandLine_TakesTheLoginOfItsBrowserAlone(t *testing.T) {
	t.Parallel()
	addr, c := startLoginAgent(t)
	i := issuertest.New(t)
	methods(t, c, i)
	b := browser{t, i}
	ann := map[string]any{"sub": "ann", "groups": []string{"dev"}}
	for _, s := range []struct {
		name    string
		claims  map[string]any    // beside those of ann
		changes map[string]string // of the answer
		args    string            // beside those of the login
		want    string            // of the output
	}{
		{"another nonce", map[string]any{"nonce": "of-another-login"}, nil, "", "nonce"},
		{"another code", nil, map[string]string{"code": "stolen"}, "", "rejected"},
		{"another issuer", nil, map[string]string{"iss": "http://127.0.0.1:1"}, "", "issuer"},
		{"no consent", nil, map[string]string{"error": "access_denied"}, "", "rejected the login: access_denied"},
		{"no right", map[string]any{"groups": []string{"hr"}}, nil, "", "no binding rule"},
		{"another address", nil, nil, "-oidc-callback-addr 127.0.0.1:0", "AllowedRedirectURIs"},
	} {
		claims := maps.Clone(ann)
		maps.Copy(claims, s.claims)
		i.Person(claims, nil)
		args := append([]string{"login", "-address", addr, "-method", "corp",
			"-oidc-callback-addr", "localhost:0"}, strings.Fields(s.args)...)
		out, err := browseBy(t, exec.Command(os.Getenv("BERTH_BIN"), args...), func(address string) {
			_ = visit(b.answer(address, s.changes))
		})
		if err == nil || !strings.Contains(out, s.want) || field(out, "Secret ID") != "" {
			t.Errorf("%s: got %v, want a fault with %q and no token:\n%s", s.name, err, s.want, out)
		}
	}

	// The command ignores a visit with the state of another login, and waits for its own.
	i.Person(ann, nil)
	login := exec.Command(os.Getenv("BERTH_BIN"), "login", "-address", addr, "-type", "OIDC",
		"-oidc-callback-addr", "localhost:0")
	out, err := browseBy(t, login, func(address string) {
		other, err := http.Get(b.answer(address, map[string]string{"state": "of-another-login"}))
		if checkNoError(t, "a visit with another state", err) {
			_ = other.Body.Close()
			if other.StatusCode != http.StatusBadRequest {
				t.Errorf("a visit with another state: got the status %d, want 400", other.StatusCode)
			}
		}
		checkNoError(t, "the visit of this login", visit(b.answer(address, nil)))
	})
	if err != nil || !mayReadNodes(c, field(out, "Secret ID")) {
		t.Errorf("got %v, want a token that reads nodes:\n%s", err, out)
	}
}
