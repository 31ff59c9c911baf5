package server

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/join"
	"berth/internal/agenttest"
	"berth/internal/keyring/keyringtest"
	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/rpc"
	"berth/server/authority"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// joinable runs a server that requires TLS and is the authority of its cluster.
func joinable(t *testing.T, change ...func(*Config)) (*running, *peertls.Keys) {
	t.Helper()
	a := pkitest.New(t, "global")
	files := a.Files(t, pki.RoleServer, "s1")
	keys, err := peertls.Open(peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   a.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}, "global", pki.RoleServer, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(a.Dir, "ca-key.pem")
	keyPEM, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	pkitest.Write(t, keyFile, keyPEM)

	cfg := testConfig(t)
	cfg.Encrypt = structs.Secret(cluster.NewGossipKey())
	cfg.TLS = keys.Server(peertls.Roles(pki.RoleServer, pki.RoleNode))
	cfg.RequireTLS = true
	cfg.Keyring.File = keyringtest.NewFile(t)
	cfg.Machines = join.Settings{
		Authority: authority.Files{
			Cert: a.CAFile,
			Key:  keyFile,
		},
		TLS:    keys.Joins(),
		Region: "global",
		Secrets: func() (join.Secrets, error) {
			return join.Secrets{
				GossipKey: cfg.Encrypt,
				Keyring:   "the file",
			}, nil
		},
	}
	cfg.Dial = rpc.SecureDialer(rpc.Dial, keys.Client(peertls.Roles(pki.RoleServer)), false)
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, s)
	r.rows("the authority is stored", func(tx *state.ReadTx) bool { return trust.ActiveAuthority(tx) != nil })
	// The leader makes these beside the test, and some tests count the entries of the log.
	r.rows("the signing keys are stored", func(tx *state.ReadTx) bool {
		return trust.ActiveSigningKey(tx, access.KeyEdDSA) != nil &&
			trust.ActiveSigningKey(tx, access.KeyRS256) != nil
	})
	return r, keys
}

// token makes a join token.
func (r *running) token(req cluster.JoinTokenCreateRequest) string {
	r.t.Helper()
	answer, err := rpc.Call(r.t.Context(), r, cluster.JoinTokenCreate, &req)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.Token
}

func nodeToken() cluster.JoinTokenCreateRequest {
	return cluster.JoinTokenCreateRequest{Role: cluster.JoinNode}
}

// join joins with a token as a machine with an ID, and a new key.
func (r *running) join(token, id string, change ...func(*rpc.JoinRequest)) (
	*cluster.JoinResponse, *pki.Key, error,
) {
	r.t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		r.t.Fatal(err)
	}
	req := rpc.JoinRequest{Token: token, Key: key, ID: id, NodeName: id}
	for _, c := range change {
		c(&req)
	}
	answer, err := rpc.Join(r.t.Context(), r.RPCAddr(), req)
	return answer, key, err
}

