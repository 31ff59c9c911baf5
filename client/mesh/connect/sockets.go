package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"

	"berth/client/allocrunner/taskdirs"
	"berth/consul/mesh"
	"berth/internal/backoff"
)

// maxConnections bounds the connections of one socket. Further ones wait to be accepted.
const maxConnections = 256

// dialTimeout bounds a connection to Consul.
const dialTimeout = 5 * time.Second

// Dial connects to an address of Consul.
type Dial func(ctx context.Context) (net.Conn, error)

// Sockets leads tasks in a network namespace to the Consul of their node: it listens on sockets in the
// directory that the tasks of an allocation share, and passes each connection on. A proxy of the service mesh
// reaches Consul by no other way, because Consul listens on a loopback interface that the namespace does not
// have.
//
// The sockets carry bytes. Consul decides by the token of each request.
type Sockets struct {
	logger hclog.Logger
	dials  map[string]Dial // by socket

	mu     sync.Mutex
	closed bool
	open   map[string][]*socket // by allocation
}

// NewSockets returns Sockets that lead to the addresses of Consul for HTTP and gRPC.
func NewSockets(http, grpc Dial, logger hclog.Logger) *Sockets {
	return &Sockets{
		logger: logger.Named("consul_socket"),
		dials:  map[string]Dial{mesh.HTTPSocket: http, mesh.GRPCSocket: grpc},
		open:   map[string][]*socket{},
	}
}

// Run closes all sockets when ctx has ended, and waits for their connections. The files stay for the next
// agent, which replaces them.
func (s *Sockets) Run(ctx context.Context) {
	<-ctx.Done()
	s.mu.Lock()
	// listen opens none any more.
	s.closed = true
	all := s.open
	s.open = nil
	s.mu.Unlock()
	// Without the lock, because this waits for the connections.
	for _, sockets := range all {
		closeAll(sockets)
	}
}

// listen opens the sockets of an allocation, unless they are open.
func (s *Sockets) listen(allocID, dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.open[allocID] != nil {
		return nil
	}
	var opened []*socket
	for name, dial := range s.dials {
		ln, err := listenAt(dir, taskdirs.Shared(dir), name)
		if err != nil {
			closeAll(opened)
			return err
		}
		opened = append(opened, s.serve(ln, dial, s.logger.With("alloc_id", allocID, "socket", name)))
	}
	s.open[allocID] = opened
	return nil
}

// remove closes the sockets of an allocation and removes their files.
func (s *Sockets) remove(allocID, dir string) error {
	s.mu.Lock()
	opened := s.open[allocID]
	delete(s.open, allocID)
	s.mu.Unlock()
	// Without the lock, because this waits for the connections.
	closeAll(opened)
	var faults []error
	for name := range s.dials {
		faults = append(faults, removeAt(taskdirs.Shared(dir), name))
	}
	return errors.Join(faults...)
}

// socket is one that accepts.
type socket struct {
	ln     net.Listener
	dial   Dial
	logger hclog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	slots  *semaphore.Weighted
	all    sync.WaitGroup
}

func (s *Sockets) serve(ln net.Listener, dial Dial, logger hclog.Logger) *socket {
	k := &socket{
		ln:     ln,
		dial:   dial,
		logger: logger,
		slots:  semaphore.NewWeighted(maxConnections),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.all.Go(k.accept)
	return k
}

func closeAll(sockets []*socket) {
	for _, k := range sockets {
		k.cancel()
		_ = k.ln.Close()
	}
	for _, k := range sockets {
		k.all.Wait()
	}
}

// accept passes connections on until the socket is closed.
func (k *socket) accept() {
	pause := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	// The slot comes first, so that further connections wait in the kernel.
	for k.slots.Acquire(k.ctx, 1) == nil {
		conn, err := k.ln.Accept()
		if err != nil {
			k.slots.Release(1)
			backoff.Sleep(k.ctx, pause.Next()) // for example too many open files
			continue
		}
		pause.Reset()
		k.all.Go(func() {
			defer k.slots.Release(1)
			defer func() { _ = conn.Close() }()
			k.pass(conn)
		})
	}
}

// pass connects a connection with Consul until both directions have ended.
func (k *socket) pass(conn net.Conn) {
	ctx, cancel := context.WithTimeout(k.ctx, dialTimeout)
	defer cancel()
	consul, err := k.dial(ctx)
	if err != nil {
		k.logger.Debug("a task cannot reach Consul", "error", err)
		return
	}
	defer func() { _ = consul.Close() }()
	// A copy ends only with its connections.
	defer context.AfterFunc(k.ctx, func() {
		_ = conn.Close()
		_ = consul.Close()
	})()
	var there sync.WaitGroup
	there.Go(func() { transfer(consul, conn) })
	transfer(conn, consul)
	there.Wait()
}

// transfer copies one direction and passes its end on. An error ends both directions.
func transfer(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err == nil && ok && half.CloseWrite() == nil {
		return
	}
	_ = to.Close()
	_ = from.Close()
}
