package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/test/kit"
)

// serverOfCalls is one of three servers that calls make lead, and remove.
type serverOfCalls struct {
	name    string
	args    []string
	cmd     *exec.Cmd
	log     bytes.Buffer
	address string // of RPC
	gossip  string // its address
	config  string // the path of a configuration file
	c       *public.Client
}

// startServers runs three servers until the test ends.
func (f *callFixture) startServers() {
	f.t.Helper()
	bin := os.Getenv("BERTH_BIN")
	if bin == "" {
		f.t.Fatal("needs a berth binary to start servers: BERTH_BIN")
	}
	var join []string
	for i := range 3 {
		s := f.newServer(fmt.Sprint("s", i), 3)
		join = append(join, s.gossip)
	}
	for _, s := range f.servers {
		s.args = append(s.args, "-retry-join", strings.Join(join, ","))
		f.startServer(s)
		f.t.Cleanup(func() { s.stop(f.t) })
	}
	f.awaitVoters(3)
}

// newServer adds a server that does not run yet. expect is its bootstrap_expect.
func (f *callFixture) newServer(name string, expect int) *serverOfCalls {
	f.t.Helper()
	var ports []string
	for _, port := range kit.FreePorts(f.t, 3) {
		ports = append(ports, strconv.Itoa(port))
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &serverOfCalls{
		name:    name,
		address: "127.0.0.1:" + ports[1],
		gossip:  "127.0.0.1:" + ports[2],
		config:  filepath.Join(dir, "agent.hcl"),
	}
	s.configure(f.t, "")
	s.args = []string{"agent", "-server", "-bootstrap-expect", fmt.Sprint(expect), "-data-dir", dir,
		"-config", s.config, "-bind", "127.0.0.1", "-name", name,
		"-http-port", ports[0], "-rpc-port", ports[1], "-serf-port", ports[2]}
	s.c, err = public.NewClient(&public.Config{Address: "http://127.0.0.1:" + ports[0]})
	if err != nil {
		f.t.Fatal(err)
	}
	f.servers = append(f.servers, s)
	f.t.Cleanup(s.c.Close)
	return s
}

// patientAutopilot leaves the removal of dead servers to the calls, and gives votes soon.
const patientAutopilot = `
autopilot {
  cleanup_dead_servers      = false
  server_stabilization_time = "1s"
}
`

// gossipKey is the first key of the gossip of the servers.
const gossipKey = "MTIzNDU2Nzg5MDEyMzQ1Ng=="

// configure writes the configuration file of a server.
func (s *serverOfCalls) configure(t *testing.T, text string) {
	t.Helper()
	text += fmt.Sprintf("\nlog_file = %q\n", filepath.Dir(s.config)+"/")
	text += patientAutopilot + fmt.Sprintf("server {\n  encrypt = %q\n}\n", gossipKey)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *callFixture) startServer(s *serverOfCalls) {
	f.t.Helper()
	s.cmd = exec.Command(os.Getenv("BERTH_BIN"), s.args...)
	s.cmd.Stdout = &s.log
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
}

// stop ends a server, and shows its log if the test has failed.
func (s *serverOfCalls) stop(t *testing.T) {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
	}
	if t.Failed() {
		log := s.log.String()
		t.Logf("the log of %s ends:\n%s", s.name, log[max(0, len(log)-4000):])
	}
}

// kill ends a server as a crash does.
func (s *serverOfCalls) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait()
	s.cmd = nil
}

// peers returns the members of the Raft configuration by their RPC addresses.
func (f *callFixture) peers() (map[string]*public.RaftServer, error) {
	raft, err := f.servers[0].c.Operator().RaftGetConfiguration(nil)
	if err != nil {
		return nil, err
	}
	peers := map[string]*public.RaftServer{}
	for _, s := range raft.Servers {
		peers[s.Address] = s
	}
	return peers, nil
}

// awaitPeers waits until the servers have a leader, and returns their peers.
func (f *callFixture) awaitPeers() (peers map[string]*public.RaftServer) {
	f.t.Helper()
	f.await("the Raft configuration", func() (bool, error) {
		var err error
		peers, err = f.peers()
		return err == nil, err
	})
	return peers
}

