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
	"berth/structs/cluster"
)

// owned is a cluster that is its own authority.
type owned struct {
	t       *testing.T
	servers []*agent
	node    *agent
	callers []*callers
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
func (c *owned) run(args ...string) string { return c.runWithInput("", args...) }

// runWithInput is run with a text on the standard input.
func (c *owned) runWithInput(input string, args ...string) (out string) {
	first := c.servers[0]
	args = append(args, "-address", "unix://"+first.operatorSocket())
	eventually(c.t, strings.Join(args, " "), func() (err error) {
		out, err = first.runWithInput(input, args...)
		return err
	})
	return strings.TrimSpace(out)
}

func (c *owned) join(a *agent, role string) {
	token := c.run(role, "join-token", "create")
	server := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.servers[0].rpc))
	err := a.runJoin(token, "-dir", c.etc(a), "-id", idOf(a, role), server)
	if err != nil {
		c.t.Fatal(err)
	}
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

// callers call all servers without a pause, over TLS, with the certificate of a machine.
type callers struct {
	pool   *rpc.Pool
	keys   *peertls.Keys
	addrs  []string
	call   func(t *testing.T, addr string) error
	stop   chan struct{}
	wg     sync.WaitGroup
	done   []atomic.Int64 // the calls of each caller
	again  atomic.Int64   // calls that succeeded when they were repeated
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

// callAs starts callers with the certificate of a machine. They end before the test does.
func (c *owned) callAs(a *agent, role pki.Role, many int) {
	keys, err := c.keysOf(a, role)
	if err != nil {
		c.t.Fatal(err)
	}
	dialer := rpc.SecureDialer(rpc.Dial, keys.Client(peertls.Roles(pki.RoleServer)), false)
	all := &callers{
		pool: rpc.NewPool(dialer, hclog.NewNullLogger(), nil),
		keys: keys,
		stop: make(chan struct{}),
		done: make([]atomic.Int64, many),
	}
	all.call = all.readNodes
	if role == pki.RoleNode {
		all.call = all.readRevocations
	}
	for _, s := range c.servers {
		all.addrs = append(all.addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.rpc)))
	}
	for n := range many {
		all.wg.Go(func() { all.run(c.t, n) })
	}
	c.t.Cleanup(all.pool.Close)
	c.t.Cleanup(all.end)
	c.callers = append(c.callers, all)
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

func (c *callers) run(t *testing.T, caller int) {
	for n := caller; ; n++ {
		select {
		case <-c.stop:
			return
		default:
		}
		err := c.call(t, c.addrs[n%len(c.addrs)])
		if err != nil { // an agent, too, repeats a call once, with the files that it has now
			_, _ = c.keys.Reload()
			n++
			err = c.call(t, c.addrs[n%len(c.addrs)])
			c.again.Add(1)
		}
		if err != nil {
			c.mu.Lock()
			c.failed = append(c.failed, err)
			c.mu.Unlock()
		}
		c.done[caller].Add(1)
	}
}

// readNodes reads the nodes at a server, which asks the leader.
func (c *callers) readNodes(t *testing.T, addr string) error {
	resp := &structs.NodeListResponse{}
	err := c.pool.Call(t.Context(), addr, structs.NodeList.Name, &structs.QueryRequest{}, resp)
	if err == nil && len(resp.Nodes) != 1 {
		err = fmt.Errorf("%d nodes", len(resp.Nodes))
	}
	return err
}

// readRevocations reads the list that nodes follow at a server, which asks the leader.
func (c *callers) readRevocations(t *testing.T, addr string) error {
	resp := &cluster.CertificateRevocationsResponse{}
	err := c.pool.Call(t.Context(), addr, cluster.CertificateRevocations.Name, &structs.QueryRequest{}, resp)
	if err == nil && len(resp.Authorities) == 0 {
		err = errors.New("no authority")
	}
	return err
}

// counts returns the calls of each caller until now.
func (c *callers) counts() (each []int64) {
	for n := range c.done {
		each = append(each, c.done[n].Load())
	}
	return each
}

// leastCalls is how many calls each caller ends in each step of the rotation. The second of them began in it.
const leastCalls = 2

