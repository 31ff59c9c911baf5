package cluster_test

import (
	"slices"
	"testing"
	"time"

	"berth/server"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// removesTheDead has the first leader store that dead servers are removed.
func removesTheDead(cfg *server.Config) { cfg.Autopilot.CleanupDeadServers = true }

// health returns what the leader knows of a server, nil if it is in no configuration.
func health(c *cluster.Cluster, s *cluster.Server) *rows.ServerHealth {
	resp := cluster.Must(c, c.Leader(), rows.AutopilotHealth, &structs.QueryRequest{})
	for _, h := range resp.Servers {
		if h.Address == s.Current().RPCAddr() {
			return h
		}
	}
	return nil
}

// setAutopilot changes the configuration of autopilot.
func setAutopilot(c *cluster.Cluster, change func(*rows.AutopilotConfig)) {
	c.T.Helper()
	config := *cluster.Must(c, c.Leader(), rows.AutopilotConfigGet, &structs.QueryRequest{}).Config
	change(&config)
	cluster.Must(c, c.Leader(), rows.AutopilotConfigSet, &rows.AutopilotConfigRequest{Config: config})
}

// awaitVoters waits until servers, and no others, vote.
func awaitVoters(t *testing.T, c *cluster.Cluster, servers ...*cluster.Server) {
	t.Helper()
	c.Await("the voters are as wanted", func() bool {
		return slices.Equal(voters(t, c.Leader()), addresses(servers))
	})
}

// awaitGone waits until a server is in no configuration, as the leader knows it.
func awaitGone(t *testing.T, c *cluster.Cluster, s *cluster.Server) {
	t.Helper()
	c.Await(s.Name+" is removed", func() bool { return peerOf(t, c.Leader(), s, "") == nil })
}

func kill(t *testing.T, servers ...*cluster.Server) {
	t.Helper()
	for _, s := range servers {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	}
}

func TestAutopilot_RemovesDeadServersAndTakesThemBack(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 5, rareElections, removesTheDead)
	dead := c.Others(c.Leader())[:2]
	kill(t, dead...)
	rest := c.Others(dead[0])
	for _, s := range dead {
		awaitGone(t, c, s)
	}
	awaitVoters(t, c, rest...)
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("one"))

	c.Restart(dead[0])
	awaitVoters(t, c, append(rest, dead[0])...)
	c.CheckEqualStates()
}

// TestAutopilot_KeepsMinQuorum: the server without a vote that fails later is removed in the same round, or a
// later one, in which the voter would be removed.
func TestAutopilot_KeepsMinQuorum(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections, removesTheDead, func(cfg *server.Config) {
		cfg.Autopilot.MinQuorum = 3
	})
	votes := c.Configure
	c.Configure = neverVotes(votes)
	witness := c.Add(0)
	c.Await("the witness follows", func() bool {
		h := health(c, witness)
		return h != nil && h.Healthy
	})

	dead := c.Others(c.Leader())[0]
	if dead == witness {
		t.Fatal("the witness is not the last server")
	}
	id := killAndAwaitFailed(c, t, dead, c.Leader())
	killAndAwaitFailed(c, t, witness, c.Leader())
	awaitGone(t, c, witness)
	if peerOf(t, c.Leader(), dead, id) == nil {
		t.Error("a voter was removed, so fewer than MinQuorum stayed")
	}

	setAutopilot(c, func(a *rows.AutopilotConfig) { a.MinQuorum = 2 })
	c.Configure = votes
	c.Add(0) // three of the four voters stay
	awaitGone(t, c, dead)
}

// A cluster of three servers keeps the vote of a dead one, until an operator removes it.
func TestAutopilot_KeepsThreeVotersOfThree(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections, removesTheDead)
	c.Configure = neverVotes(c.Configure)
	witness := c.Add(0)
	c.Await("the witness follows", func() bool {
		h := health(c, witness)
		return h != nil && h.Healthy
	})
	dead := c.Others(c.Leader())[0]
	id := killAndAwaitFailed(c, t, dead, c.Leader())
	killAndAwaitFailed(c, t, witness, c.Leader())
	awaitGone(t, c, witness) // in the round in which the voter would go
	if peerOf(t, c.Leader(), dead, id) == nil {
		t.Error("one of three voters was removed")
	}

	cluster.Must(c, c.Leader(), rows.OperatorRemove, &rows.RaftRemovePeerRequest{ID: id})
	config := cluster.Must(c, c.Leader(), rows.AutopilotConfigGet, &structs.QueryRequest{}).Config
	if config.MostVoters != 2 {
		t.Errorf("after the removal by an operator the most voters are %d, want 2", config.MostVoters)
	}
}

