package consul

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/consultest"
	"berth/structs"
)

func TestCommand_ReachesConsulAsTheAgentDoes(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		edit      func(*Config)
		args, env string
		grpc      string
	}{
		{"plain", func(*Config) {}, "-http-addr http://127.0.0.1:8500", "", "127.0.0.1:8502"},
		{"a socket", func(c *Config) {
			c.Address = "unix:///run/consul.sock"
			c.GRPCAddress = "unix:///run/grpc.sock"
		}, "-http-addr unix:///run/consul.sock", "", "unix:///run/grpc.sock"},
		{"TLS and a password", func(c *Config) {
			c.Address = "https://consul:8501"
			c.Auth = "user:password"
			c.CAFile = "/ca"
			c.CertFile = "/cert"
			c.KeyFile = "/key"
			c.Token = "of the agent"
		}, "-http-addr https://consul:8501 -ca-file /ca -client-cert /cert -client-key /key -grpc-ca-file /ca",
			"CONSUL_HTTP_AUTH=user:password CONSUL_HTTP_SSL_VERIFY=true", "https://consul:8502"},
	} {
		l := &Link{config: DefaultConfig(), fingerprint: &fingerprint{
			attributes: map[string]string{"consul.grpc": "8502"},
		}}
		l.config.ProxyPath = program
		c.edit(&l.config)
		got, err := l.Command()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Program != program || strings.Join(got.Args, " ") != c.args || strings.Join(got.Env, " ") != c.env {
			t.Errorf("%s: got %+v", c.name, got)
		}
		if grpc, err := l.GRPCAddress(); err != nil || grpc != c.grpc {
			t.Errorf("%s: the address of gRPC is %q, %v", c.name, grpc, err)
		}
	}
}

func TestCommand_NeedsTheProgram(t *testing.T) {
	l := &Link{config: DefaultConfig()}
	l.config.ProxyPath = "/nonexistent"
	_, err := l.Command()
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "consul.proxy_path") {
		t.Errorf("got %v", err)
	}
}

func TestACLs_WaitForConsul(t *testing.T) {
	l, _ := linkTo(t, &consultest.Agent{Addr: "127.0.0.1:1"}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if on, err := l.ACLs(ctx); on || !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("without an answer: %v, %v", on, err)
	}
	for _, want := range []bool{true, false} {
		self := map[string]map[string]any{"DebugConfig": {"ACLsEnabled": want}}
		l.fingerprint.set(attributesOf(self, false))
		if want {
			close(l.fingerprint.available)
		}
		if on, err := l.ACLs(t.Context()); on != want || err != nil {
			t.Errorf("got %v, %v, want %v", on, err, want)
		}
	}
}
