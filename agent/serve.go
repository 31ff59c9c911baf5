package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/hashicorp/go-hclog"

	"berth/internal/opsocket"
	"berth/structs"
)

// apiServer serves the HTTP API on one listener. The operator socket has a server of its own, so that it
// accepts root while the port has all the connections that it may have.
type apiServer struct {
	http *http.Server
	ln   net.Listener
	// mark returns the parent of the contexts of requests.
	mark func(context.Context) context.Context
}

// newAPIServers returns the servers of the port and of the operator socket.
func (a *Agent) newAPIServers(handler http.Handler, logger hclog.Logger) []*apiServer {
	onPort := func(ctx context.Context) context.Context { return ctx }
	servers := []*apiServer{{ln: a.socket, mark: opsocket.Mark}}
	for _, ln := range a.openPort() {
		servers = append(servers, &apiServer{ln: ln, mark: onPort})
	}

	limits := a.config().Limits
	atDebug := &hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}
	for _, s := range servers {
		s.http = &http.Server{
			Handler:        handler,
			MaxHeaderBytes: structs.MaxHTTPHead,
			// The library logs each fault of a client, which would let anybody fill the log.
			ErrorLog: logger.StandardLogger(atDebug),
		}

		// Each server has bounds of its own, so that callers of the port cannot use up the socket's.
		limits.bound(s.http)
	}

	return servers
}

// serve serves until ctx ends. ctx is the parent of the requests' contexts, so blocking queries end with it.
func (s *apiServer) serve(ctx context.Context) error {
	s.http.BaseContext = func(net.Listener) context.Context { return s.mark(ctx) }
	drained := make(chan struct{})
	stopped := context.AfterFunc(ctx, func() {
		defer close(drained)
		drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()

		// Requests that are still in flight after the time lose their connections.
		if s.http.Shutdown(drain) != nil {
			_ = s.http.Close()
		}
	})

	err := s.http.Serve(s.ln)
	if stopped() {
		return err // ctx has not ended
	}

	// Serve returns when Shutdown begins. The requests end after that.
	<-drained
	return nil
}

// serveHTTP serves the API on the port and on the operator socket until ctx ends or one of them fails.
func (a *Agent) serveHTTP(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// Each goroutine writes its own element, and Wait orders them before the read.
	faults := make([]error, len(a.apis))
	var splitFault error
	var serving sync.WaitGroup
	if a.splitter != nil {
		serving.Go(func() {
			defer cancel()
			splitFault = a.splitter.Run(ctx)
		})
	}

	for i, s := range a.apis {
		serving.Go(func() {
			defer cancel()
			faults[i] = s.serve(ctx)
		})
	}

	serving.Wait()
	a.sessions.Wait() // their contexts have ended
	return errors.Join(append(faults, splitFault)...)
}