// keysOf returns the keys of a machine that has joined.
func keysOf(t *testing.T, answer *cluster.JoinResponse, key *pki.Key, role pki.Role) *peertls.Keys {
	t.Helper()
	keyPEM, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile:  filepath.Join(dir, "key.pem"),
	}
	pkitest.Write(t, cfg.CAFile, []byte(answer.Authorities))
	pkitest.Write(t, cfg.CertFile, []byte(answer.Certificate))
	pkitest.Write(t, cfg.KeyFile, keyPEM)
	keys, err := peertls.Open(cfg, "global", role, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// callAs calls a method of the server with the keys of a machine.
func (r *running) callAs(keys *peertls.Keys, method string, req, resp any) error {
	dial := rpc.SecureDialer(rpc.Dial, keys.Client(peertls.Roles(pki.RoleServer)), false)
	pool := rpc.NewPool(dial, hclog.NewNullLogger(), nil)
	defer pool.Close()
	agenttest.Stamp(req)
	return pool.Call(r.t.Context(), r.RPCAddr(), method, req, resp)
}

func TestJoin_GivesANodeItsCertificateAndNoSecret(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	answer, key, err := r.join(r.token(nodeToken()), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if answer.GossipKey != "" || answer.Keyring != "" {
		t.Error("the node got a secret of the servers")
	}
	keys := keysOf(t, answer, key, pki.RoleNode)
	if keys.NodeID() != "n1" || time.Until(keys.Expires()) > authority.Life {
		t.Errorf("the certificate is of %s until %s", keys.Identity(), keys.Expires())
	}

	node := &structs.Node{ID: "n1", Name: "n1", SecretID: "s"}
	register := func(n *structs.Node) error {
		return r.callAs(keys, structs.NodeRegister.Name,
			&structs.NodeRegisterRequest{Node: n}, &structs.NodeRegisterResponse{})
	}
	err = register(node)
	if err != nil {
		t.Errorf("its registration: %v", err)
	}
	err = register(&structs.Node{ID: "n2", Name: "n2", SecretID: "s"})
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("the registration of another node: %v; expected denied", err)
	}
}

func TestJoin_GivesAServerTheSecretsOfServers(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	token := r.token(cluster.JoinTokenCreateRequest{Role: cluster.JoinServer})
	answer, key, err := r.join(token, "s2")
	if err != nil || answer.GossipKey != r.cfg.Encrypt || answer.Keyring != "the file" {
		t.Fatalf("got other secrets, or %v", err)
	}
	keys := keysOf(t, answer, key, pki.RoleServer)
	err = r.callAs(keys, cluster.StatusPing.Name, &structs.QueryRequest{}, &structs.Empty{})
	if err != nil {
		t.Error(err)
	}
}

func TestJoin_DeniesOtherTokens(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	used := r.token(nodeToken())
	_, _, err := r.join(used, "n1")
	if err != nil {
		t.Fatal(err)
	}
	deleted := r.token(nodeToken())
	for t := range trust.JoinTokens(r.store.Read()) {
		_, err = rpc.Call(r.t.Context(), r, cluster.JoinTokenDelete, &cluster.JoinTokenDeleteRequest{ID: t.ID})
	}
	if err != nil {
		t.Fatal(err)
	}
	pool := nodeToken()
	pool.NodePool = "gpu"
	name := nodeToken()
	name.NodeName = "web"
	short := nodeToken()
	short.TTL = time.Nanosecond
	good := r.token(nodeToken())
	other, _ := joinable(t)

	for name, c := range map[string]struct {
		token string
		id    string
		kind  structs.Kind
	}{
		"used":                   {used, "n2", structs.KindDenied},
		"replayed with its ID":   {used, "n1", structs.KindDenied},
		"deleted":                {deleted, "n2", structs.KindDenied},
		"expired":                {r.token(short), "n2", structs.KindDenied},
		"of another pool":        {r.token(pool), "n2", structs.KindDenied},
		"of another name":        {r.token(name), "n2", structs.KindDenied},
		"of another node's ID":   {good, "n1", structs.KindDenied},
		"damaged":                {good[:len(good)-1], "n2", structs.KindInvalid},
		"of another authority":   {other.token(nodeToken()), "n2", structs.KindUnavailable},
		"with an ID that is not": {good, "a/b", structs.KindInvalid},
	} {
		_, _, err := r.join(c.token, c.id)
		if !structs.IsKind(err, c.kind) {
			t.Errorf("a token %s: %v; expected %s", name, err, c.kind)
		}
		if err != nil && strings.Contains(err.Error(), c.token) {
			t.Errorf("a token %s: the error shows it", name)
		}
	}
	_, _, err = r.join(good, "n2")
	if err != nil {
		t.Errorf("the attempts have used the good token: %v", err)
	}
}

func TestJoin_TheTokenBindsTheNameAndThePoolOfTheNode(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	token := nodeToken()
	token.NodePool = "gpu"
	answer, key, err := r.join(r.token(token), "n1", func(q *rpc.JoinRequest) { q.NodePool = "gpu" })
	if err != nil {
		t.Fatal(err)
	}
	keys := keysOf(t, answer, key, pki.RoleNode)
	for pool, allowed := range map[string]bool{"": false, "other": false, "gpu": true} {
		err := r.callAs(keys, structs.NodeRegister.Name, &structs.NodeRegisterRequest{
			Node: &structs.Node{ID: "n1", Name: "n1", SecretID: "s", NodePool: pool},
		}, &structs.NodeRegisterResponse{})
		if denied := structs.IsKind(err, structs.KindDenied); denied == allowed || allowed && err != nil {
			t.Errorf("the pool %q: %v; expected that it is allowed: %v", pool, err, allowed)
		}
	}
}

// The record of a certificate is lost with the restore of an older archive, or the operator has made it.
func TestJoin_ANodeWithoutARecordKeepsItsNameAndItsPool(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	register := func(name, pool string) error {
		req := &structs.NodeRegisterRequest{
			Node: &structs.Node{ID: "n1", Name: name, SecretID: "s", NodePool: pool},
		}
		agenttest.Stamp(req)
		_, err := rpc.Call(t.Context(), r, structs.NodeRegister, req)
		return err
	}
	err := register("n1", "gpu")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"n1", "default"}, {"n2", "gpu"}} {
		wantDenied(t, "the name "+c[0]+" in the pool "+c[1], register(c[0], c[1]))
	}
	err = register("n1", "gpu")
	if err != nil {
		t.Errorf("its own name and pool: %v", err)
	}

	named := nodeToken()
	named.NodeName = "n1"
	_, _, err = r.join(r.token(named), "n1") // the remedy
	if err == nil {
		err = register("n1", "default")
	}
	if err != nil {
		t.Errorf("after it has joined again: %v", err)
	}
}

// The node of an agent that is a server, too, cannot join: its certificate is that of a server.
func TestJoin_TheNodeOfAServerChangesItsPoolAfterItsDeletion(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	register := func(pool string) error {
		req := &structs.NodeRegisterRequest{
			Node: &structs.Node{ID: "n1", Name: "n1", SecretID: "s", NodePool: pool},
		}
		agenttest.Stamp(req)
		_, err := rpc.Call(t.Context(), r, structs.NodeRegister, req)
		return err
	}
	err := register("default")
	if err != nil {
		t.Fatal(err)
	}
	err = register("gpu")
	if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), "a server, too, has no ") {
		t.Errorf("another pool: %v; expected denied with what to do", err)
	}
	purge := &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}}
	_, err = rpc.Call(t.Context(), r, structs.NodeDeregister, purge)
	if err == nil {
		err = register("gpu")
	}
	if err != nil {
		t.Errorf("after the deletion: %v", err)
	}
}

