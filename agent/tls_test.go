package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
)

// securedServer runs a server with a mode of TLS. It returns its HTTP and its RPC address.
func securedServer(
	t *testing.T, a *pkitest.Authority, mode, more string,
) (httpAddr, rpcAddr string, log *logBuffer) {
	t.Helper()
	files := a.Files(t, pki.RoleServer, "s1")
	config := filepath.Join(t.TempDir(), "tls.hcl")
	pkitest.Write(t, config, fmt.Appendf(nil, "tls {\n mode = %q\n ca_file = %q\n cert_file = %q\n key_file = %q\n%s\n}\n",
		mode, a.CAFile, files.Cert, files.Key, more))
	httpAddr, log, _ = startServer(t, "-config", config, "-data-dir", t.TempDir())
	line := log.await(t, "server started")
	_, rest, _ := strings.Cut(line, "rpc_addr=")
	rpcAddr, _, _ = strings.Cut(rest, " ")
	scheme, httpAddr, _ := strings.Cut(httpAddr, "://")
	if scheme != "https" {
		t.Errorf("the agent says that its HTTP API has the scheme %q", scheme)
	}
	return httpAddr, rpcAddr, log
}

// httpClient returns a client with a certificate of an authority that trusts the authority trusted.
func httpClient(
	t *testing.T, trusted *pkitest.Authority, files *pkitest.Files, change func(*tls.Config),
) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(trusted.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if files != nil {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if change != nil {
		change(config)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// expired issues a certificate that has expired, during the life of its authority.
func expired(t *testing.T, a *pkitest.Authority, role pki.Role) pkitest.Files {
	t.Helper()
	return a.FilesOf(t, pki.Request{
		Identity: pki.Identity{
			Region: a.Region(),
			Role:   role,
			ID:     "expired",
		},
		From: time.Now().Add(-50 * time.Minute),
		Life: time.Minute,
	})
}

func TestTLS_HTTPPortRejectsOthersThanOperatorsAndServers(t *testing.T) {
	own := pkitest.New(t, "global")
	other := pkitest.New(t, "global")
	region := pkitest.New(t, "eu")
	addr, _, log := securedServer(t, own, "require", "")
	operator := own.Files(t, pki.RoleOperator, "anna")
	ofRole := func(a *pkitest.Authority, role pki.Role) *pkitest.Files {
		files := a.Files(t, role, "x")
		return &files
	}
	late := expired(t, own, pki.RoleOperator)
	old := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
	for name, c := range map[string]struct {
		scheme   string
		files    *pkitest.Files
		change   func(*tls.Config)
		accepted bool
	}{
		"an operator":                  {"https", &operator, nil, true},
		"a server":                     {"https", ofRole(own, pki.RoleServer), nil, true},
		"a node":                       {"https", ofRole(own, pki.RoleNode), nil, false},
		"no certificate":               {"https", nil, nil, false},
		"another authority":            {"https", ofRole(other, pki.RoleOperator), nil, false},
		"another authority and region": {"https", ofRole(region, pki.RoleOperator), nil, false},
		"an expired certificate":       {"https", &late, nil, false},
		"TLS 1.2":                      {"https", &operator, old, false},
		"no TLS":                       {"http", nil, nil, false},
	} {
		client := httpClient(t, own, c.files, c.change)
		resp, err := client.Get(c.scheme + "://" + addr + "/v1/agent/self")
		accepted := err == nil && resp.StatusCode == http.StatusOK
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if accepted != c.accepted {
			t.Errorf("%s: accepted %v; error %v", name, accepted, err)
		}
	}
	log.await(t, "rejected the certificate of a caller")
}

// keysOf opens the keys of a caller.
func keysOf(t *testing.T, a *pkitest.Authority, files pkitest.Files, role pki.Role) *peertls.Keys {
	t.Helper()
	config := peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   a.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}
	keys, err := peertls.Open(config, a.Region(), role, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// call calls a method over a connection of dial.
func call(t *testing.T, dial rpc.Dialer, addr string, m string, req, resp any) error {
	t.Helper()
	pool := rpc.NewPool(dial, hclog.NewNullLogger(), nil)
	defer pool.Close()
	return pool.Call(context.Background(), addr, m, req, resp)
}

// attackWith dials the RPC port with the files of any role, or with no certificate for nil. It trusts own.
func attackWith(
	t *testing.T, own *pkitest.Authority, files *pkitest.Files, change func(*tls.Config),
) rpc.Dialer {
	t.Helper()
	trusting := keysOf(t, own, own.Files(t, pki.RoleServer, "s2"), pki.RoleServer)
	var pairs []tls.Certificate
	if files != nil {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair)
	}
	attack := func(conn *peertls.Conn) *tls.Config {
		config := trusting.Client(peertls.Roles(pki.RoleServer))(conn)
		config.GetClientCertificate = nil
		config.Certificates = pairs
		config.ClientSessionCache = nil
		if change != nil {
			change(config)
		}
		return config
	}
	return rpc.SecureDialer(rpc.Dial, attack, false)
}

// speakTLS12 is a change for attackWith.
func speakTLS12(c *tls.Config) {
	c.MinVersion = tls.VersionTLS12
	c.MaxVersion = tls.VersionTLS12
}

func TestDuty_A6_RPCPortRejectsOthersThanServersAndNodes(t *testing.T) {
	own := pkitest.New(t, "global")
	_, addr, _ := securedServer(t, own, "require", "")
	dialWith := func(files pkitest.Files) rpc.Dialer { return attackWith(t, own, &files, nil) }
	ping := func(dial rpc.Dialer) error {
		return call(t, dial, addr, cluster.StatusPing.Name, &structs.QueryRequest{}, &structs.Empty{})
	}
	server := own.Files(t, pki.RoleServer, "x")
	for role, files := range map[pki.Role]pkitest.Files{
		pki.RoleServer: server,
		pki.RoleNode:   own.Files(t, pki.RoleNode, "x"),
	} {
		err := ping(dialWith(files))
		if err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
	const rejected = "rejected the certificate"
	for name, c := range map[string]struct {
		dial rpc.Dialer
		says string // of the error, "" for a connection that is closed without an answer
	}{
		"an operator":            {dialWith(own.Files(t, pki.RoleOperator, "x")), rejected},
		"another authority":      {dialWith(pkitest.New(t, "global").Files(t, pki.RoleServer, "x")), rejected},
		"another region":         {dialWith(pkitest.New(t, "eu").Files(t, pki.RoleNode, "x")), rejected},
		"an expired certificate": {dialWith(expired(t, own, pki.RoleServer)), rejected},
		"no certificate":         {attackWith(t, own, nil, nil), rejected},
		"TLS 1.2":                {attackWith(t, own, &server, speakTLS12), "protocol version not supported"},
		"no TLS":                 {rpc.Dial, ""},
	} {
		err := ping(c.dial)
		ok := structs.IsKind(err, structs.KindUnavailable) && strings.Contains(err.Error(), c.says)
		if c.says == "" {
			ok = rpc.IsTransport(err)
		}
		if !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTLS_ANodeActsForItselfAlone(t *testing.T) {
	own := pkitest.New(t, "global")
	_, addr, _ := securedServer(t, own, "require", "")
	keys := keysOf(t, own, own.Files(t, pki.RoleNode, "n1"), pki.RoleNode)
	dial := rpc.SecureDialer(rpc.Dial, keys.Client(peertls.Roles(pki.RoleServer)), false)
	for name, c := range map[string]struct {
		method string
		req    any
	}{
		"a registration of another node": {structs.NodeRegister.Name,
			&structs.NodeRegisterRequest{Node: &structs.Node{ID: "n2", SecretID: "s"}}},
		"a heartbeat of another node": {structs.NodeHeartbeat.Name,
			&structs.NodeHeartbeatRequest{NodeID: "n2", SecretID: "s"}},
		"a claim of another node": {structs.CSIVolumeClaim.Name,
			&structs.CSIVolumeClaimRequest{NodeID: "n2", SecretID: "s"}},
		"the allocations of all nodes": {structs.AllocsGet.Name, &structs.AllocsGetRequest{}},
		"an allocation of any node":    {structs.AllocGet.Name, &structs.AllocGetRequest{AllocID: "a"}},
		"another node":                 {structs.NodeGet.Name, &structs.NodeGetRequest{NodeID: "n2"}},
		"a job":                        {structs.JobRegister.Name, &structs.JobRegisterRequest{}},
		"the drain of a node":          {structs.NodeDrain.Name, &structs.NodeDrainRequest{}},
	} {
		err := call(t, dial, addr, c.method, c.req, &struct{}{})
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v; expected denied", name, err)
		}
	}
	read := &structs.AllocGetRequest{AllocID: "gone", NodeID: "n1"}
	err := call(t, dial, addr, structs.AllocGet.Name, read, &structs.AllocGetResponse{})
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("a read of an allocation that the node may have had: %v", err)
	}
}

// revokeAt revokes a certificate at the HTTP API of a server that has just started.
func revokeAt(t *testing.T, own *pkitest.Authority, addr string, revoked pkitest.Files) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(revoked.Cert, revoked.Key)
	if err != nil {
		t.Fatal(err)
	}
	operator := own.Files(t, pki.RoleOperator, "anna")
	client := httpClient(t, own, &operator, nil)
	body := fmt.Sprintf(`{"Serial": %q}`, pki.Serial(pair.Leaf))
	awaitCondition(t, "the certificate is revoked", func() bool {
		req, err := http.NewRequest(http.MethodPut, "https://"+addr+"/v1/tls/revocation", strings.NewReader(body))
		if err != nil {
			return false
		}
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// The port takes no operator at all, and nodes for calls alone.
func TestTLS_RaftTakesConnectionsOfServersAlone(t *testing.T) {
	own := pkitest.New(t, "global")
	httpAddr, addr, log := securedServer(t, own, "require", "")
	of := func(files pkitest.Files) rpc.Dialer { return attackWith(t, own, &files, nil) }
	ofRole := func(role pki.Role) rpc.Dialer { return of(own.Files(t, role, "x")) }
	server := own.Files(t, pki.RoleServer, "x")
	revoked := own.Files(t, pki.RoleServer, "revoked")
	revokeAt(t, own, httpAddr, revoked)
	for name, c := range map[string]struct {
		dial  rpc.Dialer
		opens bool // the rejection comes with the first byte of Raft
	}{
		"a node":            {ofRole(pki.RoleNode), true},
		"no TLS":            {rpc.Dial, true},
		"an operator":       {ofRole(pki.RoleOperator), false},
		"no certificate":    {attackWith(t, own, nil, nil), false},
		"an expired server": {of(expired(t, own, pki.RoleServer)), false},
		"a revoked server":  {of(revoked), false},
		"another authority": {of(pkitest.New(t, "global").Files(t, pki.RoleServer, "x")), false},
		"TLS 1.2":           {attackWith(t, own, &server, speakTLS12), false},
	} {
		conn, err := c.dial(addr, 10*time.Second)
		if (err == nil) != c.opens {
			t.Errorf("%s: the port opens the connection: %v, %v", name, err == nil, err)
		}
		if err != nil {
			continue
		}
		_, err = conn.Write([]byte{rpc.ByteRaft})
		if err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			_, err = conn.Read(make([]byte, 1))
		}
		if err == nil || os.IsTimeout(err) {
			t.Errorf("%s: the connection is open: %v", name, err)
		}
		_ = conn.Close()
	}
	log.await(t, "whose certificate is not that of a server")
}

func TestTLS_PreferSpeaksBoth(t *testing.T) {
	own := pkitest.New(t, "global")
	addr, rpcAddr, _ := securedServer(t, own, "prefer", "")
	for _, scheme := range []string{"http", "https"} {
		resp, err := httpClient(t, own, nil, nil).Get(scheme + "://" + addr + "/v1/agent/self")
		if err != nil {
			t.Errorf("%s: %v", scheme, err)
			continue
		}
		_ = resp.Body.Close()
		if (resp.TLS != nil) != (scheme == "https") {
			t.Errorf("%s: TLS %v", scheme, resp.TLS)
		}
	}
	keys := keysOf(t, own, own.Files(t, pki.RoleNode, "n1"), pki.RoleNode)
	secure := rpc.SecureDialer(rpc.Dial, keys.Client(peertls.Roles(pki.RoleServer)), false)
	for name, dial := range map[string]rpc.Dialer{"TLS": secure, "no TLS": rpc.Dial} {
		err := call(t, dial, rpcAddr, cluster.StatusPing.Name, &structs.QueryRequest{}, &structs.Empty{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// saveStatus returns the status of a request for an archive of the state, 0 without an answer.
func saveStatus(client *http.Client, url string) int {
	resp, err := client.Get(url + "/v1/operator/snapshot")
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// An archive has the secret IDs of all nodes. In prefer the port also takes callers without a certificate.
func TestTLS_PreferGivesArchivesToOperatorsAlone(t *testing.T) {
	own := pkitest.New(t, "global")
	addr, _, _ := securedServer(t, own, "prefer", "")
	operator := own.Files(t, pki.RoleOperator, "anna")
	awaitCondition(t, "an operator saves the state", func() bool {
		return saveStatus(httpClient(t, own, &operator, nil), "https://"+addr) == http.StatusOK
	})
	for name, scheme := range map[string]string{"no TLS": "http", "no certificate": "https"} {
		status := saveStatus(httpClient(t, own, nil, nil), scheme+"://"+addr)
		if status != http.StatusForbidden {
			t.Errorf("%s: status %d; expected denied", name, status)
		}
	}
}

func TestTLS_PlainLoopbackIsOptIn(t *testing.T) {
	own := pkitest.New(t, "global")
	addr, _, log := securedServer(t, own, "require", "plain_loopback = true")
	log.await(t, "plain_loopback")
	resp, err := http.Get("http://" + addr + "/v1/agent/self")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// TestTLS_PlainLoopbackIsForThisMachine sends from an address that is not one of loopback.
func TestTLS_PlainLoopbackIsForThisMachine(t *testing.T) {
	if !kit.InOwnNetwork(t) {
		return
	}
	foreign := net.IPv4(10, 77, 0, 9)
	out, err := exec.Command("ip", "address", "add", foreign.String()+"/32", "dev", "lo").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	own := pkitest.New(t, "global")
	addr, _, _ := securedServer(t, own, "require", "plain_loopback = true")
	operator := own.Files(t, pki.RoleOperator, "anna")
	for name, c := range map[string]struct {
		from     net.IP
		scheme   string
		accepted bool
	}{
		"plain from loopback":      {net.IPv4(127, 0, 0, 9), "http", true},
		"plain from elsewhere":     {foreign, "http", false},
		"an operator, elsewhere":   {foreign, "https", true},
		"an operator, by loopback": {net.IPv4(127, 0, 0, 9), "https", true},
	} {
		client := httpClient(t, own, &operator, nil)
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: c.from}}
		client.Transport.(*http.Transport).DialContext = from.DialContext
		resp, err := client.Get(c.scheme + "://" + addr + "/v1/agent/self")
		if err == nil {
			_ = resp.Body.Close()
		}
		accepted := err == nil && resp.StatusCode == http.StatusOK
		if accepted != c.accepted {
			t.Errorf("%s: accepted %v; error %v", name, accepted, err)
		}
	}
}
