package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"berth/test/consultest"
	"berth/test/kit"
)

// meshScript writes a program for /bin/sh.
func (a *agent) meshScript(name, text string) string {
	a.t.Helper()
	path := a.writeFile(name, "#!/bin/sh\n"+text)
	if err := os.Chmod(path, 0o755); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// awaitPrinted waits until a task has printed a text.
func (a *agent) awaitPrinted(alloc, task, text string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%s prints %q", task, text), func() error {
		out, err := a.run("alloc", "logs", alloc, task)
		if err == nil && !strings.Contains(out, text) {
			err = errors.New(out)
		}
		return err
	})
}

// TestConnect_TasksHaveWhatLeadsToConsul runs a task without a proxy, which asks for its certificate, and a
// proxy in the place of Envoy, which looks for its token in its configuration. Requests without a token have
// no rights.
func TestConnect_TasksHaveWhatLeadsToConsul(t *testing.T) {
	t.Parallel()
	if !kit.InOwnNetwork(t, "iptables", "curl") {
		return
	}
	c := consultest.Start(t, consultest.Options{ACLs: true, Server: true})
	dir := t.TempDir()
	envoy := dir + "/envoy"
	err := os.WriteFile(envoy, []byte(`#!/bin/sh
[ "$1" = --version ] && echo "envoy  version: 0/1.26.4/Clean" && exit
[ -s /secrets/si_token ] &&
	grep -q "$(cat /secrets/si_token)" /secrets/envoy_bootstrap.json &&
	echo "configured with $*"
exec sleep 3600
`), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	a := agentInMesh(t, c, fmt.Sprintf("envoy_path = %q", envoy))
	defer a.explainFailure("lead")
	native := a.meshScript("native.sh", `curl -sS --unix-socket "${CONSUL_HTTP_ADDR#unix://}" \
	-H "X-Consul-Token: $CONSUL_HTTP_TOKEN" http://localhost/v1/agent/connect/ca/leaf/native |
	grep -o '"Service":"native"'
exec sleep 3600
`)
	group := func(name, connect string) string {
		return fmt.Sprintf(`
  group %[1]q {
    network {
      mode = "bridge"
    }
    service {
      name = %[1]q
      port = "9001"
      %[2]s
    }
    task "main" {
      driver = "raw_exec"
      config {
        command = %[3]q
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
`, name, connect, native)
	}
	a.must("job", "run", "-detach", a.writeFile("lead.hcl", "job \"lead\" {\n"+
		group("native", "connect {\n native = true\n }")+
		group("proxied", "connect {\n sidecar_service {}\n }")+"}\n"))
	a.awaitPrinted(a.allocOf("lead", "native").ID, "main", `"Service":"native"`)
	a.awaitPrinted(a.allocOf("lead", "proxied").ID, "connect-proxy-proxied",
		"configured with -c /secrets/envoy_bootstrap.json")
	a.must("job", "stop", "-purge", "lead")
}
