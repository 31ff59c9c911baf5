package e2e

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
)

// owned is a cluster that is its own authority.
type owned struct {
	t       *testing.T
	servers []*agent
	node    *agent
}

// newOwned starts three servers and a node, by tls init and by join tokens.
func newOwned(t *testing.T) *owned {
	c := &owned{t: t}
	for i := range 3 {
		c.servers = append(c.servers, newAgent(t, "s"+strconv.Itoa(i+1)))
	}
	c.node = newAgent(t, "n1")
	for _, a := range append(c.servers, c.node) {
		a.args = append(a.args, "-config", c.etc(a))
	}
	first := c.servers[0]
	first.must("tls", "init", "-key-saved", "-dir", c.etc(first), "-id", first.name)
	first.launch()
	for _, s := range c.servers[1:] {
		c.join(s, "server")
	}
	c.join(c.node, "node")
	eventually(t, "three servers with a vote and a ready node", c.complete)
	return c
}

func (c *owned) etc(a *agent) string { return filepath.Join(a.dir, "etc") }

// run runs a command over the socket of the first server, until it succeeds.
func (c *owned) run(args ...string) (out string) {
	eventually(c.t, strings.Join(args, " "), func() (err error) {
		out, err = c.servers[0].runOverSocket(args...)
		return err
	})
	return strings.TrimSpace(out)
}

func (c *owned) join(a *agent, role string) {
	token := c.run(role, "join-token", "create")
	server := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.servers[0].rpc))
	a.must("tls", "join", "-dir", c.etc(a), "-id", idOf(a, role), server, token)
	a.launch()
}

// idOf returns the name of a server. A node has a new ID.
func idOf(a *agent, role string) string {
	if role == "node" {
		return structs.NewID()
	}
	return a.name
}

func (c *owned) complete() error {
	peers, err := c.servers[0].runOverSocket("operator", "raft", "list-peers", "-json")
	if err == nil && strings.Count(peers, `"Voter": true`) != len(c.servers) {
		err = errors.New(peers)
	}
	if err != nil {
		return err
	}
	nodes, err := c.servers[0].runOverSocket("node", "status")
	if err == nil && strings.Count(nodes, "ready") != 1 {
		err = errors.New(nodes)
	}
	return err
}

// callers call all servers without a pause, over TLS, with the certificate of a server.
type callers struct {
	pool   *rpc.Pool
	addrs  []string
	stop   chan struct{}
	wg     sync.WaitGroup
	done   atomic.Int64
	again  atomic.Int64 // calls that succeeded when they were repeated
	mu     sync.Mutex
	failed []error // of calls whose repetition has failed, too
}

// keysOf opens the files of a machine.
func (c *owned) keysOf(a *agent, role pki.Role) (*peertls.Keys, error) {
	return peertls.Open(peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   filepath.Join(c.etc(a), "ca.pem"),
		CertFile: filepath.Join(c.etc(a), "cert.pem"),
		KeyFile:  filepath.Join(c.etc(a), "key.pem"),
	}, "global", role, hclog.NewNullLogger())
}

// call starts callers. They end before the test does.
func (c *owned) call(many int) *callers {
	keys, err := c.keysOf(c.servers[1], pki.RoleServer)
	if err != nil {
		c.t.Fatal(err)
	}
	dialer := rpc.SecureDialer(rpc.Dial, keys.Client(peertls.Roles(pki.RoleServer)), false)
	all := &callers{
		pool: rpc.NewPool(dialer, hclog.NewNullLogger(), nil),
		stop: make(chan struct{}),
	}
	for _, s := range c.servers {
		all.addrs = append(all.addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.rpc)))
	}
	for n := range many {
		all.wg.Go(func() { all.run(c.t, keys, n) })
	}
	c.t.Cleanup(all.pool.Close)
	c.t.Cleanup(all.end)
	return all
}

// end ends the callers and waits for them.
func (c *callers) end() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.wg.Wait()
}

