package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/api/transport"
	"berth/structs"
)

// guardedCluster is a server with access control and a node without it in its configuration, with TLS.
type guardedCluster struct {
	*owned
	root *operator
}

func newGuardedCluster(t *testing.T) *guardedCluster {
	s := newAgent(t, "s1", "-bootstrap-expect", "1")
	n := newAgent(t, "n1")
	c := &owned{t: t, servers: []*agent{s}, node: n}
	for _, a := range []*agent{s, n} {
		a.args = append(a.args, "-config", c.etc(a))
	}
	s.args = append(s.args, "-config", s.writeFile("acl.hcl", "acl {\n  enabled = true\n}\n"))
	s.must("tls", "init", "-key-saved", "-dir", c.etc(s), "-id", s.name)
	s.launch()
	c.join(n, "node")
	eventually(t, "the node is ready", func() error {
		out, err := s.runOverSocket("node", "status")
		return wantText(out, err, "ready")
	})
	return &guardedCluster{owned: c, root: c.newOperator(filepath.Join(t.TempDir(), "ann"), nil)}
}

func wantText(out string, err error, text string) error {
	if err == nil && !strings.Contains(out, text) {
		err = structs.Internalf("no %q in %q", text, out)
	}
	return err
}

// token makes a token with a policy and returns its secret.
func (c *guardedCluster) token(name, rules string) string {
	c.run("acl", "policy", "apply", name, c.servers[0].writeFile(name+".hcl", rules))
	out := c.run("acl", "token", "create", "-name", name, "-policy", name, "-json")
	return decode[struct{ SecretID string }](c.t, out).SecretID
}

// callAs runs a command at an agent with the certificate of the operator and a token.
func (c *guardedCluster) callAs(secret string, a *agent, args ...string) (string, error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(cmd.Environ(), "BERTH_TOKEN="+secret,
		"BERTH_ADDR=https://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(a.http)),
		"BERTH_CACERT="+c.root.ca, "BERTH_CLIENT_CERT="+c.root.base+".pem",
		"BERTH_CLIENT_KEY="+c.root.base+"-key.pem")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Logs and commands need a right through a server, and logs at the agent of the node, which has no access
// control in its configuration.
func TestStory_ACLGuardsWhatTheAgentOfANodeServes(t *testing.T) {
	t.Parallel()
	c := newGuardedCluster(t)
	s := c.servers[0]
	job := jobFile{name: "plain", node: "n1", script: "echo up; exec sleep 100000"}
	text := withAction(job.hcl(), "up", "/bin/sh", "-c", "echo up in ${NOMAD_TASK_NAME}")
	c.run("job", "run", "-detach", s.writeFile("plain.hcl", text))
	id := ""
	eventually(t, "the allocation runs", func() error {
		out, err := s.runOverSocket("job", "allocs", "-json", "plain")
		allocs := decode[[]struct{ ID, ClientStatus string }](t, out)
		if err == nil && (len(allocs) != 1 || allocs[0].ClientStatus != "running") {
			err = structs.Internalf("the allocations are %s", out)
		}
		if err == nil {
			id = allocs[0].ID
		}
		return err
	})

	may := c.token("may", `namespace "default" {
  policy       = "write"
  capabilities = ["alloc-node-exec"]
}`)
	mayNot := c.token("may-not", `namespace "default" { policy = "read" }`)
	for _, command := range [][]string{
		{"alloc", "logs", id},
		{"alloc", "exec", id, "echo", "up"},
		{"job", "action", "-job", "plain", "up"},
		{"job", "action", "-job", "plain", "-alloc", id, "up"},
	} {
		for _, a := range []*agent{s} {
			eventually(t, command[1]+" with the right at "+a.name, func() error {
				out, err := c.callAs(may, a, command...)
				if err != nil {
					err = structs.Internalf("%w: %s", err, out)
				}
				return wantText(out, err, "up")
			})
			for _, secret := range []string{mayNot, ""} {
				out, err := c.callAs(secret, a, command...)
				if exitCode(err) != structs.KindDenied.ExitCode() {
					t.Errorf("%v with the token %q at %s: %v: %s; want it denied", command, secret, a.name, err, out)
				}
			}
		}
	}

	logs := "/v1/client/fs/logs/" + id + "?task=t&type=stdout&plain=true"
	for secret, want := range map[string]int{may: 200, mayNot: 403, "": 403} {
		if got := c.statusAs(secret, c.node, logs); got != want {
			t.Errorf("logs at the node with the token %q: got the status %d, want %d", secret, got, want)
		}
	}
}

// statusAs reads a path at an agent with the certificate of the operator and a token.
func (c *guardedCluster) statusAs(secret string, a *agent, path string) int {
	c.t.Helper()
	address := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(a.http))
	to, err := transport.Open(address, transport.TLS{
		CACert:     c.root.ca,
		ClientCert: c.root.base + ".pem",
		ClientKey:  c.root.base + "-key.pem",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	defer to.HTTP.CloseIdleConnections()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, to.Base.String()+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Berth-Token", secret)
	resp, err := to.HTTP.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// withAction adds an action to the task of a job file of jobFile.
func withAction(text, name, command string, args ...string) string {
	action := fmt.Sprintf("      action %q {\n        command = %q\n        args    = [", name, command)
	for _, arg := range args {
		action += fmt.Sprintf("%q, ", arg)
	}
	const task = "task \"t\" {\n"
	return strings.Replace(text, task, task+action+"]\n      }\n", 1)
}
