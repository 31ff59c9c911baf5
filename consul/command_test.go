package consul

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
	"berth/test/consultest"
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
		l.fingerprint.set(factAttributes(self, false))
		if want {
			close(l.fingerprint.available)
		}
		if on, err := l.ACLs(t.Context()); on != want || err != nil {
			t.Errorf("got %v, %v, want %v", on, err, want)
		}
	}
}

// A token without agent:read gets a rejection, which a waiting task tells.
func TestACLs_NameTheRejectionOfConsul(t *testing.T) {
	a := consultest.Start(t, consultest.Options{ACLs: true})
	l, _ := linkTo(t, a, func(c *Config) { c.Token = Secret(a.Token(`key_prefix "" { policy = "read" }`)) })
	f := l.fingerprint
	ask := f.self
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.self = func(context.Context) (map[string]map[string]any, error) {
		self, err := ask(t.Context())
		cancel() // the run ends after this look
		return self, err
	}
	f.run(ctx)
	_, err := l.ACLs(ctx)
	if err == nil || !strings.Contains(err.Error(), "denies it to the agent's token") ||
		!strings.Contains(err.Error(), "agent:read") {
		t.Errorf("got %v", err)
	}
}

func TestFingerprint_WarnsOnceOfARejection(t *testing.T) {
	for text, fault := range map[string]error{"Consul does not describe": rejection(403), "": errAway} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			f := newFingerprint(nil, false, hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn}))
			f.self = func(context.Context) (map[string]map[string]any, error) { return nil, fault }
			ctx, cancel := context.WithTimeout(t.Context(), 10*fingerprintInterval)
			defer cancel()
			f.run(ctx)
			lines := strings.Count(log.String(), "\n")
			if text == "" && lines != 0 || text != "" && (lines != 1 || !strings.Contains(log.String(), text)) {
				t.Errorf("for %v the log has %q", fault, &log)
			}
		})
	}
}
