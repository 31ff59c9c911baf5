package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// turning is a cluster without TLS whose servers become the authority, one agent at a time, while jobs write.
type turning struct {
	closing
	ids map[*agent]string // of the nodes
}

func (c *turning) etc(a *agent) string { return filepath.Join(a.dir, "etc") }

// runJoin runs tls join with a token on its standard input.
func (a *agent) runJoin(token string, args ...string) error {
	_, err := a.runWithInput(token+"\n", slices.Concat([]string{"tls", "join"}, args, []string{"-"})...)
	return err
}

// restart restarts a server. It then has all others, in Raft and in the gossip, and takes a job.
func (c *turning) restart(s *agent) {
	c.t.Helper()
	s.replace()
	s.awaitPeers(c.t, len(c.servers))
	s.awaitAlive(len(c.servers))
	name := fmt.Sprintf("job%d-at-%s", len(c.jobs), s.name)
	s.must("job", "run", "-detach", s.writeJob(jobFile{name: name, node: "nobody", script: "true"}))
	c.jobs = append(c.jobs, name)
}

// restartServers restarts the servers one by one, with a change of each. The leader is the last one.
func (c *turning) restartServers(change func(s *agent)) {
	c.t.Helper()
	leader, followers := c.leader()
	for _, s := range append(slices.Clone(followers), leader) {
		change(s)
		c.restart(s)
	}
}

// begin makes the authority on the first server, and gives all servers its key-encryption key. The leader
// then makes the first root key, and the first server, once it leads, stores the authority.
func (c *turning) begin() {
	c.t.Helper()
	first := c.servers[0]
	first.must("tls", "init", "-mode", "prefer", "-key-saved", "-dir", c.etc(first), "-id", first.name)
	key, err := os.ReadFile(filepath.Join(c.etc(first), "keyring"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range c.servers[1:] {
		file := filepath.Join(c.etc(s), "keyring")
		err = errors.Join(os.Mkdir(c.etc(s), 0o755), os.WriteFile(file, key, 0o600))
		if err != nil {
			c.t.Fatal(err)
		}
		s.writeFile("etc/keyring.hcl", fmt.Sprintf("server {\n  keyring {\n    file = %q\n  }\n}\n", file))
	}
	c.restartServers(func(s *agent) { s.args = append(s.args, "-config", c.etc(s)) })

	eventually(c.t, "a root key", func() error {
		out, err := first.run("operator", "root", "keyring", "list")
		if err == nil && !strings.Contains(out, "active") {
			err = errors.New(out)
		}
		return err
	})
	eventually(c.t, "the servers have the authority", func() error {
		_, err := first.runOverSocket("server", "join-token", "create")
		if err != nil { // another server may lead, also after an election
			_, _ = first.run("operator", "raft", "transfer-leadership", "-peer-address",
				"127.0.0.1:"+strconv.Itoa(first.rpc))
		}
		return err
	})
}

// token makes a join token at the first server, as soon as the servers are the authority.
func (c *turning) token(args ...string) (token string) {
	c.t.Helper()
	eventually(c.t, "a join token", func() error {
		out, err := c.servers[0].runOverSocket(args...)
		token = strings.TrimSpace(out)
		return err
	})
	return token
}

// joinAll has the other servers and the nodes join with their present IDs, one by one.
func (c *turning) joinAll() {
	c.t.Helper()
	server := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.servers[0].rpc))
	for _, s := range c.servers[1:] {
		token := c.token("server", "join-token", "create")
		err := s.runJoin(token, "-mode", "prefer", "-dir", c.etc(s), "-id", s.name, server)
		if err != nil {
			c.t.Fatal(err)
		}
		c.restart(s)
	}
	for _, n := range c.nodes {
		token := c.token("node", "join-token", "create", "-node-name", n.name)
		err := n.runJoin(token, "-mode", "prefer", "-dir", c.etc(n), "-id", c.ids[n], "-name", n.name, server)
		if err != nil {
			c.t.Fatal(err)
		}
		n.args = append(n.args, "-config", c.etc(n))
		n.replace()
	}
}

// edit changes the settings of an agent.
func (c *turning) edit(a *agent, pairs ...string) {
	c.t.Helper()
	path := filepath.Join(c.etc(a), "tls.hcl")
	text, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	changed := strings.NewReplacer(pairs...).Replace(string(text))
	if changed == string(text) {
		c.t.Fatalf("%s has none of %q:\n%s", path, pairs, text)
	}
	err = os.WriteFile(path, []byte(changed), 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
}

// setAll changes the settings of all agents, the servers first.
func (c *turning) setAll(step string, pairs ...string) {
	c.t.Helper()
	c.restartServers(func(s *agent) { c.edit(s, pairs...) })
	for _, n := range c.nodes {
		c.edit(n, pairs...)
		n.replace()
	}
	c.check(step)
}

// check compares the cluster with the one at first, and each node with its ID.
func (c *turning) check(step string) {
	c.t.Helper()
	c.closing.check(step)
	for _, n := range c.nodes {
		if id := c.servers[0].nodeID(n.name); id != c.ids[n] {
			c.t.Errorf("after %s the node %s has the ID %s, was %s", step, n.name, id, c.ids[n])
		}
	}
}

// checkGossip looks for one key on all servers.
func (c *turning) checkGossip() {
	c.t.Helper()
	eventually(c.t, "one gossip key on all servers", func() error {
		out, err := c.servers[0].runOverSocket("operator", "gossip", "keyring", "list")
		if err == nil && !strings.Contains(out, "3 of 3   3") {
			err = errors.New(out)
		}
		return err
	})
}

// A cluster without TLS makes its servers the authority, and goes on to TLS alone and encrypted gossip, with
// one step back, while jobs write to volumes. No allocation, claim, mount or node ID changes.
func TestTLS_IsTurnedOnByTheServersOwnAuthority(t *testing.T) {
	t.Parallel()
	c := &turning{
		closing: closing{upgrade: upgrade{testCluster: newServers(t)}},
		ids:     map[*agent]string{},
	}
	for range 2 {
		c.addNode().start()
	}
	for _, n := range c.nodes {
		n.ready = c.nodeReady
		c.ids[n] = c.servers[0].nodeID(n.name)
	}
	c.fill()
	c.begin()
	c.check("the first server")
	c.joinAll()
	c.check("prefer")
	c.setAll("off", `"prefer"`, `"off"`)
	c.setAll("prefer again", `"off"`, `"prefer"`)

	c.restartServers(func(s *agent) {
		c.edit(s, "encrypt_verify_outgoing = false", "encrypt_verify_outgoing = true")
	})
	c.setAll("require", `"prefer"`, "\"require\"\n  plain_loopback = true", // for commands without TLS
		"  encrypt_verify_incoming = false\n", "", "  encrypt_verify_outgoing = true\n", "")
	for _, s := range c.servers {
		mustRejectPlain(t, s.rpc)
	}
	c.checkGossip()
	c.finish()
}
