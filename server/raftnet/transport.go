package raftnet

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Transport is the transport of Raft with six differences.
//
// Its pipelines end when Raft stops reading their answers. Raft reads answers until the first failure, and
// may send further entries before it notices. The sending and the receiving goroutine would then wait for
// each other without end: the follower would get only heartbeats, and the server could not shut down.
//
// It passes a heartbeat to Raft only while the gate is open. The goroutine of a connection handles it, for
// which Raft's shutdown does not wait, and Raft panics if it cannot store a new term in the closed files.
//
// It notes when the requests were sent that followers have answered, before Raft learns of the answers.
//
// It finds the followers that lack what they have acknowledged: see HasLost. The vote of such a server does
// not count.
//
// It keeps a server from elections that may be a copy of another one: see Hold.
type Transport struct {
	*raft.NetworkTransport
	gate     Gate
	contacts contacts
	losses   losses
	votes    votes
	hold     hold
}

// Gate is open until Raft ends.
type Gate interface {
	// Enter admits a call, which ends with leave. The error says that the gate is closed.
	Enter() (leave func(), err error)
}

// New makes the transport of a server.
func New(config *raft.NetworkTransportConfig, gate Gate, indexes Indexes) *Transport {
	return &Transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(config),
		gate:             gate,
		losses:           newLosses(indexes),
		votes:            votes{indexes: indexes, logger: config.Logger, told: map[raft.ServerID]uint64{}},
	}
}

// FollowedAfter reports whether a server has answered as a follower, in a term, a request that was sent to it
// after an instant.
func (t *Transport) FollowedAfter(id raft.ServerID, term uint64, instant time.Time) bool {
	return t.contacts.after(id, term, instant)
}

// AppendEntries implements raft.Transport.
func (t *Transport) AppendEntries(
	id raft.ServerID,
	target raft.ServerAddress,
	req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) error {
	sent := time.Now()
	err := t.NetworkTransport.AppendEntries(id, target, req, resp)
	if err == nil && resp.Success {
		t.contacts.note(id, req.Term, sent)
	}
	if err == nil {
		t.losses.note(id, req, resp)
	}
	return err
}

// SetHeartbeatHandler implements raft.Transport.
func (t *Transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		leave, err := t.gate.Enter()
		if err != nil {
			rpc.Respond(nil, raft.ErrRaftShutdown)
			return
		}
		defer leave()
		handle(rpc)
	})
}

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(
	id raft.ServerID,
	target raft.ServerAddress,
) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	p := &pipeline{
		AppendPipeline: inner,
		note: func(f raft.AppendFuture) {
			t.contacts.note(id, f.Request().Term, f.Start())
		},
		answered: func(f raft.AppendFuture) {
			t.losses.note(id, f.Request(), f.Response())
		},
		answers: make(chan raft.AppendFuture),
		closed:  make(chan struct{}),
	}
	p.forwards.Go(p.forward)
	return p, nil
}

// pipeline forwards answers. The first failure closes it.
type pipeline struct {
	raft.AppendPipeline
	note     func(raft.AppendFuture) // a request that was answered with success
	answered func(raft.AppendFuture) // any that was answered
	answers  chan raft.AppendFuture
	closed   chan struct{}
	once     sync.Once
	forwards sync.WaitGroup
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture {
	return p.answers
}

// Close implements raft.AppendPipeline. It ends the wait of the sender.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	err := p.AppendPipeline.Close()
	p.forwards.Wait()
	return err
}

// forward runs until the first failed answer, or until Close.
func (p *pipeline) forward() {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			last := f.Error() != nil ||
				!f.Response().Success ||
				f.Response().Term > f.Request().Term
			if f.Error() == nil {
				p.answered(f)
			}
			if last {
				_ = p.AppendPipeline.Close() // ends the wait of the sender; later answers are of no use
			} else {
				p.note(f)
			}

			select {
			case p.answers <- f:
			case <-p.closed:
				return
			}

			if last {
				return
			}

		case <-p.closed:
			return
		}
	}
}
