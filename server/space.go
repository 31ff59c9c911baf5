package server

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/backoff"
	"berth/internal/files"
)

const (
	// spaceInterval is the time between two looks at the space of the log.
	spaceInterval = time.Second
	// waitingTimeout is the time without a heartbeat before an election of a server that must stand for none.
	waitingTimeout = 10 * time.Hour
)

// watchSpace makes the server wait while the disk has no space for its log, until ctx ends. A server that
// waits stands for no election: it could not store the first entry of a leader, and each attempt would end
// with another one in a higher term. It answers, votes and follows as before. One that leads goes on until a
// write fails, because reads need no space.
//
// A server that must not vote stands for no election either: it would lose each one, and log it all the time.
func (s *Server) watchSpace(ctx context.Context) {
	low := false
	quiet := false
	for ; ctx.Err() == nil; backoff.Sleep(ctx, spaceInterval) {
		log := s.consensus.files.Log
		s.noteSpace(ctx, log.TakeSpace())
		stays := s.Waits() != nil || s.consensus.held.Load()
		next := stays && s.consensus.State() != raft.Leader
		if next != quiet {
			err := s.setQuiet(next)
			if err != nil {
				s.logger.Warn("failed to change the timeouts of raft, retrying", "error", err)
				continue
			}
			quiet = next
		}

		was := low
		lack := log.LowSpace()
		low = lack != nil
		if low && !was && s.Waits() == nil {
			s.logger.Warn("little space on the disk: this server waits once the segment of its log is full",
				"error", lack, "disk", files.DescribeDisk(ctx, s.cfg.agentDir()))
		}
	}
}

// noteSpace notes why the log takes no entry, nil if it does.
func (s *Server) noteSpace(ctx context.Context, lack error) {
	waited := s.Waits() != nil
	switch {
	case lack == nil:
		s.waits.Store(nil)
		if waited {
			s.logger.Info("the disk has space for the log again")
		}
	default:
		s.waits.Store(&lack)
		if !waited {
			s.logger.Error("the disk is full, waiting for space for the log", "error", lack,
				"disk", files.DescribeDisk(ctx, s.cfg.agentDir()))
		}
	}
}

// setQuiet makes the server stand for no election, or for elections again: at once if there is no leader.
func (s *Server) setQuiet(quiet bool) error {
	usual := raftConfig(&s.cfg, s.consensus.id, s.logger)
	heartbeat := usual.HeartbeatTimeout
	election := usual.ElectionTimeout
	if quiet {
		heartbeat = waitingTimeout
		election = waitingTimeout
	}
	return s.consensus.reload(func(rc *raft.ReloadableConfig) {
		rc.HeartbeatTimeout = heartbeat
		rc.ElectionTimeout = election
	})
}

// Waits returns why the server waits for space on its disk, nil if it does not.
func (s *Server) Waits() error {
	lack := s.waits.Load()
	if lack == nil {
		return nil
	}
	return *lack
}

// agentDir returns the folder with all files of the agent.
func (c *Config) agentDir() string { return cmp.Or(c.AgentDir, c.DataDir) }
