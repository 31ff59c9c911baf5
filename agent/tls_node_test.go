package agent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
)

// asNode makes the agent of a configuration a node without drivers, and no server.
func asNode(t *testing.T, c *Config, server string) {
	c.Server.Enabled = false
	ports := kit.FreePorts(t, 2)
	c.Ports = Ports{RPC: ports[0], Serf: ports[1]}
	c.Client.Enabled = true
	c.Client.NetworkInterface = "lo"
	c.Client.Servers = []string{server}
	c.Client.Options = map[string]string{"driver.denylist": "exec,raw_exec,docker"}
}

// securedNode runs an agent that is only the node n1, beside a server. Both require TLS.
func securedNode(t *testing.T, own *pkitest.Authority) (node, server *Agent) {
	t.Helper()
	server = securedAgent(t, own)
	files := own.Files(t, pki.RoleNode, "n1")
	node, _, _ = runServer(t, "n1", func(c *Config) {
		asNode(t, c, server.server.RPCAddr())
		c.TLS = peertls.Config{
			Mode:     peertls.ModeRequire,
			CAFile:   own.CAFile,
			CertFile: files.Cert,
			KeyFile:  files.Key,
		}
	})
	awaitCondition(t, "the node is registered", func() bool {
		req := &structs.NodeGetRequest{NodeID: "n1"}
		_, err := rpc.Call(t.Context(), server.caller, structs.NodeGet, req)
		return err == nil
	})
	return node, server
}

// TestTLS_ANodeAloneTakesOperatorsAndServers attacks an agent that is only a node. Its HTTP port is
// its only port.
func TestTLS_ANodeAloneTakesOperatorsAndServers(t *testing.T) {
	own := pkitest.New(t, "global")
	node, _ := securedNode(t, own)
	for name, port := range map[string]int{"RPC": node.config().Ports.RPC, "gossip": node.config().Ports.Serf} {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the port of %s: %v; expected that nobody listens", name, err)
		}
		closeIf(conn)
	}

	other := pkitest.New(t, "global")
	ofRole := func(a *pkitest.Authority, role pki.Role, id string) *pkitest.Files {
		files := a.Files(t, role, id)
		return &files
	}
	operator := ofRole(own, pki.RoleOperator, "anna")
	late := expired(t, own, pki.RoleOperator)
	abroad := own.FilesOf(t, pki.Request{
		Identity: pki.Identity{
			Region: "eu",
			Role:   pki.RoleOperator,
			ID:     "abroad",
		},
		From: time.Now(),
		Life: time.Hour,
	})
	old := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
	for name, c := range map[string]struct {
		scheme   string
		files    *pkitest.Files
		change   func(*tls.Config)
		accepted bool
	}{
		"an operator":                   {"https", operator, nil, true},
		"a server":                      {"https", ofRole(own, pki.RoleServer, "s2"), nil, true},
		"another node":                  {"https", ofRole(own, pki.RoleNode, "n2"), nil, false},
		"the node itself":               {"https", ofRole(own, pki.RoleNode, "n1"), nil, false},
		"no certificate":                {"https", nil, nil, false},
		"another authority":             {"https", ofRole(other, pki.RoleOperator, "x"), nil, false},
		"an operator of another region": {"https", &abroad, nil, false},
		"an expired certificate":        {"https", &late, nil, false},
		"TLS 1.2":                       {"https", operator, old, false},
		"no TLS":                        {"http", nil, nil, false},
	} {
		client := httpClient(t, own, c.files, c.change)
		resp, err := client.Get(c.scheme + "://" + node.HTTPAddr() + "/v1/agent/self")
		accepted := err == nil && resp.StatusCode == http.StatusOK
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if accepted != c.accepted {
			t.Errorf("%s: accepted %v; error %v", name, accepted, err)
		}
	}
}

// closeIf closes a connection, if there is one.
func closeIf(conn net.Conn) {
	if conn != nil {
		_ = conn.Close()
	}
}

// TestRevoked_ANodeAloneEndsAndRejectsItsConnections attacks the port of an agent that is only a node, which
// follows the revocations of the servers: over an open connection, by a resumed session and by a new one.
func TestRevoked_ANodeAloneEndsAndRejectsItsConnections(t *testing.T) {
	own := pkitest.New(t, "global")
	node, server := securedNode(t, own)
	for name, c := range map[string]struct {
		role pki.Role
		id   string
		byID bool // else the serial number is revoked
	}{
		"a server":               {pki.RoleServer, "s5", true},
		"a server's certificate": {pki.RoleServer, "s6", false},
		"an operator":            {pki.RoleOperator, "ann", false},
	} {
		attacker := newCaller(t, own, c.role, c.id).ofHTTP(node)
		open := attacker.mustConnect(name)
		r := &cluster.CertificateRevokeRequest{Serial: attacker.serial}
		if c.byID {
			r = &cluster.CertificateRevokeRequest{Role: string(c.role), Name: c.id}
		}
		_, err := rpc.Call(t.Context(), server.caller, cluster.CertificateRevoke, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		attacker.mustBeRejected(name, open)
	}
	newCaller(t, own, pki.RoleOperator, "bob").ofHTTP(node).mustConnect("an operator that is not revoked")
}
