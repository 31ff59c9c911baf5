package consul

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

func TestAccess_HasNoSecretOfTheAgent(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit func(*Config)
		want Access
	}{
		"plain": {func(c *Config) { c.CAFile = ca }, Access{Address: "127.0.0.1:8500"}},
		"a socket": {func(c *Config) {
			c.Address = "unix:///run/consul.sock"
			c.SSL = true
		}, Access{Address: "unix:///run/consul.sock"}},
		"TLS": {func(c *Config) { c.SSL = true }, Access{Address: "127.0.0.1:8500", SSL: true, VerifySSL: true}},
		"an authority": {func(c *Config) {
			c.Address = "https://consul:8501"
			c.VerifySSL = false
			c.CAFile = ca
		}, Access{Address: "consul:8501", SSL: true, CA: "PEM"}},
	} {
		l := &Link{config: DefaultConfig()}
		l.config.Token = "of the agent"
		l.config.Auth = "user:password"
		c.edit(&l.config)
		got, err := l.Access()
		if err != nil || *got != c.want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestAccess_BoundsTheFile(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	l := &Link{config: DefaultConfig()}
	l.config.SSL = true
	l.config.CAFile = ca
	check := func() {
		t.Helper()
		_, err := l.Access()
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), ca) {
			t.Errorf("got %v", err)
		}
	}
	check() // it is not there
	if err := os.WriteFile(ca, make([]byte, maxCA+1), 0o600); err != nil {
		t.Fatal(err)
	}
	check()
}