func (c *callers) run(t *testing.T, keys *peertls.Keys, n int) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		err := c.one(t, n)
		if err != nil { // an agent, too, repeats a call once, with the files that it has now
			_, _ = keys.Reload()
			n++
			err = c.one(t, n)
			c.again.Add(1)
		}
		if err != nil {
			c.mu.Lock()
			c.failed = append(c.failed, err)
			c.mu.Unlock()
		}
		c.done.Add(1)
		n++
	}
}

// one reads the nodes at a server, which asks the leader.
func (c *callers) one(t *testing.T, n int) error {
	resp := &structs.NodeListResponse{}
	addr := c.addrs[n%len(c.addrs)]
	err := c.pool.Call(t.Context(), addr, structs.NodeList.Name, &structs.QueryRequest{}, resp)
	if err == nil && len(resp.Nodes) != 1 {
		err = fmt.Errorf("%d nodes", len(resp.Nodes))
	}
	return err
}

// The key of the gossip, the root key and the certificate authority are replaced while callers call all
// servers, and the former authority is removed. No call fails that was repeated once.
func TestTLSRotation_FailsNoCall(t *testing.T) {
	t.Parallel()
	c := newOwned(t)
	calls := c.call(8)
	began := time.Now()
	c.run("operator", "root", "keyring", "rotate", "-full")
	c.rotateGossip()
	c.replaceAuthority()
	eventually(t, "the former root key encrypts nothing", func() error {
		out, err := c.servers[0].runOverSocket("operator", "root", "keyring", "list")
		if err == nil && !strings.Contains(out, "inactive") {
			err = errors.New(out)
		}
		return err
	})

	calls.end()
	t.Logf("%d calls in %s, %d of them repeated", calls.done.Load(), time.Since(began), calls.again.Load())
	for _, err := range calls.failed {
		t.Errorf("a call failed, also when it was repeated: %v", err)
	}
	if err := c.complete(); err != nil {
		t.Error(err)
	}
}

// rotateGossip replaces the key of the gossip.
func (c *owned) rotateGossip() {
	old := c.gossipKey()
	key := strings.TrimSpace(c.servers[0].must("operator", "gossip", "keyring", "generate"))
	c.run("operator", "gossip", "keyring", "install", key)
	c.run("operator", "gossip", "keyring", "use", key)
	c.run("operator", "gossip", "keyring", "remove", old)
	if now := c.gossipKey(); now != key {
		c.t.Errorf("the servers encrypt the gossip with another key than the new one")
	}
}

// replaceAuthority replaces the authority, and removes the former one once all machines have followed.
func (c *owned) replaceAuthority() {
	c.run("tls", "ca", "replace")
	trusted := strings.Fields(c.run("tls", "ca", "list", "-t", "{{range .}}{{.ID}} {{end}}"))
	if len(trusted) != 2 {
		c.t.Fatalf("the machines trust %d authorities; expected two", len(trusted))
	}
	c.awaitFollow(trusted)
	c.run("tls", "ca", "remove", trusted[1], "-yes")
	c.awaitFollow(trusted[:1])
}

// awaitFollow waits until all machines trust some authorities alone, and have a certificate of the first.
func (c *owned) awaitFollow(trusted []string) {
	for _, a := range append(slices.Clone(c.servers), c.node) {
		role := pki.RoleServer
		if a == c.node {
			role = pki.RoleNode
		}
		eventually(c.t, a.name+" follows the authorities", func() error {
			keys, err := c.keysOf(a, role)
			if err == nil && !keys.Follows(trusted) {
				err = errors.New("it has another certificate")
			}
			return err
		})
	}
}

// gossipKey returns the only key of the gossip.
func (c *owned) gossipKey() string {
	out := c.run("operator", "gossip", "keyring", "list", "-t", "{{range $k, $n := .Keys}}{{$k}} {{end}}")
	keys := strings.Fields(out)
	if len(keys) != 1 {
		c.t.Fatalf("the gossip has %d keys", len(keys))
	}
	return keys[0]
}
