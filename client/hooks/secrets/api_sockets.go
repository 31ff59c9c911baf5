package secrets

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/netutil"

	"berth/client/allocrunner/taskdirs"
	"berth/client/hooks"
	"berth/structs"
)

// maxConnections bounds the connections of one socket. Further ones wait to be accepted.
const maxConnections = 64

// The times of connections, as at the port of the API.
const (
	headTime  = 10 * time.Second
	idleTime  = 2 * time.Minute
	drainTime = 5 * time.Second
)

// APISockets has the API sockets of all tasks of a node: each is in the directory of the task's secrets and
// speaks the HTTP API of the agent. A task reaches the API there in any network and with any root.
//
// The user of the task alone may enter the directory, so the socket needs no mode that keeps others out. A
// request over it has no right of root on the machine: it is none of the operator socket, and the handler
// decides by its token. An agent that ends leaves the files, and the next one makes the sockets anew.
type APISockets struct {
	logger  hclog.Logger
	handler atomic.Pointer[http.Handler]

	mu     sync.Mutex
	closed bool
	open   map[string]*apiSocket // by the directory of secrets
}

// NewAPISockets returns APISockets without a handler: see Serve.
func NewAPISockets(logger hclog.Logger) *APISockets {
	return &APISockets{
		logger: logger.Named("task_api"),
		open:   map[string]*apiSocket{},
	}
}

// Serve sets the handler of all requests. Before it they are answered as unavailable.
func (s *APISockets) Serve(handler http.Handler) { s.handler.Store(&handler) }

// ServeHTTP implements http.Handler.
func (s *APISockets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := s.handler.Load()
	if handler == nil {
		http.Error(w, "the agent starts", http.StatusServiceUnavailable)
		return
	}
	(*handler).ServeHTTP(w, r)
}

// Run closes all sockets when ctx has ended, and waits for their requests.
func (s *APISockets) Run(ctx context.Context) {
	<-ctx.Done()
	s.mu.Lock()
	// listen opens none any more.
	s.closed = true
	all := s.open
	s.open = map[string]*apiSocket{}
	s.mu.Unlock()
	for _, one := range all {
		one.close()
	}
}

// apiSocket is one that accepts.
type apiSocket struct {
	server *http.Server
	cancel context.CancelFunc // of its requests
	served sync.WaitGroup
}

// listen opens the socket in a directory of secrets, unless it is open.
func (s *APISockets) listen(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.open[dir] != nil {
		return nil
	}

	ln, err := listenIn(dir)
	if err != nil {
		return err
	}

	s.open[dir] = s.serve(ln)
	return nil
}

// serve serves the API on a listener.
func (s *APISockets) serve(ln net.Listener) *apiSocket {
	ctx, cancel := context.WithCancel(context.Background())
	atDebug := &hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}
	one := &apiSocket{
		cancel: cancel,
		server: &http.Server{
			Handler:           s,
			MaxHeaderBytes:    structs.MaxHTTPHead,
			ReadHeaderTimeout: headTime,
			IdleTimeout:       idleTime,
			BaseContext:       func(net.Listener) context.Context { return ctx },
			ErrorLog:          s.logger.StandardLogger(atDebug),
		},
	}

	one.served.Go(func() {
		err := one.server.Serve(netutil.LimitListener(ln, maxConnections))
		if !errors.Is(err, http.ErrServerClosed) {
			s.logger.Error("the socket of a task failed", "error", err)
		}
	})
	return one
}

// close ends the socket and its requests, and waits for them.
func (o *apiSocket) close() {
	o.cancel() // blocking queries end
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	err := o.server.Shutdown(ctx)
	if err != nil {
		_ = o.server.Close()
	}
	o.served.Wait()
}

// remove closes the socket in a directory and removes its file.
func (s *APISockets) remove(dir string) error {
	s.mu.Lock()
	one := s.open[dir]
	delete(s.open, dir)
	s.mu.Unlock()
	// Without the lock, because this waits for the requests.
	if one != nil {
		one.close()
	}
	return removeIn(dir)
}

// apiHook is the one of one task.
type apiHook struct {
	of  *APISockets
	dir string
}

// Hook returns the hook of a task.
func (s *APISockets) Hook(env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	return &apiHook{s, taskdirs.Secrets(env.Dir, task.Name)}
}

// Name implements hooks.Task.
func (*apiHook) Name() string { return "api_socket" }

// Up opens the socket, also for a process that runs since before the agent restarted.
func (h *apiHook) Up(context.Context, *hooks.TaskEnv) error { return h.of.listen(h.dir) }

// Down closes the socket and removes its file.
func (h *apiHook) Down(context.Context) error { return h.of.remove(h.dir) }
