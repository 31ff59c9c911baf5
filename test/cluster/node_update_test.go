package cluster_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client"
	"berth/client/assembly"
	"berth/client/drivers/drivertest"
	"berth/client/hooks"
	"berth/rpc"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	"berth/test/cluster"
)

// countingPool connects an agent to the servers and counts its requests.
type countingPool struct {
	*rpc.Pool
	mu    sync.Mutex
	calls map[string]int
}

func (p *countingPool) Call(ctx context.Context, addr, method string, req, resp any) error {
	p.mu.Lock()
	p.calls[method]++
	p.mu.Unlock()
	return p.Pool.Call(ctx, addr, method, req, resp)
}

func (p *countingPool) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}

// settableReports has the drivers and plugins of an agent. A test sets their reports.
type settableReports struct {
	drivertest.Set
	mu      sync.Mutex
	exec    structs.DriverInfo
	plugin  *structs.CSIPluginInstance
	changes chan struct{}
}

func (s *settableReports) WaitFirst(context.Context) error { return nil }
func (s *settableReports) Changes() <-chan struct{}        { return s.changes }

func (s *settableReports) Infos() map[string]*structs.DriverInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	exec := s.exec
	return map[string]*structs.DriverInfo{
		"exec":     &exec,
		"raw_exec": {Detected: true, Healthy: true},
	}
}

func (s *settableReports) setDriver(exec structs.DriverInfo) {
	s.mu.Lock()
	s.exec = exec
	s.mu.Unlock()
	s.changes <- struct{}{}
}

type settablePlugins struct{ *settableReports }

func (s settablePlugins) Changes() <-chan struct{} { return nil }
func (s settablePlugins) Instances() []*structs.CSIPluginInstance {
	return []*structs.CSIPluginInstance{s.plugin}
}

// startReportingAgent runs a real node agent with fake drivers and plugins until the end of the test.
func startReportingAgent(c *cluster.Cluster, name string) (*client.Client, *settableReports, *countingPool) {
	t := c.T
	pool := &countingPool{
		Pool:  rpc.NewPool(c.Net.From(name).Dial, c.Logger, rpc.NewServer(c.Logger)),
		calls: map[string]int{},
	}
	s := &settableReports{
		Set:     drivertest.NewMachine().Drivers(),
		exec:    structs.DriverInfo{Detected: true, Healthy: true},
		changes: make(chan struct{}, 1),
	}
	cfg := client.DefaultConfig()
	cfg.Enabled = true
	cfg.DataDir = t.TempDir()
	cfg.NodeName = name
	cfg.Settings.Path = noPrograms
	for _, server := range c.Servers {
		cfg.Servers = append(cfg.Servers, server.Current().RPCAddr())
	}
	agent, err := client.New(cfg, client.Deps{
		Logger: hclog.NewNullLogger(),
		Pool:   pool,
		Build: func(p assembly.Parts) (*assembly.Subsystems, error) {
			s.plugin = &structs.CSIPluginInstance{
				Kind:   structs.CSIKindNode,
				NodeID: p.NodeID,
				CSIInfo: structs.CSIInfo{PluginID: "p", Healthy: true,
					NodeInfo: &structs.CSINodeInfo{ID: name}},
			}
			return &assembly.Subsystems{
				Drivers:    s,
				Plugins:    settablePlugins{s},
				AllocHooks: func(*hooks.AllocEnv) []hooks.Alloc { return nil },
				TaskHooks:  func(*hooks.AllocEnv, *structs.Task) []hooks.Task { return nil },
			}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		agent.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		pool.Close()
	})
	return agent, s, pool
}

// The node registers again, and the servers write one entry.
func TestNode_ADriverThatFlipsIsOneEntry(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 1)
	leader := c.Leader()
	c.AwaitRows(leader, "the leader has stored the scheduler's configuration", func(tx *state.ReadTx) bool {
		return state.SchedulerConfig(tx).ModifyIndex != 0
	})
	c.AwaitRows(leader, "the leader has stored the cluster time", func(tx *state.ReadTx) bool {
		return clustertime.Of(tx) != nil
	})
	agent, s, pool := startReportingAgent(c, "n1")
	select {
	case <-agent.ServersContacted():
	case <-time.After(cluster.Patience):
		t.Fatal("the agent did not register")
	}
	row := func(tx *state.ReadTx) *structs.Node {
		return state.Node(tx, agent.NodeID())
	}
	index := leader.Current().Store().Index()
	for flip, healthy := range []bool{false, true, false} {
		before := pool.counts()
		s.setDriver(structs.DriverInfo{
			Detected:   true,
			Healthy:    healthy,
			UpdateTime: time.Now(),
		})
		c.AwaitRows(leader, "the driver has changed",
			func(tx *state.ReadTx) bool {
				return row(tx).Drivers["exec"].Healthy == healthy
			})
		n := row(leader.Current().Store().Read())
		after := pool.counts()
		if after["Node.Register"] != before["Node.Register"]+1 || after["Node.UpdateCSI"] != 0 {
			t.Errorf("flip %d: calls %v, before %v", flip, after, before)
		}
		if want := index + uint64(flip) + 1; n.ModifyIndex != want || leader.Current().Store().Index() != want {
			t.Errorf("flip %d: the row is of entry %d, the newest is %d; want %d", flip, n.ModifyIndex,
				leader.Current().Store().Index(), want)
		}
		told := agent.Node().Copy()
		// From the proof of the agent.
		told.BootID = n.BootID
		told.Machine = n.Machine
		told.Store = n.Store
		told.Mark = n.Mark
		if !structs.NodeEqual(n, told, structs.IgnoreServersPart|structs.IgnoreDriverTimes) ||
			!n.Drivers["raw_exec"].Healthy ||
			(n.Attributes["driver.exec"] == "1") != healthy ||
			len(n.CSIInstances()) != 1 {
			t.Errorf("flip %d: %+v", flip, n)
		}
	}
}

// Each server makes the same row.
func TestNode_IsTheSameOnAllServersAfterAFlip(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	agent, s, pool := startReportingAgent(c, "n1")
	<-agent.Registered()
	leader := c.Leader()
	s.setDriver(structs.DriverInfo{Detected: true, HealthDescription: "broken"})
	c.AwaitRows(leader, "the driver has changed", func(tx *state.ReadTx) bool {
		n := state.Node(tx, agent.NodeID())
		return n != nil && !n.Drivers["exec"].Healthy
	})
	if n := pool.counts()["Node.Register"]; n < 2 {
		t.Error("the node did not register again")
	}
	c.CheckEqualStates()
}
