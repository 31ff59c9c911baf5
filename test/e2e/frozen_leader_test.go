package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/agenttest"
	"berth/rpc"
	"berth/structs"
)

// leaseAnswer is the answer to a heartbeat.
type leaseAnswer struct {
	term uint64
	err  error
}

// A leader is frozen, and another one is elected meanwhile. Requests for a lease have reached it before,
// and it reads them when it goes on. It must not grant a lease of which its successor does not know:
// either it answers an error, or the lease is of the new leader.
func TestFrozenLeader_GrantsNoLease(t *testing.T) {
	t.Parallel()
	const heartbeats = 64 // more than a server answers before it has noticed the election
	c := newServers(t)
	pool := rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), nil)
	t.Cleanup(pool.Close)
	for round := range 3 {
		c.awaitOneLeader()
		leader, followers := c.leader()
		node := structs.NewID()
		server := pool.At(net.JoinHostPort("127.0.0.1", strconv.Itoa(leader.rpc)))
		registerNode(t, server, node)
		before := heartbeat(server, node)
		if before.err != nil || before.term == 0 {
			t.Fatalf("round %d: the leader answers a heartbeat with term %d and %v", round, before.term, before.err)
		}

		leader.freeze()
		answers := make(chan leaseAnswer)
		for range heartbeats {
			go func() { answers <- heartbeat(server, node) }()
		}
		eventually(t, "another leader", func() error { return followers[0].leadsNot(leader) })
		leader.signal(syscall.SIGCONT)
		for range heartbeats {
			a := <-answers
			if a.err == nil && a.term <= before.term {
				t.Errorf("round %d: the former leader granted a lease of term %d, after the election of another one",
					round, a.term)
			}
		}
	}
}

// freeze stops all threads of an agent. A thread that runs on another core may go on for a moment after
// the signal.
func (a *agent) freeze() {
	a.t.Helper()
	a.signal(syscall.SIGSTOP)
	threads := fmt.Sprintf("/proc/%d/task/*/stat", a.cmd.Process.Pid)
	eventually(a.t, "the agent is frozen", func() error {
		paths, err := filepath.Glob(threads)
		if err != nil {
			return err
		}
		for _, path := range paths {
			stat, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			_, state, _ := strings.Cut(string(stat), ") ")
			if !strings.HasPrefix(state, "T") {
				return fmt.Errorf("thread %s is in state %.1s", path, state)
			}
		}
		return nil
	})
}

// awaitOneLeader waits until all servers name the same leader: one that was frozen may still name itself.
func (c *testCluster) awaitOneLeader() {
	c.t.Helper()
	eventually(c.t, "one leader of all servers", func() error {
		named := map[string]bool{}
		for _, s := range c.servers {
			addr, err := get[string](s, "/v1/status/leader")
			if err != nil {
				return err
			}
			named[addr] = true
		}
		if len(named) != 1 || named[""] {
			return fmt.Errorf("they name %v", named)
		}
		return nil
	})
}

// leadsNot returns nil if the server knows a leader other than the given one.
func (a *agent) leadsNot(former *agent) error {
	addr, err := get[string](a, "/v1/status/leader")
	if err != nil {
		return err
	}
	if addr == "" || addr == "127.0.0.1:"+strconv.Itoa(former.rpc) {
		return fmt.Errorf("the leader is %q", addr)
	}
	return nil
}

// heartbeat asks a server for a lease of a node.
func heartbeat(server rpc.Caller, node string) leaseAnswer {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req := &structs.NodeHeartbeatRequest{
		NodeID:   node,
		SecretID: node,
		Status:   structs.NodeReady,
	}
	agenttest.Stamp(req)
	resp, err := rpc.Call(ctx, server, structs.NodeHeartbeat, req)
	if err != nil {
		return leaseAnswer{err: err}
	}
	return leaseAnswer{term: resp.LeaseTerm}
}

func registerNode(t *testing.T, server rpc.Caller, id string) {
	t.Helper()
	req := &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:         id,
			SecretID:   id,
			Name:       id,
			Datacenter: "dc1",
			Status:     structs.NodeReady,
		},
	}
	agenttest.Stamp(req)
	_, err := rpc.Call(t.Context(), server, structs.NodeRegister, req)
	if err != nil {
		t.Fatal(err)
	}
}
