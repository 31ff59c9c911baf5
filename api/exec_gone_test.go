package api_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
)

// pipes is a network without sockets, for virtual time.
type pipes struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), end: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.end) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// The session does not read from a user whose input the command does not take, and notices nevertheless that
// the user has gone. Otherwise the command and its session would stay.
func TestExec_EndsWithAUserWhoseInputNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s := &server{agent: newAgent()}
		command := newUntilDone()
		runsCommands(s, command.run)
		var sessions sync.WaitGroup
		h := api.NewHandler(api.Config{
			Routes:   areas.Routes(),
			Caller:   &apitest.Caller{},
			Agent:    s.agent,
			Logger:   hclog.NewNullLogger(),
			Sessions: &sessions,
		})
		agent := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(ctx))
		})}
		listener := newPipes()
		go func() { _ = agent.Serve(listener) }()
		defer agent.Close()
		here, there := net.Pipe()
		network := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			listener.conns <- there
			return here, nil
		}}
		ws, _, err := websocket.Dial(ctx, "ws://localhost"+execPath(`["sleep"]`),
			&websocket.DialOptions{HTTPClient: &http.Client{Transport: network}})
		if err != nil {
			t.Fatal(err)
		}
		input := []byte(`{"stdin":{"data":"aGk="}}`)
		if err := ws.Write(ctx, websocket.MessageText, input); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_ = here.Close()
		_ = ws.CloseNow()
		select {
		case <-command.ended:
		case <-time.After(time.Minute):
			t.Error("the command runs a minute after its user has gone")
		}
		stop()
		sessions.Wait()
	})
}