func (f *callFixture) awaitVoters(n int) {
	f.t.Helper()
	f.await(fmt.Sprint(n, " voters"), func() (bool, error) {
		peers, err := f.peers()
		voters := 0
		for _, p := range peers {
			if p.Voter {
				voters++
			}
		}
		return voters == n, err
	})
}

// awaitLeader repeats a transfer of leadership until it succeeds and the first server knows that the server
// leads.
func (f *callFixture) awaitLeader(s *serverOfCalls, transfer func() error) {
	f.t.Helper()
	f.await(s.name+" leads", func() (bool, error) {
		if err := transfer(); err != nil {
			return false, err
		}
		leader, err := f.servers[0].c.Status().Leader()
		return leader == s.address, err
	})
}

// remove repeats the removal of a server until it succeeds: while servers elect a leader, nothing is
// removed. An attempt without an answer may have had its effect, and the next one finds no such server.
func (f *callFixture) remove(call func() error) error {
	tried := false
	return f.retried(func() error {
		err := call()
		if tried && err != nil && strings.Contains(err.Error(), "404") {
			return nil
		}
		tried = true
		return err
	})
}

// killLast kills the last server and waits until the first one knows that it has failed.
func (f *callFixture) killLast() (name string) {
	f.t.Helper()
	last := f.servers[2]
	last.kill(f.t)
	name = last.name + ".global"
	f.awaitMember(name, "failed")
	return name
}

// awaitMember waits until the first server knows that another one has a status.
func (f *callFixture) awaitMember(name, status string) {
	f.t.Helper()
	f.await(name+" is "+status, func() (bool, error) {
		members, err := f.servers[0].c.Agent().Members()
		if err != nil {
			return false, err
		}
		for _, m := range members.Members {
			if m.Name == name {
				return m.Status == status, nil
			}
		}
		return false, nil
	})
}

