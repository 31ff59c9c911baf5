package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/coalesce"
	"berth/server/raftfiles"
	"berth/server/raftnet"
	"berth/structs"
)

// enqueueTimeout bounds the wait of an entry for a position in Raft's queue.
const enqueueTimeout = 10 * time.Second

// consensus is Raft with its files.
type consensus struct {
	*raft.Raft
	gate
	files     *raftfiles.Files
	transport *raftnet.Transport
	id        raft.ServerID
	addr      raft.ServerAddress
	batcher   *batcher
	// verifier merges concurrent questions whether this server still leads. A question that comes while one
	// is in flight shares the answer of the next one, which begins after it came.
	verifier  coalesce.Batcher[struct{}, struct{}]
	reloading sync.Mutex        // held while the settings of Raft change
	machine   structs.MachineID // on which this server runs
	stored    indexes
	// held is true while this server must not vote: see agentproof.MayVote.
	held atomic.Bool
	// fresh is true if this server has never been part of a cluster.
	fresh bool
}

func (s *Server) openRaft() (*consensus, error) {
	logger := s.logger.Named("raft")
	files, err := raftfiles.Open(raftfiles.Options{
		DataDir: s.cfg.DataDir,
		ID:      s.id,
		Logger:  logger,
		// Raft would panic, and a server that continues would answer from a state that it cannot replicate.
		// Tasks and mounts of a node in the same process stay as they are, as after any end of the agent.
		Fatal: func(err error) {
			logger.Error("storage failed, stopping the server", "error", err)
			os.Exit(1)
		},
	})
	if err != nil {
		return nil, err
	}

	c := &consensus{
		files: files,
		id:    raft.ServerID(s.id),
		addr:  raft.ServerAddress(s.addr),

		machine: s.cfg.machine(),
		stored:  indexes{s: s},
	}

	c.transport = raftnet.New(&raft.NetworkTransportConfig{
		Stream:  s.layer,
		MaxPool: 3,
		Timeout: 10 * time.Second,
		Logger:  logger.Named("transport"),
	}, &c.gate, &c.stored)

	c.verifier.Propose = func(context.Context, struct{}, []struct{}) (uint64, error) {
		return 0, c.confirm()
	}

	c.batcher = newBatcher(c.send)
	machine := fsm.New(s.store).Observe(s.events).Mark(s.cfg.digestEvery(), s.digests.take)
	err = c.startRaft(&s.cfg, machine, logger)
	if err != nil {
		return nil, errors.Join(err, c.transport.Close(), files.Close())
	}

	return c, nil
}

func (c *consensus) startRaft(
	cfg *Config,
	machine raft.FSM,
	logger hclog.Logger,
) (err error) {
	// Raft panics if it cannot read a file that it has just found.
	defer func() {
		if r := recover(); r != nil {
			err = structs.Internalf("starting Raft on %s: %v", cfg.DataDir, r)
		}
	}()

	log := c.files.Log
	snapshots := c.files.Snapshots
	has, err := raft.HasExistingState(log, log, snapshots)
	if err != nil {
		return fmt.Errorf("reading the Raft log: %w", err)
	}

	c.fresh = !has
	err = c.recoverPeers(cfg, logger)
	if err != nil {
		return err
	}

	err = writePeersInfo(cfg.DataDir, string(c.id), string(c.addr))
	if err != nil { // a full disk does not keep a server from starting
		logger.Warn("failed to write the explanation of peers.json", "error", err)
	}

	err = c.hold(cfg.DataDir)
	if err != nil {
		return err
	}

	err = c.stored.readLog(log)
	if err != nil {
		return fmt.Errorf("reading the Raft log: %w", err)
	}

	rc := raftConfig(cfg, c.id, logger)
	c.Raft, err = raft.NewRaft(rc, machine, log, log, snapshots, c.transport)
	if err != nil {
		return fmt.Errorf("starting Raft on %s: %w", cfg.DataDir, err)
	}

	log.Serve()
	return errors.Join(c.judgeStart(cfg.DataDir, logger), c.electAlone())
}

