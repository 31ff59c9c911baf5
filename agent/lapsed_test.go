package agent

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/rpc"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
)

// day is the life of a certificate of the servers.
const day = 24 * time.Hour

// site has machines whose servers are the authority. All of it is switched off and on again.
type site struct {
	t        *testing.T
	region   *pki.Authority
	kek      string // a file
	joined   []string
	machines []*siteMachine
}

// siteMachine is a machine of a site. running is nil while it is off.
type siteMachine struct {
	cfg     Config
	id      pki.Identity
	running *Agent
	log     *logBuffer
	stop    func()
}

// newSite starts three servers. The authority is a hundred days old.
func newSite(t *testing.T) *site {
	t.Helper()
	region, err := pki.NewAuthority("global", time.Now().Add(-100*day), 1000*day)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{
		t:      t,
		region: region,
		kek:    filepath.Join(t.TempDir(), "keyring"),
	}
	pkitest.Write(t, s.kek, keyring.NewFileKey().Text())
	for _, name := range []string{"s1", "s2", "s3"} {
		s.addServer(name)
	}
	for _, m := range s.machines {
		m.cfg.Server.RetryJoin = s.joined
		s.start(m)
	}
	s.awaitCopies()
	return s
}

// machine adds a machine with the settings that all have.
func (s *site) machine(name string, role pki.Role) *siteMachine {
	dir := s.t.TempDir()
	cfg := DefaultConfig()
	cfg.DataDir = filepath.Join(dir, "data")
	cfg.BindAddr = "127.0.0.1"
	cfg.Name = name
	ports := kit.FreePorts(s.t, 3) // its own, also while it is off
	cfg.Ports = Ports{HTTP: ports[0], RPC: ports[1], Serf: ports[2]}
	cfg.OperatorSocket = filepath.Join(dir, "socket")
	cfg.Consul.Address = ""
	cfg.TLS = peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile:  filepath.Join(dir, "key.pem"),
		Renew:    true,
	}
	pkitest.Write(s.t, cfg.TLS.CAFile, s.region.CertPEM())
	m := &siteMachine{
		cfg: cfg,
		id:  pki.Identity{Region: "global", Role: role, ID: name},
	}
	s.machines = append(s.machines, m)
	return m
}

func (s *site) addServer(name string) {
	s.t.Helper()
	m := s.machine(name, pki.RoleServer)
	cfg := &m.cfg
	cfg.Server.Enabled = true
	cfg.Server.BootstrapExpect = 3
	cfg.Server.RetryInterval = time.Second
	cfg.Server.RaftTimeout = 500 * time.Millisecond
	cfg.Server.HeartbeatTTL = 3 * time.Second
	cfg.Server.Keyring.File = s.kek
	cfg.TLS.CAKeyFile = filepath.Join(filepath.Dir(cfg.TLS.CAFile), "ca-key.pem")
	caKey, err := s.region.KeyPEM()
	if err != nil {
		s.t.Fatal(err)
	}
	pkitest.Write(s.t, cfg.TLS.CAKeyFile, caKey)
	cert, key, err := s.region.Issue(pki.Request{Identity: m.id, From: time.Now(), Life: day})
	if err != nil {
		s.t.Fatal(err)
	}
	pkitest.Write(s.t, cfg.TLS.CertFile, cert)
	pkitest.Write(s.t, cfg.TLS.KeyFile, key)
	s.joined = append(s.joined, cfg.bind("", cfg.Ports.Serf))
}

// token returns a join token for a node.
func (s *site) token() string {
	s.t.Helper()
	token, err := rpc.Call(s.t.Context(), s.leader().server, cluster.JoinTokenCreate,
		&cluster.JoinTokenCreateRequest{Role: cluster.JoinNode})
	if err != nil {
		s.t.Fatal(err)
	}
	return token.Token
}

// addNode joins a node with a new token, and starts it.
func (s *site) addNode(name string) *siteMachine {
	s.t.Helper()
	return s.joinNode(name, s.token())
}

