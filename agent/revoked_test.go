package agent

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/agenttest"
	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// securedAgent runs a server that requires TLS, and waits until it leads.
func securedAgent(t *testing.T, own *pkitest.Authority) *Agent {
	t.Helper()
	files := own.Files(t, pki.RoleServer, "s1")
	a, _, _ := runServer(t, "s1", func(c *Config) {
		c.Server.HeartbeatTTL = time.Second
		c.Server.HeartbeatGrace = time.Second
		c.TLS = peertls.Config{
			Mode:     peertls.ModeRequire,
			CAFile:   own.CAFile,
			CertFile: files.Cert,
			KeyFile:  files.Key,
		}
	})
	awaitCondition(t, "the server leads", func() bool {
		_, leads, _, _ := a.server.Leader()
		return leads
	})
	return a
}

// caller attacks a port with its certificate.
type caller struct {
	t      *testing.T
	addr   string
	config *tls.Config // resumes sessions
	serial string
	// greet makes the port use an open connection, and returns an error if it does not.
	greet func(conn *tls.Conn) error
	first []byte // sent before the handshake
}

func newCaller(t *testing.T, own *pkitest.Authority, role pki.Role, id string) *caller {
	t.Helper()
	files := own.Files(t, role, id)
	trusting := keysOf(t, own, own.Files(t, pki.RoleServer, "trusting"), pki.RoleServer)
	config := trusting.Client(peertls.Roles(pki.RoleServer, pki.RoleNode))(peertls.NewConn(nil))
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	config.GetClientCertificate = nil
	config.Certificates = []tls.Certificate{pair}
	config.ServerName = "server.global.berth"
	config.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	return &caller{
		t:      t,
		config: config,
		serial: pki.Serial(pair.Leaf),
	}
}

// ofRPC makes the caller attack the RPC port in a protocol.
func (c *caller) ofRPC(a *Agent, protocol byte) *caller {
	c.addr = a.server.RPCAddr()
	c.first = []byte{rpc.ByteTLS}
	c.greet = func(conn *tls.Conn) error {
		_, err := io.ReadFull(conn, make([]byte, 1)) // the port has accepted the certificate
		if err == nil {
			_, err = conn.Write([]byte{protocol})
		}
		return err
	}
	return c
}

