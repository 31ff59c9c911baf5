package interop

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	public "github.com/hashicorp/nomad/api"

	"berth/internal/agenttest"
	"berth/rpc"
	"berth/structs"
	"berth/test/kit"
)

// lostNode is a node without an agent: the test sends what its agent would.
type lostNode struct {
	t      *testing.T
	server rpc.Caller
	id     string
	secret string
}

func newLostNode(t *testing.T, server string) *lostNode {
	t.Helper()
	pool := rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), nil)
	t.Cleanup(pool.Close)
	n := &lostNode{t: t, server: pool.At(server), id: structs.NewID(), secret: structs.NewID()}
	req := &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID: n.id, SecretID: n.secret, Name: "lost", Datacenter: "dc1", Status: structs.NodeReady,
			Drivers: map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
			NodeResources: &structs.NodeResources{
				CPU:    structs.NodeCPUResources{CpuShares: 4000},
				Memory: structs.NodeMemoryResources{MemoryMB: 4000},
				Disk:   structs.NodeDiskResources{DiskMB: 40000},
			},
		},
	}
	agenttest.Stamp(req)
	_, err := rpc.Call(t.Context(), n.server, structs.NodeRegister, req)
	checkNoError(t, "the registration of the node", err)
	return n
}

// beat sends a heartbeat.
func (n *lostNode) beat() {
	n.t.Helper()
	req := &structs.NodeHeartbeatRequest{NodeID: n.id, SecretID: n.secret, Status: structs.NodeReady}
	agenttest.Stamp(req)
	_, err := rpc.Call(n.t.Context(), n.server, structs.NodeHeartbeat, req)
	checkNoError(n.t, "a heartbeat", err)
}

// offer reports that an allocation runs and offers an instance of a service.
func (n *lostNode) offer(alloc, service, instance string) {
	n.t.Helper()
	_, err := rpc.Call(n.t.Context(), n.server, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID: n.id, SecretID: n.secret,
		Allocs: []*structs.AllocClientUpdate{{
			ID: alloc, ClientStatus: structs.AllocRunning,
			Services: []*structs.ServiceInstance{{
				ID: instance, ServiceName: service, Address: "127.0.0.1", Port: 80,
			}},
		}},
	})
	checkNoError(n.t, "the report", err)
}

// TestPeersCommandLine_DeletesAnInstanceOfALostNode pauses the evaluations, so that no plan ends the
// allocation of the node that goes down.
func TestPeersCommandLine_DeletesAnInstanceOfALostNode(t *testing.T) {
	t.Parallel()
	bin, berth := os.Getenv("PEER_BIN"), os.Getenv("BERTH_BIN")
	if bin == "" || berth == "" {
		t.Skip("needs the peer's command line: PEER_BIN=$(scripts/peer.sh), and BERTH_BIN")
	}
	port := strconv.Itoa(kit.FreePorts(t, 1)[0])
	addr := startAgent(t, berth, "consul {\n  address = \"\"\n}\nserver {\n  heartbeat_grace = \"1s\"\n}\n",
		"-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-rpc-port", port, "-serf-port", "0")
	c, err := public.NewClient(&public.Config{Address: addr, WaitTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	peer := peerCLI{t: t, bin: bin, addr: addr}
	awaitAnswer(t, "a leader", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		leader, err := c.Status().Leader()
		return leader != "", nil, err
	})
	n := newLostNode(t, "127.0.0.1:"+port)
	_, _, err = c.Jobs().Register(shellJob("left", "sleep 600"), nil)
	checkNoError(t, "the job", err)
	alloc := ""
	awaitAnswer(t, "the placement", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		n.beat()
		allocs, meta, err := c.Jobs().Allocations("left", true, q)
		if len(allocs) > 0 {
			alloc = allocs[0].ID
		}
		return alloc != "", meta, err
	})
	peer.run("operator", "scheduler", "set-config", "-pause-eval-broker=true")
	n.beat()
	n.offer(alloc, "left", "_left-1")
	running := peer.exits(1, "service", "delete", "left", "_left-1")
	peer.checkOutput(running, "which would register it again", "berth alloc stop "+alloc)

	awaitAnswer(t, "the end of the lease", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		node, meta, err := c.Nodes().Info(n.id, q)
		return err == nil && node.Status == structs.NodeDown, meta, err
	})
	peer.checkOutput(peer.run("service", "info", "left"), alloc[:8])
	peer.run("service", "delete", "left", "_left-1")
	peer.checkOutput(peer.run("service", "info", "left"), "No service registrations found")
	peer.exits(1, "service", "delete", "left", "_left-1")
}
