package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/structs/cluster"
)

// peers returns the members of the Raft configuration by the names of their agents.
func (a *agent) peers() (map[string]*cluster.RaftServer, error) {
	out, err := a.run("operator", "raft", "list-peers", "-json")
	if err != nil {
		return nil, err
	}
	byName := map[string]*cluster.RaftServer{}
	for _, s := range decode[[]*cluster.RaftServer](a.t, out) {
		byName[strings.TrimSuffix(s.Node, ".global")] = s
	}
	return byName, nil
}

// awaitVotes waits until exactly these agents have a vote, as one of them reports.
func (a *agent) awaitVotes(names ...string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprint(names, " have a vote"), func() error {
		peers, err := a.peers()
		if err != nil {
			return err
		}
		for _, name := range names {
			if peers[name] == nil || !peers[name].Voter {
				return fmt.Errorf("%s has none of %d", name, len(peers))
			}
		}
		if len(peers) != len(names) {
			return fmt.Errorf("%d servers, want %d", len(peers), len(names))
		}
		return nil
	})
}

// mustEventually repeats a command until it succeeds: gossip needs some seconds to notice a failure.
func (a *agent) mustEventually(args ...string) {
	a.t.Helper()
	eventually(a.t, strings.Join(args, " "), func() error {
		_, err := a.runThroughElections(args...)
		return err
	})
}

// mustFailEventually repeats a command until it fails as mustFail wants. A change of the leader and an
// address of a server that has just ended give other errors. The command must not succeed.
func (a *agent) mustFailEventually(code int, texts []string, args ...string) {
	a.t.Helper()
	eventually(a.t, strings.Join(args, " ")+" fails", func() error {
		_, err := a.run(args...)
		if err == nil {
			a.t.Fatalf("berth %s has succeeded, want it to say %q", strings.Join(args, " "), texts)
		}
		for _, text := range texts {
			if exitCode(err) != code || !strings.Contains(err.Error(), text) {
				return fmt.Errorf("exit code %d: %w\nwant %d and %q", exitCode(err), err, code, text)
			}
		}
		return nil
	})
}

// awaitAlive waits until the gossip of this server has n servers, all alive.
func (a *agent) awaitAlive(n int) {
	a.t.Helper()
	eventually(a.t, fmt.Sprint(n, " servers are alive"), func() error {
		out, err := a.run("server", "members")
		if err == nil && strings.Count(out, "alive") != n {
			err = fmt.Errorf("members:\n%s", out)
		}
		return err
	})
}

func TestServers_RecoverFromTheLossOfAMajority(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	survivor := c.servers[0]
	survivor.mustEventually("job", "run",
		survivor.writeJob(jobFile{name: "kept", script: "sleep 1000"}))
	for _, s := range c.servers[1:] {
		s.kill()
		if err := os.RemoveAll(s.data()); err != nil {
			t.Fatal(err)
		}
	}
	survivor.mustFailEventually(7, []string{"no leader", "try again"}, "job", "status", "kept")
	out := survivor.must("operator", "raft", "list-peers", "-stale", "-json")
	var me *cluster.RaftServer
	for _, s := range decode[[]*cluster.RaftServer](t, out) {
		if s.Node == survivor.name+".global" {
			me = s
		}
	}
	if me == nil {
		t.Fatalf("peers without a leader: %s", out)
	}
	survivor.stop()

	path := survivor.data("server", "raft", "peers.json")
	info, err := os.ReadFile(filepath.Join(filepath.Dir(path), "peers.info"))
	if err != nil || !strings.Contains(string(info), me.ID) ||
		!strings.Contains(string(info), path) {
		t.Errorf("peers.info does not explain it: %v\n%s", err, info)
	}
	peers := fmt.Appendf(nil, "[{\"id\": %q, \"address\": %q, \"non_voter\": false}]\n",
		me.ID, me.Address)
	if err := os.WriteFile(path, peers, 0o600); err != nil {
		t.Fatal(err)
	}
	survivor.start()
	survivor.awaitRunning("kept", 1)
	survivor.awaitVotes(survivor.name)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", path, err)
	}
	names := []string{survivor.name}
	for i := range 2 {
		s := newAgent(t, "new"+strconv.Itoa(i), "-server", "-bootstrap-expect", "0",
			"-retry-join", "127.0.0.1:"+strconv.Itoa(survivor.serf))
		s.ready = (*agent).hasLeader
		s.start()
		names = append(names, s.name)
		s.awaitVotes(names...)
		s.awaitRunning("kept", 1)
	}
	survivor.mustEventually("job", "stop", "-purge", "kept")
}