// ofHTTP makes the caller attack the HTTP port. Its second request waits for a change.
func (c *caller) ofHTTP(a *Agent) *caller {
	c.addr = a.HTTPAddr()
	c.greet = func(conn *tls.Conn) error {
		_, err := conn.Write([]byte("GET /v1/agent/self HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		if err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		if err == nil {
			_, err = conn.Write([]byte("GET /v1/namespaces?index=1000000&wait=9m HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		}
		return err
	}
	return c
}

// connect opens a connection that the port uses.
func (c *caller) connect() (*tls.Conn, error) {
	raw, err := net.Dial("tcp", c.addr)
	if err != nil {
		return nil, err
	}
	c.t.Cleanup(func() { _ = raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(time.Minute))
	_, err = raw.Write(c.first)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, c.config)
	err = conn.Handshake()
	if err == nil {
		err = c.greet(conn)
	}
	return conn, err
}

// mustConnect connects twice: the second connection resumes the session of the first one.
func (c *caller) mustConnect(name string) (open []*tls.Conn) {
	c.t.Helper()
	for _, resumed := range []bool{false, true} {
		conn, err := c.connect()
		if err != nil || conn.ConnectionState().DidResume != resumed {
			c.t.Fatalf("%s, resumed %v: %v", name, resumed, err)
		}
		open = append(open, conn)
	}
	return open
}

// mustBeRejected checks that open connections end, and that no others are taken.
func (c *caller) mustBeRejected(name string, open []*tls.Conn) {
	c.t.Helper()
	for i, conn := range open {
		_, err := io.Copy(io.Discard, conn)
		if os.IsTimeout(err) {
			c.t.Errorf("%s: the open connection %d stays", name, i)
		}
	}
	for _, how := range []string{"a resumed session", "a new session"} {
		_, err := c.connect()
		if err == nil || os.IsTimeout(err) {
			c.t.Errorf("%s: %s: %v", name, how, err)
		}
		c.config.ClientSessionCache = nil
	}
}

// TestRevoked_EveryPortEndsAndRejectsItsConnections attacks each port with a certificate of each role that it
// takes: over a connection that is open, by a resumed session and by a new one.
func TestRevoked_EveryPortEndsAndRejectsItsConnections(t *testing.T) {
	own := pkitest.New(t, "global")
	a := securedAgent(t, own)
	attacker := func(role pki.Role, id string) *caller { return newCaller(t, own, role, id) }
	for name, c := range map[string]struct {
		*caller
		role   string
		name   string // of the machine; "": the serial number is revoked
		serial bool
	}{
		"RPC of a node":             {attacker(pki.RoleNode, "n1").ofRPC(a, rpc.ByteMux), "node", "n1", false},
		"RPC of a server":           {attacker(pki.RoleServer, "s2").ofRPC(a, rpc.ByteMux), "server", "s2", false},
		"RPC of a node, plain":      {attacker(pki.RoleNode, "n2").ofRPC(a, rpc.ByteRPC), "node", "n2", false},
		"RPC of a serial number":    {attacker(pki.RoleNode, "n3").ofRPC(a, rpc.ByteMux), "", "", true},
		"Raft of a server":          {attacker(pki.RoleServer, "s3").ofRPC(a, rpc.ByteRaft), "server", "s3", false},
		"Raft of a serial number":   {attacker(pki.RoleServer, "s4").ofRPC(a, rpc.ByteRaft), "", "", true},
		"HTTP of a server":          {attacker(pki.RoleServer, "s5").ofHTTP(a), "server", "s5", false},
		"HTTP of an operator":       {attacker(pki.RoleOperator, "ann").ofHTTP(a), "", "", true},
		"HTTP of a name":            {attacker(pki.RoleOperator, "bob").ofHTTP(a), "operator", "bob", false},
		"HTTP of a server's serial": {attacker(pki.RoleServer, "s6").ofHTTP(a), "", "", true},
	} {
		open := c.mustConnect(name)
		r := &cluster.CertificateRevokeRequest{Role: c.role, Name: c.name}
		if c.serial {
			r.Serial = c.caller.serial
		}
		_, err := rpc.Call(t.Context(), a.caller, cluster.CertificateRevoke, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.mustBeRejected(name, open)
	}

	other := newCaller(t, own, pki.RoleNode, "n9").ofRPC(a, rpc.ByteMux)
	other.mustConnect("a node that is not revoked")
}

// A revoked node is rejected also over the connection of another server, which may lag behind.
func TestRevoked_ANodeIsNotServedThroughAnotherServer(t *testing.T) {
	own := pkitest.New(t, "global")
	a := securedAgent(t, own)
	keys := keysOf(t, own, own.Files(t, pki.RoleServer, "s2"), pki.RoleServer)
	dial := rpc.SecureDialer(rpc.Dial, keys.Client(peertls.Roles(pki.RoleServer)), false)
	pool := rpc.NewPool(dial, hclog.NewNullLogger(), nil)
	defer pool.Close()
	server := pool.At(a.server.RPCAddr())
	node := &structs.Node{ID: "n1", Name: "n1", SecretID: "s"}
	req := &structs.NodeRegisterRequest{Node: node}
	agenttest.Stamp(req)
	_, err := rpc.Call(t.Context(), server, structs.NodeRegister, req)
	if err != nil {
		t.Fatal(err)
	}
	_, err = rpc.Call(t.Context(), a.caller, cluster.CertificateRevoke,
		&cluster.CertificateRevokeRequest{Role: cluster.JoinNode, Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"a registration": func() error {
			_, err := rpc.Call(t.Context(), server, structs.NodeRegister, req)
			return err
		},
		"a heartbeat": func() error {
			_, err := rpc.Call(t.Context(), server, structs.NodeHeartbeat,
				&structs.NodeHeartbeatRequest{NodeID: "n1", SecretID: "s"})
			return err
		},
		"a claim": func() error {
			_, err := rpc.Call(t.Context(), server, structs.CSIVolumeClaim,
				&structs.CSIVolumeClaimRequest{NodeID: "n1", SecretID: "s"})
			return err
		},
	} {
		err := call()
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v; expected denied", name, err)
		}
	}
	awaitCondition(t, "the lease of the node ends", func() bool {
		return state.Node(a.server.Store().Read(), "n1").Status == structs.NodeDown
	})
}

// A server whose certificate is revoked would sign the next one for itself.
func TestRevoked_AServerDoesNotRenewForItself(t *testing.T) {
	own := pkitest.New(t, "global")
	a := securedAgent(t, own)
	_, err := rpc.Call(t.Context(), a.caller, cluster.CertificateRevoke,
		&cluster.CertificateRevokeRequest{Serial: a.keys.Serial()})
	if err != nil {
		t.Fatal(err)
	}
	csr, err := a.keys.CSR()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = a.renewServer(t.Context(), csr)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got %v; expected denied", err)
	}
}
