package raftnet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plainLayer is TCP on loopback (raft.StreamLayer).
type plainLayer struct{ net.Listener }

func (plainLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(addr), timeout)
}

func plainTransport(t *testing.T) *raft.NetworkTransport {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := raft.NewNetworkTransport(plainLayer{ln}, 3, time.Minute, io.Discard)
	t.Cleanup(func() {
		n.CloseStreams() // Close leaves the pooled ones open
		_ = n.Close()
	})
	return n
}

// testGate is a gate that a test closes. Its end waits for the calls inside.
type testGate struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

func (g *testGate) Enter() (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errors.New("closed")
	}
	g.inside.Add(1)
	return g.inside.Done, nil
}

func (g *testGate) shut() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}

func newTransport(t *testing.T) *Transport {
	return &Transport{
		losses:           newLosses(known{}),
		NetworkTransport: plainTransport(t),
		gate:             new(testGate),
	}
}

// follower answers the first entries with success.
func follower(t *testing.T, successes int) *raft.NetworkTransport {
	t.Helper()
	n := plainTransport(t)
	end := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case rpc := <-n.Consumer():
				successes--
				rpc.Respond(&raft.AppendEntriesResponse{Term: 1, Success: successes >= 0}, nil)
			case <-end:
				return
			}
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
	return n
}

func TestPipeline_EndsWithTheFirstFailedAnswer(t *testing.T) {
	f := follower(t, 2)
	p, err := newTransport(t).AppendEntriesPipeline("f", f.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan int, 1)
	go func() { // like Raft's loop, which notices late that the reader of answers is gone
		n := 0
		for _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1},
			new(raft.AppendEntriesResponse)); err == nil; n++ {
			_, err = p.AppendEntries(&raft.AppendEntriesRequest{Term: 1}, new(raft.AppendEntriesResponse))
		}
		sent <- n
	}()
	for i := range 3 {
		select {
		case got := <-p.Consumer():
			if got.Response().Success != (i < 2) {
				t.Errorf("answer %d: %+v", i, got.Response())
			}
		case <-time.After(time.Minute):
			t.Fatalf("no answer %d", i)
		}
	}
	select { // without a reader
	case n := <-sent:
		t.Logf("sent %d", n)
	case <-time.After(time.Minute):
		t.Fatal("sender does not return")
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPipeline_CloseReleasesSenders(t *testing.T) {
	f := follower(t, 1<<30)
	p, err := newTransport(t).AppendEntriesPipeline("f", f.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = p.AppendEntries(&raft.AppendEntriesRequest{Term: 1}, new(raft.AppendEntriesResponse))
		}
		sent <- err
	}()
	<-p.Consumer()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	<-sent
}

// A heartbeat that is handled delays the end of Raft's files, and a later one does not reach Raft.
func TestTransport_PassesHeartbeatsOnWhileTheGateIsOpen(t *testing.T) {
	var g testGate
	n := plainTransport(t)
	begun := make(chan struct{})
	end := make(chan struct{})
	(&Transport{NetworkTransport: n, gate: &g}).SetHeartbeatHandler(func(rpc raft.RPC) {
		close(begun)
		<-end
		rpc.Respond(&raft.AppendEntriesResponse{Term: 7}, nil)
	})
	beat := func() (answer raft.AppendEntriesResponse, err error) {
		leader := plainTransport(t)
		addr := []byte(leader.LocalAddr())
		req := &raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{Addr: addr},
			Term:      7,
		}
		err = leader.AppendEntries("f", n.LocalAddr(), req, &answer)
		return answer, err
	}
	answered := make(chan error, 1)
	go func() {
		answer, err := beat()
		if err == nil && answer.Term != 7 {
			err = fmt.Errorf("the answer is %+v", answer)
		}
		answered <- err
	}()
	<-begun
	shut := make(chan struct{})
	go func() {
		g.shut()
		close(shut)
	}()
	select {
	case <-shut:
		t.Error("the gate is shut while Raft handles a heartbeat")
	case <-time.After(50 * time.Millisecond):
	}
	close(end)
	<-shut
	if err := <-answered; err != nil {
		t.Error(err)
	}
	_, err := beat()
	if err == nil || !strings.Contains(err.Error(), raft.ErrRaftShutdown.Error()) {
		t.Errorf("a heartbeat at a closed gate: %v", err)
	}
}
