package connectproxy

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/executor"
	"berth/consul/mesh"
	"berth/structs"
	"berth/test/kit"
)

// script makes a program in a directory.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func newDriver(t *testing.T, cfg Config) *Driver {
	t.Helper()
	return New(cfg, exec.DefaultConfig(), executor.Config{
		Dir:     t.TempDir(),
		Command: []string{os.Args[0], "executor"},
	})
}

const (
	isConsul = `test "$*" = version && echo "Consul v1.15.4" && echo "Revision 2.0.0"`
	isEnvoy  = `test "$*" = --version && printf '\nenvoy  version: 4f1c35/1.26.2/Clean/RELEASE\n'`
)

func TestFingerprint_NamesTheProxyOfTheNode(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: the driver makes control groups and namespaces")
	}
	dir := t.TempDir()
	consul := script(t, dir, "consul", isConsul)
	envoy := script(t, dir, "envoy", isEnvoy)
	silent := script(t, dir, "silent", "exit 0")
	t.Setenv("PATH", t.TempDir()+":/usr/bin:/bin")
	for name, c := range map[string]struct {
		cfg                   Config
		proxy, version, fault string
	}{
		"Consul's own":       {Config{Consul: true, ConsulPath: consul}, "consul", "1.15.4", ""},
		"Envoy wins":         {Config{Consul: true, ConsulPath: consul, EnvoyPath: envoy}, "envoy", "1.26.2", ""},
		"no Consul":          {Config{ConsulPath: consul}, "", "", "uses no Consul"},
		"no program":         {Config{Consul: true}, "", "", "neither envoy nor consul"},
		"a missing program":  {Config{Consul: true, ConsulPath: consul, EnvoyPath: "/nowhere/envoy"}, "", "", "/nowhere/envoy"},
		"another program":    {Config{Consul: true, ConsulPath: silent}, "", "", "it names no version"},
		"one that is broken": {Config{Consul: true, EnvoyPath: consul}, "", "", "exit status 1"},
	} {
		info := newDriver(t, c.cfg).Fingerprint(t.Context())
		if c.fault != "" {
			if info.Healthy || !strings.Contains(info.HealthDescription, c.fault) {
				t.Errorf("%s: %+v", name, info)
			}
			continue
		}
		if !info.Healthy || info.Attributes["driver.connect.proxy"] != c.proxy ||
			info.Attributes["driver.connect.version"] != c.version ||
			info.Attributes[structs.AttrNetworkNamespace(Name)] == "" {
			t.Errorf("%s: %+v", name, info)
		}
	}
}

func TestFingerprint_AsksAProgramOnce(t *testing.T) {
	dir := t.TempDir()
	path := script(t, dir, "consul", `echo run >> `+dir+`/runs; echo "Consul v1.15.4"`)
	d := newDriver(t, Config{Consul: true, ConsulPath: path})
	for range 3 {
		p, err := d.findProgram()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.version(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	script(t, dir, "consul", `echo run >> `+dir+`/runs; echo "Consul v1.16.10"`)
	p, err := d.findProgram()
	if err != nil {
		t.Fatal(err)
	}
	version, err := d.version(t.Context(), p)
	runs, _ := os.ReadFile(filepath.Join(dir, "runs"))
	if err != nil || version != "1.16.10" || string(runs) != "run\nrun\n" {
		t.Errorf("got %q, %v after %q", version, err, runs)
	}
}

func TestValidate_RejectsAConfig(t *testing.T) {
	d := newDriver(t, Config{})
	if err := d.Validate(nil); err != nil {
		t.Error(err)
	}
	err := d.Validate(map[string]any{"image": "envoy", "command": "x"})
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "config.command") ||
		!strings.Contains(err.Error(), "config.image") {
		t.Errorf("got %v", err)
	}
}

// proxyTask is the config of the proxy of the service web.
func proxyTask(t *testing.T) *driver.TaskConfig {
	return &driver.TaskConfig{
		Task:    "connect-proxy-web",
		Network: &driver.Network{Namespace: "/run/netns/x"},
		Dirs:    driver.Dirs{Secrets: t.TempDir()},
		Proxy: &mesh.Proxy{
			Service: "web",
			Listen:  "0.0.0.0:21000",
			Local:   "127.0.0.1:8080",
			Upstreams: []mesh.ProxyUpstream{
				{Name: "api", Bind: "127.0.0.1:9191"},
				{Name: "near", Query: true, Bind: "127.0.0.2:9192"},
			},
		},
	}
}

func textsOf(args []any) (out []string) {
	for _, a := range args {
		out = append(out, a.(string))
	}
	return out
}

func TestArgs_OfTheBuiltInProxy(t *testing.T) {
	p := program{kind: KindConsul, path: "/opt/consul"}
	cfg := proxyTask(t)
	want := []string{
		"connect", "proxy", "-http-addr", "unix:///alloc/tmp/consul_http.sock", "-service", "web",
		"-service-addr", "127.0.0.1:8080", "-listen", "0.0.0.0:21000",
		"-upstream", "api:127.0.0.1:9191", "-upstream", "near.query:127.0.0.2:9192",
	}
	args, err := p.args(cfg)
	if err != nil || !slices.Equal(textsOf(args), want) {
		t.Errorf("without a token: %q, %v", args, err)
	}
	token := filepath.Join(cfg.Dirs.Secrets, driver.SITokenFile)
	if err := os.WriteFile(token, []byte("secret"), 0o440); err != nil {
		t.Fatal(err)
	}
	args, err = p.args(cfg)
	want = append(want, "-token-file", "/secrets/si_token")
	if err != nil || !slices.Equal(textsOf(args), want) {
		t.Errorf("with a token: %q, %v", args, err)
	}
	cfg.Dirs.Secrets = token // not a directory
	args, err = p.args(cfg)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("without access to the secrets: %q, %v", args, err)
	}
}

func TestArgs_OfEnvoy(t *testing.T) {
	cfg := proxyTask(t)
	cfg.Proxy = &mesh.Proxy{Service: "web", Gateway: true}
	args, err := program{kind: KindEnvoy}.args(cfg)
	want := []string{"-c", "/secrets/envoy_bootstrap.json", "-l", "info",
		"--concurrency", "1", "--disable-hot-restart"}
	if err != nil || !slices.Equal(textsOf(args), want) {
		t.Errorf("got %q, %v", args, err)
	}
}

func TestStart_NamesWhatTheBuiltInProxyLacks(t *testing.T) {
	d := newDriver(t, Config{Consul: true, ConsulPath: script(t, t.TempDir(), "consul", isConsul)})
	t.Setenv("PATH", "/usr/bin:/bin")
	for want, edit := range map[string]func(*driver.TaskConfig){
		"gateways need Envoy":          func(c *driver.TaskConfig) { c.Proxy = &mesh.Proxy{Gateway: true} },
		"expose needs Envoy":           func(c *driver.TaskConfig) { c.Proxy.EnvoyOnly = "expose" },
		"the network mode bridge":      func(c *driver.TaskConfig) { c.Network = nil },
		"no proxy of the service mesh": func(c *driver.TaskConfig) { c.Proxy = nil },
	} {
		cfg := proxyTask(t)
		edit(cfg)
		_, err := d.Start(context.Background(), cfg)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	d = newDriver(t, Config{Consul: true, ConsulPath: "/nowhere/consul"})
	if _, err := d.Start(context.Background(), proxyTask(t)); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("without the program: %v", err)
	}
}