// TestJoin_ServesNothingElse attacks the connections on which machines join.
func TestJoin_ServesNothingElse(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	old := func() *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12} //nolint:gosec // an attack
	}
	blind := func() *tls.Config { return &tls.Config{InsecureSkipVerify: true} } //nolint:gosec // an attack
	for name, c := range map[string]struct {
		prefix byte
		config *tls.Config
		method string
		req    any
	}{
		"a job": {rpc.ByteJoin, blind(), structs.JobRegister.Name, &structs.JobRegisterRequest{}},
		"a signature without a token": {
			rpc.ByteJoin, blind(), cluster.CertificateSign.Name, &cluster.CertificateSignRequest{},
		},
		"a token": {
			rpc.ByteJoin, blind(), cluster.JoinTokenCreate.Name, &cluster.JoinTokenCreateRequest{},
		},
		"TLS 1.2":                 {rpc.ByteJoin, old(), cluster.Join.Name, &cluster.JoinRequest{}},
		"the port of the cluster": {rpc.ByteTLS, blind(), cluster.Join.Name, &cluster.JoinRequest{}},
		"a large request": {rpc.ByteJoin, blind(), cluster.Join.Name,
			&cluster.JoinRequest{CSR: make([]byte, 1<<20)}},
		"nothing": {rpc.ByteJoin, blind(), cluster.Join.Name, &cluster.JoinRequest{}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		conn, err := peertls.Dialing{
			Connect: func(context.Context) (net.Conn, error) { return rpc.Dial(r.RPCAddr(), patience) },
			Prefix:  []byte{c.prefix},
			TLS:     func(*peertls.Conn) *tls.Config { return c.config },
		}.Dial(ctx)
		if err == nil {
			err = rpc.CallOnce(ctx, conn, rpc.OneCall{
				Method:  c.method,
				Req:     c.req,
				Resp:    &struct{}{},
				Answers: 1 << 20,
			})
			_ = conn.Close()
		}
		cancel()
		if err == nil || ctx.Err() == context.DeadlineExceeded {
			t.Errorf("%s: %v; expected an error at once", name, err)
		}
	}
	err := r.plainJoin()
	if err == nil {
		t.Error("a join without TLS was answered")
	}
}

// plainJoin sends a request on the port of machines that join, without TLS.
func (r *running) plainJoin() error {
	conn, err := rpc.Dial(r.RPCAddr(), patience)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte{rpc.ByteJoin})
	if err != nil {
		return err
	}
	return rpc.CallOnce(r.t.Context(), conn, rpc.OneCall{
		Method: cluster.Join.Name, Req: &cluster.JoinRequest{}, Resp: &cluster.JoinResponse{}, Answers: 1 << 20,
	})
}

func TestRenew_ANodeRenewsItsOwnCertificateWithItsKey(t *testing.T) {
	noLeaks(t)
	r, server := joinable(t)
	answer, key, err := r.join(r.token(nodeToken()), "n1")
	if err != nil {
		t.Fatal(err)
	}
	keys := keysOf(t, answer, key, pki.RoleNode)
	renew := func(nodeID string, csr []byte) (*cluster.CertificateSignResponse, error) {
		resp := &cluster.CertificateSignResponse{}
		return resp, r.callAs(keys, cluster.CertificateRenew.Name,
			&cluster.CertificateRenewRequest{NodeID: nodeID, CSR: csr}, resp)
	}
	own, err := keys.CSR()
	if err != nil {
		t.Fatal(err)
	}
	next, err := renew("n1", own)
	if err != nil || keys.Replace([]byte(next.Certificate), []byte(next.Authorities)) != nil {
		t.Errorf("its own: %v", err)
	}

	stolen, err := server.CSR() // of a server
	if err != nil {
		t.Fatal(err)
	}
	another, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	changed, err := another.CSR(pki.Identity{Region: "global", Role: pki.RoleNode, ID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		nodeID string
		csr    []byte
	}{
		"of another node": {"n2", own},
		"of a server":     {"n1", stolen},
		"of another key":  {"n1", changed},
	} {
		_, err := renew(c.nodeID, c.csr)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v; expected denied", name, err)
		}
	}
}

func TestAuthority_ItsKeyIsNotInTheFilesOfTheServer(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	keyPEM, err := os.ReadFile(r.cfg.Machines.Authority.Key)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Split(string(keyPEM), "\n")[1] // of the key in base64
	row := trust.ActiveAuthority(r.store.Read())
	if strings.Contains(row.CertPEM, line) || strings.Contains(string(row.Key.Data), line) {
		t.Error("the row has the key")
	}
	err = filepath.WalkDir(r.cfg.DataDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), line) {
			t.Errorf("%s has the key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
