package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/structs"
	"berth/test/kit"
)

// cluster is three servers and a node, four processes, or other numbers of them.
type testCluster struct {
	t       testing.TB
	program string // the berth that its agents run, "" for the one under test
	servers []*agent
	node    *agent
	nodes   []*agent
	rpc     string // where nodes find the servers
}

func newCluster(t testing.TB) *testCluster {
	t.Helper()
	c := newServers(t)
	c.node = c.addNode()
	c.node.start()
	return c
}

// addNode makes one more node, not started yet.
func (c *testCluster) addNode() *agent {
	n := newAgent(c.t, "n"+strconv.Itoa(len(c.nodes)), "-client", "-servers", c.rpc)
	n.program = cmp.Or(c.program, n.program)
	n.elects = len(c.servers) > 1
	c.nodes = append(c.nodes, n)
	return n
}

// newServers starts three servers, without a node.
func newServers(t testing.TB) *testCluster {
	t.Helper()
	return newServersOf(t, binary, 3)
}

// newServersOf starts a number of servers that run a berth.
func newServersOf(t testing.TB, program string, many int) *testCluster {
	t.Helper()
	c := &testCluster{t: t, program: program}
	var serf, rpc []string
	for i := range many {
		s := newAgent(t, "s"+strconv.Itoa(i), "-server", "-bootstrap-expect", strconv.Itoa(many))
		s.program = program
		s.ready = (*agent).hasLeader
		s.elects = many > 1
		c.servers = append(c.servers, s)
		serf = append(serf, "127.0.0.1:"+strconv.Itoa(s.serf))
		rpc = append(rpc, "127.0.0.1:"+strconv.Itoa(s.rpc))
	}
	for _, s := range c.servers {
		if many > 1 {
			s.args = append(s.args, "-retry-join", strings.Join(serf, ","))
		}
		s.launch()
	}
	for _, s := range c.servers {
		s.awaitReady()
	}
	c.rpc = strings.Join(rpc, ",")
	return c
}

// hasLeader returns nil if the server knows a leader.
func (a *agent) hasLeader() error {
	leader, err := get[string](a, "/v1/status/leader")
	if err == nil && leader == "" {
		err = fmt.Errorf("no leader")
	}
	return err
}

// leader finds the server that leads and those that follow.
func (c *testCluster) leader() (leader *agent, followers []*agent) {
	c.t.Helper()
	eventually(c.t, "a leader", func() error {
		leader, followers = nil, nil
		var addr string
		var err error
		for _, s := range c.servers {
			if s.cmd != nil {
				addr, err = get[string](s, "/v1/status/leader")
				if err != nil {
					return err
				}
			}
		}
		for _, s := range c.servers {
			switch {
			case s.cmd == nil:
			case addr == "127.0.0.1:"+strconv.Itoa(s.rpc):
				leader = s
			default:
				followers = append(followers, s)
			}
		}
		if leader == nil {
			return fmt.Errorf("the leader is said to be %q", addr)
		}
		return nil
	})
	return leader, followers
}

func TestStory_LeaderIsKilledWhileAJobStarts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader, followers := c.leader()
	follower := followers[0]
	follower.must("job", "run", example(t, "hostpath.hcl"))
	follower.healthyNodes("hostpath", 1)
	follower.must("volume", "create", example(t, "volume.hcl"))
	follower.must("job", "run", "-detach", example(t, "counter.hcl"))
	leader.kill()

	first := follower.awaitRunning("counter", 1)[0].ID
	follower.awaitOutput(first, first) // the log is fetched from the node
	if n := stages(c.node); n > 1 {
		t.Errorf("mounts: %v", stagedBelow(c.node.dir))
	}
	if next, _ := c.leader(); next == leader {
		t.Error("the leader is still said to lead")
	}
	leader.start() // it follows now
	leader.awaitRunning("counter", 1)
	leader.awaitListed(2, "follower", "operator", "raft", "list-peers")
	leader.awaitListed(1, "leader", "operator", "raft", "list-peers")
	leader.awaitListed(3, "alive", "server", "members") // gossip may learn of it after Raft

	follower.must("job", "stop", "-purge", "counter")
	follower.awaitFree("counter")
	if left := stagedBelow(c.node.dir); len(left) > 0 {
		t.Errorf("mounts left: %v", left)
	}
	follower.mustEventually("volume", "delete", "counter") // once it is detached
	follower.must("job", "stop", "-purge", "hostpath")
}

