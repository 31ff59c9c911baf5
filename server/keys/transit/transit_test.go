package transit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"berth/server/keys/transit"
	"berth/server/keys/transit/transittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rootKey = "0123456789abcdef0123456789abcdef"

func TestClient_WrapsAndUnwraps(t *testing.T) {
	engine := transittest.New(t)
	c := transit.New(engine.Settings())
	wrapped, err := c.Wrap(t.Context(), "one", []byte(rootKey))
	if err != nil || !strings.HasPrefix(string(wrapped), "vault:v1:") {
		t.Fatalf("got %q, error %v", wrapped, err)
	}
	engine.Set(func(s *transittest.Server) { s.Version = 2 })
	newer, err := c.Wrap(t.Context(), "one", []byte(rootKey))
	if err != nil || !strings.HasPrefix(string(newer), "vault:v2:") {
		t.Fatalf("got %q, error %v", newer, err)
	}
	for _, form := range [][]byte{wrapped, newer} {
		got, err := c.Unwrap(t.Context(), "one", form)
		if err != nil || string(got) != rootKey {
			t.Errorf("%s: got %q, error %v", form, got, err)
		}
	}
	for _, h := range engine.Headers() {
		if h.Get("X-Vault-Request") != "true" {
			t.Error("the header that listeners may demand is not there")
		}
	}
}

func TestClient_NamesTheRemedy(t *testing.T) {
	engine := transittest.New(t)
	wrapped, err := transit.New(engine.Settings()).Wrap(t.Context(), "one", []byte(rootKey))
	if err != nil {
		t.Fatal(err)
	}
	type fake = transittest.Server
	for _, c := range []struct {
		name   string
		engine func(*fake)
		change func(*transit.Settings)
		want   string
	}{
		{"sealed", func(s *fake) { s.Sealed = true }, nil, "it is sealed, or not ready): Vault is sealed"},
		{"another token", func(s *fake) { s.Token = "other" }, nil, "the token has ended, or its policy"},
		{"the key was rotated and trimmed", func(s *fake) { s.Oldest = 2 }, nil, "disallowed by policy"},
		{"no such engine", nil, func(s *transit.Settings) { s.MountPath = "" }, "no engine is at mount_path"},
		{"no token", nil, func(s *transit.Settings) { s.TokenFile += "x" }, "token_file: open "},
		{"an empty token", nil, func(s *transit.Settings) { s.TokenFile = os.DevNull }, "has no token"},
		{"a long token", nil, func(s *transit.Settings) { s.TokenFile = "/proc/self/exe" }, "more than 8192 bytes"},
		{"no authority", nil, func(s *transit.Settings) { s.CAFile = "" }, "certificate"},
		{"an empty authority", nil, func(s *transit.Settings) { s.CAFile = os.DevNull }, "has no certificate in PEM"},
		{"another name", nil, func(s *transit.Settings) { s.ServerName = "other" }, "certificate"},
		{"a redirection", answers(http.StatusTemporaryRedirect, ""), nil, "it names another address"},
		{"a long answer", answers(http.StatusOK, strings.Repeat("x", 1<<20)), nil, "more than 32768 bytes"},
		{"no JSON", answers(http.StatusOK, "<html>"+rootKey), nil, "no JSON of the transit engine"},
		{"no base64", answers(http.StatusOK, `{"data": {"plaintext": "%%"}}`), nil, "no JSON of the transit engine"},
		{"no data", answers(http.StatusOK, `{}`), nil, "the answer has no plaintext"},
		{"a proxy", answers(http.StatusBadGateway, "<html>"), nil, "502 Bad Gateway"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.engine != nil {
				var was transittest.Server
				engine.Set(func(s *fake) {
					was.Sealed, was.Token = s.Sealed, s.Token
					was.Oldest, was.Answer = s.Oldest, s.Answer
					c.engine(s)
				})
				defer engine.Set(func(s *fake) {
					s.Sealed, s.Token = was.Sealed, was.Token
					s.Oldest, s.Answer = was.Oldest, was.Answer
				})
			}
			settings := engine.Settings()
			if c.change != nil {
				c.change(settings)
			}
			_, err := transit.New(settings).Unwrap(t.Context(), "one", wrapped)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "decrypt") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), rootKey) || strings.Contains(err.Error(), "hvs.")) {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
}