// joinNode joins a node with a token, and starts it.
func (s *site) joinNode(name, token string) *siteMachine {
	s.t.Helper()
	ctx := s.t.Context()
	key, err := pki.NewKey()
	if err != nil {
		s.t.Fatal(err)
	}
	m := s.machine(name, pki.RoleNode)
	m.cfg.Client.Enabled = true
	m.cfg.Client.NetworkInterface = "lo"
	for _, server := range s.machines[:3] {
		m.cfg.Client.Servers = append(m.cfg.Client.Servers, server.cfg.bind("", server.cfg.Ports.RPC))
	}
	answer, err := rpc.Join(ctx, m.cfg.Client.Servers[0], rpc.JoinRequest{
		Token: token,
		Key:   key,
		ID:    name,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	keyPEM, err := key.PEM()
	if err != nil {
		s.t.Fatal(err)
	}
	pkitest.Write(s.t, m.cfg.TLS.CAFile, []byte(answer.Authorities))
	pkitest.Write(s.t, m.cfg.TLS.CertFile, []byte(answer.Certificate))
	pkitest.Write(s.t, m.cfg.TLS.KeyFile, keyPEM)
	s.start(m)
	return m
}

// start starts the agent of a machine.
func (s *site) start(m *siteMachine) {
	s.t.Helper()
	cfg := m.cfg
	err := cfg.Finish()
	if err != nil {
		s.t.Fatal(err)
	}
	m.log = newLogBuffer()
	m.running, err = New(s.t.Context(), cfg, hclog.New(&hclog.LoggerOptions{Output: m.log}))
	if err != nil {
		s.t.Fatalf("%s: %v", cfg.Name, err)
	}
	ctx, end := context.WithCancel(context.Background())
	var run sync.WaitGroup
	running := m.running
	run.Go(func() { _ = running.Run(ctx) })
	m.stop = sync.OnceFunc(func() {
		end()
		run.Wait()
	})
	s.t.Cleanup(m.stop)
}

// leader returns a server once there is a leader.
func (s *site) leader() (leader *Agent) {
	s.t.Helper()
	awaitCondition(s.t, "a leader", func() bool {
		for _, m := range s.machines[:3] {
			_, isMe, _, _ := m.running.server.Leader()
			if isMe {
				leader = m.running
			}
		}
		return leader != nil
	})
	return leader
}

// awaitCopies waits until each server has its copy of the authority.
func (s *site) awaitCopies() {
	s.t.Helper()
	for _, m := range s.machines[:3] {
		awaitCondition(s.t, "the copy of the authority", func() bool {
			_, err := os.Stat(filepath.Join(m.running.config().Server.DataDir, "authority"))
			return err == nil
		})
	}
}

// away switches all machines off for some time, after the end of their certificates.
func (s *site) away(pause time.Duration) {
	s.t.Helper()
	ended := time.Now().Add(-pause)
	for _, m := range s.machines {
		if m.id.Role == pki.RoleNode {
			s.endRecord(m, ended)
		}
	}
	for _, m := range s.machines {
		m.stop()
	}
	for _, m := range s.machines {
		s.endCertificate(m, ended)
		_ = os.Remove(m.cfg.TLS.CAKeyFile) // it was moved to a safe place
	}
	for _, m := range s.machines {
		s.start(m)
	}
}

// endCertificate gives a machine that is off a certificate that ended at a time.
func (s *site) endCertificate(m *siteMachine, ended time.Time) {
	s.t.Helper()
	keys, err := peertls.Open(m.cfg.TLS, "global", m.id.Role, hclog.NewNullLogger())
	if err != nil {
		s.t.Fatal(err)
	}
	der, err := keys.CSR()
	if err != nil {
		s.t.Fatal(err)
	}
	csr, err := pki.ParseCSR(der)
	if err != nil {
		s.t.Fatal(err)
	}
	cert, err := s.region.Sign(csr.Public, pki.Request{Identity: m.id, From: ended.Add(-day), Life: day})
	if err != nil {
		s.t.Fatal(err)
	}
	pkitest.Write(s.t, m.cfg.TLS.CertFile, cert)
}

// endRecord sets the end of the certificate in the record of a node, on all servers.
func (s *site) endRecord(m *siteMachine, ended time.Time) {
	s.t.Helper()
	leader := s.leader().server
	row := trust.MachineCertificate(leader.Store().Read(), cluster.JoinNode, m.id.ID)
	record := &cluster.MachineCertificateRequest{
		Role:     row.Role,
		ID:       row.ID,
		Serial:   row.Serial,
		KeyHash:  row.KeyHash,
		NotAfter: ended.UnixNano(),
		Now:      1,
	}
	index, err := fsm.Propose(s.t.Context(), leader, fsm.MachineCertificateSet, record)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, server := range s.machines[:3] {
		awaitCondition(s.t, "the record on each server", func() bool {
			return server.running.server.Store().Index() >= index
		})
	}
}

// awaitRenewal waits until a machine has a certificate that has not ended.
func (s *site) awaitRenewal(m *siteMachine) {
	s.t.Helper()
	awaitCondition(s.t, m.id.ID+" renews", func() bool { return !m.running.keys.Lapsed(time.Now()) })
}

// mustServe fails unless all servers follow a leader, over connections with their certificates.
func (s *site) mustServe() {
	s.t.Helper()
	for _, m := range s.machines[:3] {
		s.awaitRenewal(m)
	}
	s.leader()
	for _, m := range s.machines[:3] {
		awaitCondition(s.t, m.id.ID+" reaches the leader", func() bool {
			_, err := rpc.Call(s.t.Context(), m.running.server, cluster.JoinTokenList, &structs.QueryRequest{})
			return err == nil
		})
	}
}

func TestLapsed_ASiteThatWasOffForDaysComesUpByItself(t *testing.T) {
	s := newSite(t)
	nodes := []*siteMachine{s.addNode("n1"), s.addNode("n2")}
	s.away(3 * day)
	s.mustServe()
	for _, n := range nodes {
		s.awaitRenewal(n)
		awaitCondition(t, "the node registers", func() bool {
			select {
			case <-n.running.client.Registered():
				return true
			default:
				return false
			}
		})
		n.log.await(t, "waiting until it is renewed")
	}
}

// The clocks of all machines were 30 hours ahead at their last renewal, by an older version, and are right
// now.
func TestLapsed_ASiteWhoseClocksWereAheadComesUpByItself(t *testing.T) {
	s := newSite(t)
	n := s.addNode("n1")
	s.away(-day - 30*time.Hour)
	s.mustServe()
	s.awaitRenewal(n)
	for _, m := range s.machines {
		if m.running.keys.Premature(time.Now()) {
			t.Errorf("%s has the certificate that begins tomorrow", m.id.ID)
		}
		m.log.await(t, "begins at")
	}
}

func TestLapsed_ANodeThatWasOffForTooLongIsToldToJoinAnew(t *testing.T) {
	s := newSite(t)
	n := s.addNode("n1")
	s.away(60 * day)
	s.mustServe()
	n.log.await(t, "join with a new token")
	if !n.running.keys.Lapsed(time.Now()) {
		t.Error("the node has renewed")
	}
	_, err := n.running.dialServers()(n.cfg.Client.Servers[0], time.Minute)
	if err == nil || !strings.Contains(err.Error(), "is not renewed yet") {
		t.Errorf("a call with the certificate that has ended: %v", err)
	}
}

func TestLapsed_OnlyTheHolderOfTheKeyRenews(t *testing.T) {
	s := newSite(t)
	n := s.addNode("n1")
	addr := n.cfg.Client.Servers[0]
	keys := n.running.keys
	own, err := keys.CSR()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request := func(role pki.Role, id string) []byte {
		csr, err := key.CSR(pki.Identity{Region: "global", Role: role, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return csr
	}
	servers := peertls.Roles(pki.RoleServer)
	for name, c := range map[string]struct {
		csr  []byte
		kind structs.Kind
	}{
		"another key":    {request(pki.RoleNode, "n1"), structs.KindDenied},
		"a new node":     {request(pki.RoleNode, "n2"), structs.KindDenied},
		"a server":       {request(pki.RoleServer, "s1"), structs.KindDenied},
		"an operator":    {request(pki.RoleOperator, "ann"), structs.KindDenied},
		"a changed one":  {append(bytes.Clone(own[:len(own)-1]), own[len(own)-1]^1), structs.KindInvalid},
		"nothing at all": {nil, structs.KindInvalid},
	} {
		_, err := rpc.RenewCertificate(t.Context(), addr, keys.Client(servers), c.csr)
		if !structs.IsKind(err, c.kind) {
			t.Errorf("%s: %v; expected %s", name, err, c.kind)
		}
	}
	answer, err := rpc.RenewCertificate(t.Context(), addr, keys.Client(servers), own)
	if err != nil || keys.Replace([]byte(answer.Certificate), []byte(answer.Authorities)) != nil {
		t.Errorf("its own: %v", err)
	}
	other := pkitest.New(t, "global")
	stranger := keysOf(t, other, other.Files(t, pki.RoleNode, "n1"), pki.RoleNode)
	_, err = rpc.RenewCertificate(t.Context(), addr, stranger.Client(servers), own)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a server of another authority: %v", err)
	}
}