// serverCalls change the servers of a cluster.
var serverCalls = []callRow{
	{"Agent.MonitorExport", func(f *callFixture) error {
		f.startServers()
		stop := make(chan struct{})
		defer close(stop)
		// The second server passes the request on to the first one.
		frames, errs := f.servers[1].c.Agent().MonitorExport(stop, &public.QueryOptions{
			Params: map[string]string{"on_disk": "true", "server_id": f.servers[0].name},
		})
		select {
		case frame := <-frames:
			text := string(frame.Data)
			return check(nil, func() bool { return strings.Contains(text, "[INFO]") }, text)
		case err := <-errs:
			return err
		}
	}},
	{"Operator.RaftTransferLeadershipByID", func(f *callFixture) error {
		peers := f.awaitPeers()
		second := f.servers[1]
		f.awaitLeader(second, func() error {
			return f.servers[2].c.Operator().RaftTransferLeadershipByID(peers[second.address].ID, nil)
		})
		return nil
	}},
	{"Operator.RaftTransferLeadershipByAddress", func(f *callFixture) error {
		first := f.servers[0]
		f.awaitLeader(first, func() error {
			return first.c.Operator().RaftTransferLeadershipByAddress(first.address, nil)
		})
		return nil
	}},
	{"Operator.RaftRemovePeerByID", func(f *callFixture) error {
		peers := f.awaitPeers()
		f.killLast()
		err := f.remove(func() error {
			return f.servers[0].c.Operator().RaftRemovePeerByID(peers[f.servers[2].address].ID, nil)
		})
		f.awaitVoters(2)
		return err
	}},
	{"Agent.ForceLeave", func(f *callFixture) error {
		err := f.remove(func() error { return f.servers[0].c.Agent().ForceLeave(f.servers[2].name + ".global") })
		f.await("it has left", func() (bool, error) {
			members, err := f.servers[0].c.Agent().Members()
			return err == nil && !strings.Contains(fmt.Sprint(statuses(members)), "failed"), err
		})
		f.startServer(f.servers[2])
		f.awaitVoters(3)
		return err
	}},
	{"Operator.RaftRemovePeerByAddress", func(f *callFixture) error {
		f.killLast()
		err := f.remove(func() error {
			return f.servers[0].c.Operator().RaftRemovePeerByAddress(f.servers[2].address, nil)
		})
		f.awaitVoters(2)
		return err
	}},
	{"Agent.ForceLeaveWithOptions", func(f *callFixture) error {
		name := f.servers[2].name + ".global"
		err := f.remove(func() error {
			return f.servers[0].c.Agent().ForceLeaveWithOptions(name, public.ForceLeaveOpts{Prune: true})
		})
		f.await("it is gone", func() (bool, error) {
			members, err := f.servers[0].c.Agent().Members()
			return err == nil && len(members.Members) == 2, err
		})
		return err
	}},
	{"Agent.Join", func(f *callFixture) error {
		const nowhere = "127.0.0.1:1"
		s := f.newServer("s3", 0)
		s.args = append(s.args, "-retry-join", nowhere)
		f.startServer(s)
		f.t.Cleanup(func() { s.stop(f.t) })
		f.await("it answers", func() (bool, error) {
			_, err := s.c.Agent().Self()
			return err == nil, nil
		})
		if _, err := s.c.Agent().Join(nowhere); err == nil || !strings.Contains(err.Error(), "cannot join") {
			f.t.Errorf("joining no server: %v", err)
		}
		joined, err := s.c.Agent().Join(nowhere, f.servers[0].gossip)
		if err == nil && joined != 1 {
			err = fmt.Errorf("joined %d servers, want 1", joined)
		}
		f.awaitVoters(3)
		return err
	}},
	{"Agent.InstallKey", func(f *callFixture) error {
		return f.changeKeys(func(agent *public.Agent) (*public.KeyringResponse, error) {
			return agent.InstallKey(nextKey)
		})
	}},
	{"Agent.UseKey", func(f *callFixture) error {
		return f.changeKeys(func(agent *public.Agent) (*public.KeyringResponse, error) {
			return agent.UseKey(nextKey)
		})
	}},
	{"Agent.RemoveKey", func(f *callFixture) error {
		return f.changeKeys(func(agent *public.Agent) (*public.KeyringResponse, error) {
			return agent.RemoveKey(gossipKey)
		})
	}},
	{"Agent.ListKeys", func(f *callFixture) error {
		var rings *public.KeyringResponse
		err := f.changeKeys(func(agent *public.Agent) (_ *public.KeyringResponse, err error) {
			rings, err = agent.ListKeys()
			return rings, err
		})
		return check(err, func() bool { return len(rings.Keys) == 1 && rings.Keys[nextKey] == 3 }, rings)
	}},
	{"Agent.Reload", func(f *callFixture) error {
		first := f.servers[0]
		first.configure(f.t, `log_level = "loud"`)
		err := first.c.Agent().Reload(nil, nil)
		if err == nil || !strings.Contains(err.Error(), "log_level") {
			f.t.Errorf("a wrong configuration: %v", err)
		}
		first.configure(f.t, `log_level = "warn"`)
		err = first.c.Agent().Reload(nil, nil)
		if err != nil {
			return err
		}
		self, err := first.c.Agent().Self()
		if err == nil && self.Config["LogLevel"] != "warn" {
			err = fmt.Errorf("the log level is %v, want warn", self.Config["LogLevel"])
		}
		return err
	}},
}

// nextKey replaces gossipKey.
const nextKey = "YWJjZGVmZ2hpamtsbW5vcA=="

// changeKeys makes a request over the operator socket of the first server, again if an answer got lost.
func (f *callFixture) changeKeys(call func(*public.Agent) (*public.KeyringResponse, error)) error {
	socket := filepath.Join(filepath.Dir(f.servers[0].config), "berth.sock")
	c, err := public.NewClient(&public.Config{Address: "unix://" + socket})
	if err != nil {
		return err
	}
	defer c.Close()
	var rings *public.KeyringResponse
	err = f.retried(func() error {
		rings, err = call(c.Agent())
		return err
	})
	return check(err, func() bool { return rings.NumNodes == 3 && len(rings.Messages) == 0 }, rings)
}

func statuses(members *public.ServerMembers) (all []string) {
	for _, m := range members.Members {
		all = append(all, m.Status)
	}
	return all
}