// answers makes the engine answer all calls with a text.
func answers(status int, text string) func(*transittest.Server) {
	return func(s *transittest.Server) {
		s.Answer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://127.0.0.1:1/elsewhere")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		})
	}
}

func TestClient_ReadsARenewedToken(t *testing.T) {
	engine := transittest.New(t)
	c := transit.New(engine.Settings())
	engine.Set(func(s *transittest.Server) { s.Token = "renewed" })
	if _, err := c.Wrap(t.Context(), "one", []byte(rootKey)); err == nil {
		t.Error("the former token is accepted")
	}
	if err := os.WriteFile(engine.Settings().TokenFile, []byte("renewed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wrap(t.Context(), "one", []byte(rootKey)); err != nil {
		t.Error(err)
	}
}

func TestClient_EndsWithItsContext(t *testing.T) {
	engine := transittest.New(t)
	engine.Set(func(s *transittest.Server) { s.Hold = make(chan struct{}) })
	cause := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := transit.New(engine.Settings()).Wrap(ctx, "one", []byte(rootKey))
		ended <- err
	}()
	cancel(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestSettings_FaultsNamesEach(t *testing.T) {
	valid := func() transit.Settings {
		return transit.Settings{Address: "https://vault:8200", KeyName: "berth", TokenFile: "/run/token"}
	}
	for _, c := range []struct {
		change func(*transit.Settings)
		want   string
	}{
		{func(*transit.Settings) {}, "[]"},
		{func(s *transit.Settings) { s.Address = "http://127.0.0.1:8200/" }, "[]"},
		{func(s *transit.Settings) { s.MountPath = "/a/b/"; s.Namespace = "/n/m/" }, "[]"},
		{func(s *transit.Settings) { s.Address = "http://vault:8200" }, "not on this machine"},
		{func(s *transit.Settings) { s.Address = "vault:8200" }, "expected https://host:port"},
		{func(s *transit.Settings) { s.Address = "https://u:p@vault" }, "expected https://host:port"},
		{func(s *transit.Settings) { s.Address = "https://vault/v1" }, "expected https://host:port"},
		{func(s *transit.Settings) { s.Address = "https://vault?x=1" }, "expected https://host:port"},
		{func(s *transit.Settings) { s.Address = "https://" + strings.Repeat("a", 600) }, "at most 512"},
		{func(s *transit.Settings) { s.KeyName = "" }, "key_name is"},
		{func(s *transit.Settings) { s.KeyName = "a/b" }, "key_name is"},
		{func(s *transit.Settings) { s.KeyName = ".." }, "key_name is"},
		{func(s *transit.Settings) { s.KeyName = strings.Repeat("a", 300) }, "at most 256"},
		{func(s *transit.Settings) { s.MountPath = "a/../sys" }, "mount_path is"},
		{func(s *transit.Settings) { s.Namespace = "a b" }, "namespace is"},
		{func(s *transit.Settings) { s.TokenFile = "" }, "token_file is"},
		{func(s *transit.Settings) { s.CAFile = "ca" }, "ca_file is"},
		{func(s *transit.Settings) { s.ServerName = strings.Repeat("a", 300) }, "tls_server_name has"},
	} {
		s := valid()
		c.change(&s)
		if got := fmt.Sprint(s.Faults()); !strings.Contains(got, c.want) {
			t.Errorf("%+v: got %s, want %q", s, got, c.want)
		}
	}
}

func TestSettings_TheFingerprintIsOfTheKey(t *testing.T) {
	id := func(change func(*transit.Settings)) string {
		s := transit.Settings{Address: "https://a", KeyName: "k", Namespace: "n"}
		change(&s)
		return s.ID()
	}
	same := id(func(*transit.Settings) {})
	if id(func(s *transit.Settings) { s.Address = "https://b" }) != same ||
		id(func(s *transit.Settings) { s.MountPath = "/transit/"; s.Namespace = "n/" }) != same {
		t.Error("another way to the same key has another fingerprint")
	}
	for _, other := range []string{
		id(func(s *transit.Settings) { s.KeyName = "l" }),
		id(func(s *transit.Settings) { s.MountPath = "kms" }),
		id(func(s *transit.Settings) { s.Namespace = "" }),
	} {
		if other == same {
			t.Error("another key has the same fingerprint")
		}
	}
}