// awaitCalls waits until each caller has ended leastCalls since its count of before.
func (c *callers) awaitCalls(t *testing.T, before []int64) {
	t.Helper()
	eventually(t, "each caller goes on", func() error {
		for n, now := range c.counts() {
			if now < before[n]+leastCalls {
				return fmt.Errorf("caller %d has ended %d calls in this step", n, now-before[n])
			}
		}
		return nil
	})
}

// during runs a step of the rotation while all callers call, and tells how many calls they ended.
func (c *owned) during(name string, step func()) {
	c.t.Helper()
	began := time.Now()
	var before [][]int64
	for _, some := range c.callers {
		before = append(before, some.counts())
	}
	step()
	calls := int64(0)
	for i, some := range c.callers {
		some.awaitCalls(c.t, before[i])
		for n, now := range some.counts() {
			calls += now - before[i][n]
		}
	}
	c.t.Logf("%s: %d calls in %s", name, calls, time.Since(began))
}

// The key of the gossip, the root key and the certificate authority are replaced while callers call all
// servers, and the former authority is removed. No call fails that was repeated once, and each caller goes on
// in each step.
func TestTLSRotation_FailsNoCall(t *testing.T) {
	t.Parallel()
	c := newOwned(t)
	c.callAs(c.servers[1], pki.RoleServer, 8)
	c.callAs(c.node, pki.RoleNode, 4)
	c.during("nothing", func() {})
	c.during("a new root key", func() { c.run("operator", "root", "keyring", "rotate", "-full") })
	c.during("a new key of the gossip", c.rotateGossip)
	c.during("a new authority", c.replaceAuthority)
	c.during("the end of the former authority", c.removeFormerAuthority)
	c.during("the end of the former root key", c.awaitFormerKeyUnused)
	for _, some := range c.callers {
		some.end()
		t.Logf("%d calls were repeated", some.again.Load())
		for _, err := range some.failed {
			t.Errorf("a call failed, also when it was repeated: %v", err)
		}
	}
	if err := c.complete(); err != nil {
		t.Error(err)
	}
}

func (c *owned) awaitFormerKeyUnused() {
	eventually(c.t, "the former root key encrypts nothing", func() error {
		out, err := c.servers[0].runOverSocket("operator", "root", "keyring", "list")
		if err == nil && !strings.Contains(out, "inactive") {
			err = errors.New(out)
		}
		return err
	})
}

// rotateGossip replaces the key of the gossip.
func (c *owned) rotateGossip() {
	old := c.gossipKey()
	key := strings.TrimSpace(c.servers[0].must("operator", "gossip", "keyring", "generate"))
	c.runWithInput(key, "operator", "gossip", "keyring", "install", "-")
	c.runWithInput(key, "operator", "gossip", "keyring", "use", "-")
	c.runWithInput(old, "operator", "gossip", "keyring", "remove", "-")
	if now := c.gossipKey(); now != key {
		c.t.Errorf("the servers encrypt the gossip with another key than the new one")
	}
}

// replaceAuthority replaces the authority, and waits until all machines and all callers have followed.
func (c *owned) replaceAuthority() {
	before := c.serials()
	c.run("tls", "ca", "replace")
	trusted := c.trusted()
	if len(trusted) != 2 {
		c.t.Fatalf("the machines trust %d authorities; expected two", len(trusted))
	}
	c.awaitFollow(trusted)
	for name, serial := range c.serials() {
		if serial == before[name] {
			c.t.Errorf("%s has the certificate %s of before", name, serial)
		}
	}
	for _, some := range c.callers { // as an agent does when it has new files
		_, err := some.keys.Reload()
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// removeFormerAuthority removes the authority of before, which all machines trust until then.
func (c *owned) removeFormerAuthority() {
	trusted := c.trusted()
	c.run("tls", "ca", "remove", trusted[1], "-yes")
	c.awaitFollow(trusted[:1])
}

// trusted returns the IDs of the authorities, the one that signs first.
func (c *owned) trusted() []string {
	return strings.Fields(c.run("tls", "ca", "list", "-t", "{{range .}}{{.ID}} {{end}}"))
}

// serials returns the serial number of the certificate of each machine, by name.
func (c *owned) serials() map[string]string {
	all := map[string]string{}
	for _, a := range append(slices.Clone(c.servers), c.node) {
		file := filepath.Join(c.etc(a), "cert.pem")
		all[a.name] = c.servers[0].must("tls", "cert", "info", "-t", "{{.Serial}}", file)
	}
	return all
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