// awaitListed waits until a command writes a word so many times.
func (a *agent) awaitListed(times int, word string, command ...string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%q writes %q, %d times", command, word, times), func() error {
		out, err := a.run(command...)
		if err == nil && strings.Count(out, word) != times {
			err = fmt.Errorf("it writes\n%s", out)
		}
		return err
	})
}

func TestStory_AnyServerSavesAndRestoresArchives(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader, followers := c.leader()
	for i, s := range append([]*agent{leader}, followers...) {
		kept := "kept" + strconv.Itoa(i)
		lost := "lost" + strconv.Itoa(i)
		path := filepath.Join(s.dir, "backup.snap")
		s.must("job", "run",
			s.writeJob(jobFile{name: kept, script: "sleep 1000"}))
		s.must("operator", "snapshot", "save", path)
		if out := s.must("operator", "snapshot", "inspect", path); !strings.Contains(out, "complete") {
			t.Errorf("inspect says:\n%s", out)
		}
		s.must("job", "run", "-detach",
			s.writeJob(jobFile{name: lost, script: "sleep 1000"}))
		s.must("operator", "snapshot", "restore", path)
		for _, any := range c.servers {
			eventually(t, any.name+" has the restored state", func() error {
				out, err := any.run("job", "status")
				if err == nil && (!strings.Contains(out, kept) ||
					strings.Contains(out, lost)) {
					err = fmt.Errorf("jobs:\n%s", out)
				}
				return err
			})
		}
		s.awaitRunning(kept, 1)
	}
	saved := filepath.Join(leader.dir, "backup.snap")
	if out := leader.must("operator", "snapshot", "redact", saved); !strings.Contains(out, saved+".redacted") {
		t.Errorf("redact says:\n%s", out)
	}
	leader.mustFail(structs.KindPrecondition.ExitCode(), []string{"the archive is redacted"},
		"operator", "snapshot", "restore", saved+".redacted")
	torn := leader.writeFile("torn.snap", "no snapshot")
	leader.mustFail(2, []string{torn}, "operator", "snapshot", "inspect", torn)
	leader.mustFail(2, []string{torn}, "operator", "snapshot", "restore", torn)
	whole, err := os.ReadFile(filepath.Join(leader.dir, "backup.snap"))
	if err != nil {
		t.Fatal(err)
	}
	half := leader.writeFile("half.snap", string(whole[:len(whole)/2]))
	followers[0].mustFail(2, []string{half}, "operator", "snapshot", "restore", half)
	leader.awaitRunning("kept0", 1)
}

func TestCluster_ServersMove(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, followers := c.leader()
	moved := followers[0]
	moved.stop()
	moved.changePort("-rpc-port")
	moved.start()
	c.servers[0].must("job", "run", "-detach", example(t, "counter.hcl"))
	moved.awaitPeers(t, 3)

	alone := newAgent(t, "alone", "-server", "-client")
	alone.start()
	alone.stop()
	alone.changePort("-rpc-port")
	alone.start()
	alone.awaitPeers(t, 1)
	alone.must("job", "run",
		alone.writeJob(jobFile{name: "here", script: "sleep 1000"}))
}

// An agent that is a server and a node gets other addresses, as from DHCP, and is back within some seconds:
// the others have not taken the former ones for failed yet. Its node asks its own server, which a leader has
// to reach.
func TestCluster_AnAgentOfBothMovesAtOnce(t *testing.T) {
	t.Parallel()
	c := newServers(t)
	leader, followers := c.leader()
	both := followers[0]
	both.stop()
	both.args = append(both.args, "-client")
	both.ready = (*agent).nodeReady
	both.start()
	both.awaitPeers(t, 3)
	id := leader.nodeID(both.name)

	both.kill()
	both.changePorts()
	both.launch()
	eventually(t, "the servers have the node at its new address", func() error {
		n, err := get[*structs.NodeDetail](leader, "/v1/node/"+id)
		switch {
		case err != nil:
			return err
		case n.Status != structs.NodeReady:
			t.Fatalf("the node is %s: %s", n.Status, n.StatusDescription)
		case n.HTTPAddr != "127.0.0.1:"+strconv.Itoa(both.http):
			return fmt.Errorf("it is at %s", n.HTTPAddr)
		}
		return nil
	})
	both.awaitPeers(t, 3)
}

