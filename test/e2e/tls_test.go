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
	"time"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

// closing is a cluster whose agents change their mode of TLS, one at a time, while jobs write.
type closing struct {
	upgrade
	authority *pkitest.Authority
	configs   map[*agent]string // the file with the mode
	closed    *agent            // takes no connection without TLS when TLS is required
}

// nodeReady is agent.nodeReady by the API of a server: the one of a node does not serve the cluster when
// TLS is required.
func (c *closing) nodeReady(n *agent) error {
	_, err := get[map[string]any](n, "/v1/agent/health?type=client")
	if err != nil {
		return err
	}
	out, err := c.servers[0].run("node", "status")
	if err == nil && strings.Count(out, "ready") < len(c.nodes) {
		err = errors.New("a node is not ready")
	}
	return err
}

// setMode restarts an agent with another mode.
func (c *closing) setMode(a *agent, mode string) {
	c.t.Helper()
	role, id := pki.RoleServer, a.name
	if slices.Contains(c.nodes, a) {
		role, id = pki.RoleNode, c.servers[0].nodeID(a.name)
	}
	files := c.authority.Files(c.t, role, id)
	path := a.writeFile("tls.hcl", fmt.Sprintf(`tls {
  mode           = %q
  ca_file        = %q
  cert_file      = %q
  key_file       = %q
  plain_loopback = %v
}
`, mode, c.authority.CAFile, files.Cert, files.Key, mode == "require" && a != c.closed)) // for commands without TLS
	if c.configs[a] == "" {
		a.args = append(a.args, "-config", path)
		c.configs[a] = path
	}
	a.replace()
}

// setAll restarts all agents with another mode, one by one. The leader is the last server.
func (c *closing) setAll(t *testing.T, mode string) {
	t.Helper()
	leader, followers := c.leader()
	for _, s := range append(followers, leader) {
		c.setMode(s, mode)
		s.awaitPeers(t, len(c.servers))
	}
	for _, n := range c.nodes {
		c.setMode(n, mode)
	}
	c.check("mode " + mode)
}

// A cluster of three servers and two nodes goes from plain TCP to TLS alone and one step back, while jobs
// write to volumes. No allocation, claim or mount changes.
func TestTLS_IsTurnedOnAgentByAgent(t *testing.T) {
	t.Parallel()
	c := &closing{
		upgrade:   upgrade{testCluster: newServers(t)},
		authority: pkitest.New(t, "global"),
		configs:   map[*agent]string{},
	}
	for range 2 {
		c.addNode().start()
	}
	for _, n := range c.nodes {
		n.ready = c.nodeReady
	}
	c.fill()
	c.setAll(t, "prefer")
	c.setAll(t, "require")
	for _, s := range c.servers {
		mustRejectPlain(t, s.rpc)
	}
	c.mustTakeOperators(t)
	c.mustForwardSnapshots(t)

	c.setAll(t, "prefer")
	c.finish()
}

// options returns the options with which a command calls an agent over TLS.
func (c *closing) options(a *agent, files pkitest.Files) []string {
	return []string{"-address", "https://127.0.0.1:" + strconv.Itoa(a.http), "-ca-cert", c.authority.CAFile,
		"-client-cert", files.Cert, "-client-key", files.Key}
}

// mustForwardSnapshots saves and restores the state at a follower of a leader that takes TLS alone.
func (c *closing) mustForwardSnapshots(t *testing.T) {
	t.Helper()
	leader, followers := c.leader()
	next, follower := followers[0], followers[1]
	ann := c.authority.Files(t, pki.RoleOperator, "ann")
	operator := c.options(next, ann)
	ready := next.ready
	c.closed = next
	next.ready = func(a *agent) error {
		_, err := a.run(append([]string{"operator", "raft", "list-peers"}, operator...)...)
		return err
	}
	c.setMode(next, "require")

	leader.mustEventually("operator", "raft", "transfer-leadership", "-peer-address",
		"127.0.0.1:"+strconv.Itoa(next.rpc))
	eventually(t, "the leader takes TLS alone", func() error {
		peers, err := follower.peers()
		if err == nil && (peers[next.name] == nil || !peers[next.name].Leader) {
			err = errors.New("another server leads")
		}
		return err
	})
	archive := filepath.Join(follower.dir, "forwarded.snap")
	secured := c.options(follower, ann)
	follower.must(slices.Concat([]string{"operator", "snapshot", "save"}, secured, []string{archive})...)
	out := follower.must("operator", "snapshot", "inspect", archive)
	if !strings.Contains(out, "complete") {
		t.Errorf("the archive: %s", out)
	}
	follower.must(slices.Concat([]string{"operator", "snapshot", "restore"}, secured, []string{archive})...)

	c.closed = nil
	next.ready = ready
	c.setMode(next, "require")
	next.awaitPeers(t, len(c.servers))
}

// mustTakeOperators calls the API with the certificate of an operator, also a node by way of a server. The
// certificate of a node gives no access.
func (c *closing) mustTakeOperators(t *testing.T) {
	t.Helper()
	s := c.servers[0]
	operator := c.options(s, c.authority.Files(t, pki.RoleOperator, "ann"))
	s.must(append([]string{"node", "status"}, operator...)...)
	out := s.must(append([]string{"alloc", "exec"}, append(operator, c.writers[0].alloc, "echo", "from the task")...)...)
	if !strings.Contains(out, "from the task") {
		t.Errorf("the command in the task printed %q", out)
	}
	node := c.options(s, c.authority.Files(t, pki.RoleNode, "x"))
	_, err := s.run(append([]string{"node", "status"}, node...)...)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with the certificate of a node: %v", err)
	}
}

// mustRejectPlain sends the first byte of plain RPC to a port, which has to close the connection.
func mustRejectPlain(t *testing.T, port int) {
	t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte{1})
	if err == nil {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil || os.IsTimeout(err) {
		t.Errorf("port %d keeps a connection without TLS: %v", port, err)
	}
}
