// Package consultest runs a real Consul agent for tests. CONSUL_BIN names its binary, which
// scripts/consul.sh builds. The agent listens on loopback ports of its own and ends with its test, and with
// the process of the test. A Signer signs what it verifies at a login.
package consultest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/test/kit"
)

// ManagementToken is the token of an agent with ACLs that may do everything.
const ManagementToken = "5d1b9d3c-0000-4000-8000-0000000be27b"

// startPatience bounds the wait for an agent that starts on a busy machine.
const startPatience = 2 * time.Minute

// Options are the differences to a plain agent.
type Options struct {
	// ACLs denies all requests without a token.
	ACLs bool
	// Server makes a server that stores its state, so that it has its services again after a restart.
	Server bool
}

// Agent is a Consul agent.
type Agent struct {
	// Addr is the host:port of its HTTP API.
	Addr string
	// API is a client that may do everything.
	API *api.Client

	t      testing.TB
	binary string
	dir    string
	args   []string
	end    func()
}

// Start runs an agent until the end of the test. It skips the test on a machine without a binary.
func Start(t testing.TB, o Options) *Agent {
	t.Helper()
	binary := os.Getenv("CONSUL_BIN")
	if binary == "" {
		kit.SkipLacking(t, "no Consul agent: CONSUL_BIN=$(scripts/consul.sh) names one")
	}

	a := &Agent{
		t:      t,
		binary: binary,
		dir:    t.TempDir(),
		end:    func() {},
	}

	ports := kit.FreePorts(t, 4)
	a.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	a.args = []string{"agent", "-config-file", filepath.Join(a.dir, "consul.json")}
	if o.Server {
		a.args = append(a.args, "-server", "-bootstrap-expect=1", "-data-dir", filepath.Join(a.dir, "data"))
	} else {
		a.args = append(a.args, "-dev")
	}

	a.writeConfig(o, ports)
	conf := &api.Config{
		Address:    a.Addr,
		HttpClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}

	if o.ACLs {
		conf.Token = ManagementToken
	}

	var err error
	a.API, err = api.NewClient(conf)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(a.Kill)
	a.Run()
	return a
}

func (a *Agent) writeConfig(o Options, ports []int) {
	conf := map[string]any{
		"node_name":            "consul-test",
		"bind_addr":            "127.0.0.1",
		"client_addr":          "127.0.0.1",
		"log_level":            "warn",
		"disable_update_check": true,
		"connect":              map[string]any{"enabled": true},
		"performance":          map[string]any{"raft_multiplier": 1},
		"ports": map[string]int{
			"http":     ports[0],
			"server":   ports[1],
			"serf_lan": ports[2],
			"grpc":     ports[3],
			"serf_wan": -1,
			"dns":      -1,
			"https":    -1,
			"grpc_tls": -1,
		},
	}

	if o.ACLs {
		conf["acl"] = map[string]any{
			"enabled":        true,
			"default_policy": "deny",
			"tokens":         map[string]any{"initial_management": ManagementToken, "agent": ManagementToken},
		}
	}

	text, err := json.Marshal(conf)
	if err == nil {
		err = os.WriteFile(filepath.Join(a.dir, "consul.json"), text, 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// Run starts the agent, again after Kill, and waits until it serves and gives virtual addresses.
func (a *Agent) Run() {
	a.t.Helper()
	log, err := os.Create(filepath.Join(a.dir, "consul.log"))
	if err != nil {
		a.t.Fatal(err)
	}

	cmd := exec.Command(a.binary, a.args...)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan error, 1)
	started := make(chan error, 1)
	go func() { // Pdeathsig is bound to the thread
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
		}

		ended <- errors.Join(err, log.Close())
	}()

	if err := <-started; err != nil {
		a.t.Fatal(errors.Join(err, <-ended))
	}

	a.end = func() {
		_ = cmd.Process.Kill()
		<-ended
		a.end = func() {}
	}

	a.awaitServing()
	a.awaitVirtualAddresses()
}

// Kill ends the agent at once.
func (a *Agent) Kill() { a.end() }

// await waits until ready returns true.
func (a *Agent) await(condition string, ready func(ctx context.Context) (bool, error)) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	for {
		met, err := ready(ctx)
		if met && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(a.dir, "consul.log"))
			a.t.Fatalf("Consul: %s: %v\n%s", condition, err, log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// awaitServing waits until the agent has a leader and is in the catalog.
func (a *Agent) awaitServing() {
	a.t.Helper()
	a.await("the agent is in the catalog", func(ctx context.Context) (bool, error) {
		query := (&api.QueryOptions{AllowStale: false}).WithContext(ctx)
		nodes, _, err := a.API.Catalog().Nodes(query)
		return len(nodes) > 0, err
	})
}

// awaitVirtualAddresses registers services until one gets a virtual address. A leader begins to give them
// some moments after its election, and a service that it has registered before never gets one.
func (a *Agent) awaitVirtualAddresses() {
	a.t.Helper()
	const name = "virtual-address-probe"
	a.await("a service gets a virtual address", func(ctx context.Context) (bool, error) {
		write := (&api.WriteOptions{}).WithContext(ctx)
		_, err := a.API.Catalog().Register(&api.CatalogRegistration{
			Node:    name,
			Address: "127.0.0.1",
			Service: &api.AgentService{
				Service: name,
				Port:    1,
				Connect: &api.AgentServiceConnect{Native: true},
			},
		}, write)
		if err != nil {
			return false, err
		}

		found, _, err := a.API.Catalog().Service(name, "", (&api.QueryOptions{}).WithContext(ctx))
		if err != nil || len(found) == 0 {
			return false, err
		}

		_, given := found[0].ServiceTaggedAddresses["consul-virtual"]
		_, err = a.API.Catalog().Deregister(&api.CatalogDeregistration{Node: name}, write)
		return given, err
	})
}

// Token makes a token of an agent with ACLs that has the rules of a policy.
func (a *Agent) Token(rules string) string {
	a.t.Helper()
	name := fmt.Sprintf("policy-%d", time.Now().UnixNano())
	policy, _, err := a.API.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	if err != nil {
		a.t.Fatal(err)
	}

	token := &api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}
	made, _, err := a.API.ACL().TokenCreate(token, nil)
	if err != nil {
		a.t.Fatal(err)
	}

	return made.SecretID
}