// neverVotes has the servers that are added from now on never vote.
func neverVotes(configure func(*server.Config)) func(*server.Config) {
	return func(cfg *server.Config) {
		configure(cfg)
		cfg.NonVoting = true
	}
}

// TestAutopilot_GivesAVoteAfterTheStabilisation: the time is longer than the test at first.
func TestAutopilot_GivesAVoteAfterTheStabilisation(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections, func(cfg *server.Config) {
		cfg.Autopilot.ServerStabilizationTime = time.Hour
	})
	first := slices.Clone(c.Servers)
	awaitVoters(t, c, first...) // at once
	added := c.Add(0)
	c.Await("the new server is healthy", func() bool {
		h := health(c, added)
		return h != nil && h.Healthy
	})
	since := health(c, added).StableSince
	cluster.Must(c, added, structs.JobRegister, jobRequest("one"))
	if !slices.Equal(voters(t, c.Leader()), addresses(first)) {
		t.Error("the new server has a vote before the time")
	}

	setAutopilot(c, func(a *rows.AutopilotConfig) { a.ServerStabilizationTime = 2 * time.Second })
	awaitVoters(t, c, c.Servers...)
	if time.Since(since) < 2*time.Second {
		t.Error("the new server got its vote before the time")
	}
}

// TestAutopilot_AZoneHasOneVoter: the first three servers are in zones a, b and c, the others in b and c.
func TestAutopilot_AZoneHasOneVoter(t *testing.T) {
	t.Parallel()
	zones := map[string]string{"s1": "a", "s2": "b", "s3": "c", "s4": "b", "s5": "c"}
	c := cluster.New(t, 3, rareElections, func(cfg *server.Config) {
		cfg.RedundancyZone = zones[cfg.Name]
	})
	first := slices.Clone(c.Servers)
	for range 2 {
		added := c.Add(0)
		c.Await(added.Name+" is healthy", func() bool {
			h := health(c, added)
			return h != nil && h.Healthy && !h.Voter
		})
	}
	awaitVoters(t, c, first...)

	kill(t, first[1])
	awaitVoters(t, c, first[0], first[2], c.Servers[3])
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("one"))

	c.Restart(first[1]) // its zone has a voter now
	c.Await("it is back without a vote", func() bool {
		h := health(c, first[1])
		return h != nil && h.Healthy
	})
	awaitVoters(t, c, first[0], first[2], c.Servers[3])
}

func TestAutopilot_AServerThatNeverVotesFollows(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 1)
	c.Configure = neverVotes(c.Configure)
	reader := c.Add(0)
	c.Configure = func(*server.Config) {}
	late := c.Add(0)
	awaitVoters(t, c, c.Servers[0], late) // so a round has looked at the reader, too
	c.Await("the reader is healthy", func() bool {
		h := health(c, reader)
		return h != nil && h.Healthy && !h.Voter
	})
	cluster.Must(c, reader, structs.JobRegister, jobRequest("one"))
	c.CheckEqualStates()
}

// One server has another setting than the others. It is named while it follows and while it leads, and the
// health and the votes stay. A restart with the setting of the others ends the difference.
func TestAutopilot_NamesASettingThatOneServerHasAlone(t *testing.T) {
	t.Parallel()
	names := []string{"audit", "limits.http_max_conns", "tls.mode"} // of the agent, whatever they have
	set := func(value string) cluster.Option {
		return func(cfg *server.Config) {
			cfg.AgentSettings = map[string]string{}
			for _, name := range names {
				cfg.AgentSettings[name] = value
			}
		}
	}
	c := cluster.New(t, 3, rareElections, set("require"))
	awaitAllVote(t, c)
	odd := c.Others(c.Leader())[0]
	restart := func(mode string) {
		kill(t, odd)
		odd.Change(set(mode))
		c.Restart(odd)
	}
	differs := func() bool {
		resp := cluster.Must(c, c.Leader(), rows.AutopilotHealth, &structs.QueryRequest{})
		for _, d := range resp.Differences {
			for _, s := range d.Servers {
				alone := s.Server == odd.Current().Member().Name
				if !slices.Contains(names, d.Setting) || (s.Value == "prefer") != alone {
					t.Errorf("unexpected: %s", d)
				}
			}
		}
		return len(resp.Differences) == len(names) && resp.Healthy && len(resp.Voters) == 3
	}

	restart("prefer")
	c.Await("the leader names what a follower has", differs)
	c.Elect(odd)
	c.Await("it leads", func() bool { return odd.Leads() })
	c.Await("it names what it has itself", differs)

	restart("require")
	c.Await("there is no difference", func() bool {
		resp := cluster.Must(c, c.Leader(), rows.AutopilotHealth, &structs.QueryRequest{})
		return resp.Healthy && len(resp.Servers) == 3 && len(resp.Differences) == 0
	})
}