// changePorts gives the agent other ports at its next start.
func (a *agent) changePorts() {
	a.t.Helper()
	ports := kit.FreePorts(a.t, 2)
	a.http = ports[0]
	a.serf = ports[1]
	a.args = append(a.args, "-http-port", strconv.Itoa(a.http), "-serf-port", strconv.Itoa(a.serf))
	a.changePort("-rpc-port")
}

// changePort gives the agent another port at its next start.
func (a *agent) changePort(port string) {
	a.t.Helper()
	a.rpc = kit.FreePorts(a.t, 1)[0]
	a.args = append(a.args, port, strconv.Itoa(a.rpc))
}

// awaitPeers waits until the Raft configuration has n members, among them this agent at its present address.
func (a *agent) awaitPeers(t testing.TB, n int) {
	t.Helper()
	eventually(t, "the Raft configuration is up to date", func() error {
		out, err := a.run("operator", "raft", "list-peers")
		if err == nil && (!strings.Contains(out, "127.0.0.1:"+strconv.Itoa(a.rpc)+" ") ||
			!strings.Contains(out, a.name+".global") ||
			strings.Count(out, "leader") != 1 ||
			strings.Count(out, "yes") != n) {
			err = fmt.Errorf("peers:\n%s", out)
		}
		return err
	})
}

func TestCluster_DownNodeKeepsItsVolume(t *testing.T) {
	t.Parallel()
	s := newAgent(t, "s0", "-server")
	s.ready = (*agent).hasLeader
	s.start()
	n := newAgent(t, "n0", "-client", "-servers", "127.0.0.1:"+strconv.Itoa(s.rpc))
	n.start()
	s.must("job", "run", fastRestartPlugin(t, s, "64"))
	s.healthyNodes("hostpath", 1)
	s.createVolume(volumeFile{id: "counter", image: true})
	s.must("job", "run", example(t, "counter.hcl"))
	first := s.awaitRunning("counter", 1)[0]
	n.awaitMoreOutput(first.ID)

	n.kill() // the task runs on and writes
	eventually(t, "the node is down", func() error {
		out, err := s.run("node", "status")
		if err == nil && !strings.Contains(out, "down") {
			err = fmt.Errorf("nodes:\n%s", out)
		}
		return err
	})
	if claims, err := s.claims("counter"); err != nil || len(claims) != 1 || claims[0].AllocID != first.ID {
		t.Errorf("the claims of a node that is down: %+v, %v", claims, err)
	}
	if out := s.must("volume", "status", "counter"); !strings.Contains(out, first.NodeID[:8]) ||
		!strings.Contains(out, "that node is down") || !strings.Contains(out, "detach -force") {
		t.Errorf("the volume's status does not say that its node is down:\n%s", out)
	}
	s.mustFail(7, []string{"is down", "detach -force -reason"}, "volume", "detach", "counter", first.NodeID)
	s.mustFail(2, []string{"-reason"}, "volume", "detach", "-force", "counter", first.NodeID)
	force := []string{"volume", "detach", "-force", "-reason", "the test says so", "counter", first.NodeID}
	s.mustFail(structs.KindDenied.ExitCode(), []string{"Run there: sudo", s.operatorSocket()}, force...)
	s.must(append(force, "-address", "unix://"+s.operatorSocket())...)
	s.awaitFree("counter")

	n.start() // it has lost the volume: its task is ended and runs again with a new claim
	eventually(t, "the job runs once, with a new allocation", func() error {
		if err := checkSingleMounts(n); err != nil {
			t.Error(err)
		}
		allocs, err := get[[]*structs.AllocListStub](s, "/v1/job/counter/allocations")
		if err != nil {
			return err
		}
		for _, a := range allocs {
			if a.ID == first.ID && a.ClientStatus == structs.AllocRunning {
				return fmt.Errorf("the old allocation still runs")
			}
		}
		return checkSettled(n, true)
	})
	s.must("job", "stop", "-purge", "counter")
	s.awaitFree("counter")
	if left := stagedBelow(n.dir); len(left) > 0 {
		t.Errorf("mounts left: %v", left)
	}
	s.must("volume", "delete", "counter")
	s.must("job", "stop", "-purge", "hostpath")
}
