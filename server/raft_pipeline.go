package server

import (
	"sync"

	"github.com/hashicorp/raft"
)

// transport is Raft's own with pipelines that end when Raft stops listening to them. Raft takes answers until
// the first that is not a success, and may have entries to send before it notices that nobody takes answers
// any more. Those who send and those who receive would then wait for each other for ever: the follower would
// be sent nothing more but heartbeats as long as the leader leads, and the server could not be shut down.
type transport struct{ *raft.NetworkTransport }

// AppendEntriesPipeline implements raft.Transport.
func (t transport) AppendEntriesPipeline(id raft.ServerID,
	target raft.ServerAddress,
) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
	p.forwards.Go(p.forward)
	return p, nil
}

// pipeline passes answers on and is closed by the first that is not a success.
type pipeline struct {
	raft.AppendPipeline
	answers  chan raft.AppendFuture
	closed   chan struct{}
	once     sync.Once
	forwards sync.WaitGroup
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close implements raft.AppendPipeline: who sends is told that it has ended.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	err := p.AppendPipeline.Close()
	p.forwards.Wait()
	return err
}

// forward lives until the first answer that is not a success, or Close.
func (p *pipeline) forward() {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			last := f.Error() != nil || !f.Response().Success || f.Response().Term > f.Request().Term
			if last {
				_ = p.AppendPipeline.Close() // lets go of those who send; what the other side has yet to say is of no use
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
