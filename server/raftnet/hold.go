package raftnet

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"berth/structs"
)

// hold keeps a server from elections: it asks for no votes, and gives none. It follows a leader.
type hold struct {
	held   atomic.Bool
	passed chan raft.RPC
	closed chan struct{}
	once   sync.Once
	passes sync.WaitGroup
}

// errHeld is the answer of a server that gives no vote.
var errHeld = structs.NotServedf("this server has no vote: its data directory is from another machine")

// Hold keeps this server from elections until Release. Call it before Raft starts.
func (t *Transport) Hold() {
	t.hold.passed = make(chan raft.RPC)
	t.hold.closed = make(chan struct{})
	t.hold.held.Store(true)
	t.hold.passes.Go(t.pass)
}

// Release ends Hold.
func (t *Transport) Release() { t.hold.held.Store(false) }

// pass passes the requests of other servers to Raft, without requests of elections while this server is held.
func (t *Transport) pass() {
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			if t.hold.held.Load() && isOfElection(rpc.Command) {
				rpc.Respond(nil, errHeld)
				continue
			}
			select {
			case t.hold.passed <- rpc:
			case <-t.hold.closed:
				return
			}
		case <-t.hold.closed:
			return
		}
	}
}

func isOfElection(command any) bool {
	switch command.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest, *raft.TimeoutNowRequest:
		return true
	}
	return false
}

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC {
	if t.hold.passed == nil {
		return t.NetworkTransport.Consumer()
	}
	return t.hold.passed
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(id raft.ServerID, target raft.ServerAddress,
	req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	if t.hold.held.Load() {
		return errHeld
	}
	err := t.NetworkTransport.RequestVote(id, target, req, resp)
	resp.Granted = err == nil && resp.Granted && t.votes.count(id, target)
	return err
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress,
	req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	if t.hold.held.Load() {
		return errHeld
	}
	err := t.NetworkTransport.RequestPreVote(id, target, req, resp)
	resp.Granted = err == nil && resp.Granted && t.votes.count(id, target)
	return err
}

// Close implements raft.WithClose.
func (t *Transport) Close() error {
	err := t.NetworkTransport.Close()
	if t.hold.closed != nil {
		t.hold.once.Do(func() { close(t.hold.closed) })
		t.hold.passes.Wait()
	}
	return err
}