// electAlone makes a server that is the only voter stand for election now. Nobody else can send the
// heartbeats for which it would wait otherwise.
func (c *consensus) electAlone() error {
	f := c.GetConfiguration()
	err := f.Error()
	if err != nil {
		return fmt.Errorf("reading the servers of the cluster: %w", err)
	}

	if !isOnlyVoter(f.Configuration().Servers, c.id) {
		return nil
	}

	// Raft looks at its timer at once when the timeout becomes shorter.
	return errors.Join(
		c.reload(func(rc *raft.ReloadableConfig) {
			rc.HeartbeatTimeout *= 2
			rc.ElectionTimeout *= 2
		}),
		c.reload(func(rc *raft.ReloadableConfig) {
			rc.HeartbeatTimeout /= 2
			rc.ElectionTimeout /= 2
		}),
	)
}

// reload changes the settings of Raft while it runs.
func (c *consensus) reload(change func(*raft.ReloadableConfig)) error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	rc := c.ReloadableConfig()
	change(&rc)
	return c.ReloadConfig(rc)
}

// isOnlyVoter reports whether a server has the only vote.
func isOnlyVoter(servers []raft.Server, id raft.ServerID) bool {
	var voters []raft.ServerID
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			voters = append(voters, s.ID)
		}
	}
	return slices.Equal(voters, []raft.ServerID{id})
}

// raftTimeout is the time without a heartbeat before an election, with a raft_multiplier of 1. With a
// second, writes stood still for 2.5 s after the loss of a leader (docs/reliability.md).
const raftTimeout = 700 * time.Millisecond

func raftConfig(cfg *Config, id raft.ServerID, logger hclog.Logger) *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = id
	rc.Logger = logger
	rc.HeartbeatTimeout = raftTimeout
	rc.ElectionTimeout = raftTimeout
	if cfg.RaftTimeout > 0 {
		rc.HeartbeatTimeout = cfg.RaftTimeout
		rc.ElectionTimeout = cfg.RaftTimeout
		rc.LeaderLeaseTimeout = cfg.RaftTimeout
	}

	scale := time.Duration(cfg.RaftMultiplier)
	rc.HeartbeatTimeout *= scale
	rc.ElectionTimeout *= scale
	rc.LeaderLeaseTimeout *= scale
	rc.BatchApplyCh = true
	rc.NoLegacyTelemetry = true // names with the peer in a label, not in the name
	rc.MaxAppendEntries = 256
	rc.SnapshotThreshold = cfg.SnapshotThreshold
	rc.TrailingLogs = cfg.TrailingLogs
	return rc
}

// gate counts the calls of Raft, and the heartbeats that it handles. After its shutdown Raft answers no call,
// not even one that it has queued. So shut admits no further call and waits for those in flight.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup // calls in flight
}

// enter admits a call, which ends with inside.Done. The error is unavailable once the gate is shut.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return structs.NotServedf("the log entry was not written: this server is shutting down")
	}
	g.inside.Add(1)
	return nil
}

// Enter implements raftnet.Gate.
func (g *gate) Enter() (leave func(), err error) {
	err = g.enter()
	return g.inside.Done, err
}

func (g *gate) shut() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}

// close ends Raft, its connections and then its files.
func (c *consensus) close() error {
	c.files.Log.StopWaiting() // also after a start that failed
	c.shut()
	defer c.transport.CloseStreams() // Close leaves them open
	return errors.Join(
		c.Shutdown().Error(),
		c.transport.Close(),
		c.files.Close(),
	)
}

// members lists the Raft configuration, which Raft has in memory. There is no error.
func (c *consensus) members() []raft.Server {
	return c.GetConfiguration().Configuration().Servers
}
