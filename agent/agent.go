package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/client"
	"berth/internal/telemetry"
	"berth/internal/version"
	"berth/rpc"
	"berth/server"
	"berth/structs"
)

// drainTimeout is how long requests under way may take to end when the agent stops. Blocking queries are
// ended at once.
const drainTimeout = 5 * time.Second

// Agent is one process. New opens what it needs, Run lives it.
type Agent struct {
	cfg    Config
	logger hclog.Logger
	server *server.Server // nil on a pure client
	client *client.Client // nil on a pure server
	caller rpc.Caller
	ln     net.Listener
	// metrics is ended last: every other part emits through it.
	metrics *telemetry.Telemetry
	http    *http.Server

	leaving sync.Mutex    // held while the server leaves
	left    chan struct{} // closed when the server has left and the agent is to end
}

// New opens the server and the node that cfg asks for and the HTTP port. cfg must be finished.
func New(cfg Config, logger hclog.Logger) (*Agent, error) {
	if err := os.MkdirAll(cfg.DataDir, 0o711); err != nil {
		return nil, structs.Errorf(structs.KindInternal, "data_dir: %w", err)
	}
	ln, err := net.Listen("tcp", cfg.bind(cfg.Addresses.HTTP, cfg.Ports.HTTP))
	if err != nil {
		return nil, structs.Errorf(structs.KindInternal, "listening for HTTP: %w", err)
	}
	gathered, err := telemetry.Start(cfg.Telemetry) // before the log is opened: it keeps where its metrics go
	if err != nil {
		return nil, errors.Join(structs.Errorf(structs.KindInvalid, "%w", err), ln.Close())
	}
	a := &Agent{cfg: cfg, logger: logger, ln: ln, metrics: gathered, left: make(chan struct{})}
	if err := a.open(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	a.http = &http.Server{
		Handler: api.NewHandler(api.Config{Caller: a.caller, Agent: local{a}, Logger: logger.Named("http"),
			AllowedHosts: cfg.httpHosts()}),
		MaxHeaderBytes: structs.MaxHTTPHead,
		ErrorLog: logger.Named("http").StandardLogger(
			&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	cfg.Limits.bound(a.http)
	return a, nil
}

// close closes what was opened and is never to run.
func (a *Agent) close() error {
	err := a.ln.Close()
	if a.server != nil {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		err = errors.Join(err, a.server.Run(ended))
	}
	a.metrics.Close()
	return err
}

func (a *Agent) open() (err error) {
	httpAddr := a.advertisedHTTP()
	if a.cfg.Server.Enabled {
		sc := a.cfg.Server
		sc.Version, sc.HTTPAdvertise = version.Version, httpAddr
		if a.server, err = server.New(sc, a.logger.Named("server")); err != nil {
			return err
		}
		a.caller = a.server
	}
	if !a.cfg.Client.Enabled {
		return nil
	}
	cc := *a.cfg.Client
	cc.HTTPAddr, cc.Version = httpAddr, version.Version
	if a.server != nil {
		cc.Servers = []string{a.server.RPCAddr()}
	}
	if a.client, err = client.New(&cc, client.Deps{Logger: a.logger}); err != nil {
		return err
	}
	if a.caller == nil {
		a.caller = a.client.Caller()
	}
	return nil
}

// advertisedHTTP is where others reach the HTTP API, with the port that was really bound.
func (a *Agent) advertisedHTTP() string {
	port := a.ln.Addr().(*net.TCPAddr).Port
	if addr := a.cfg.advertise(a.cfg.Advertise.HTTP, port); addr != "" {
		return addr
	}
	return a.HTTPAddr()
}

// HTTPAddr is the address the HTTP API is bound to.
func (a *Agent) HTTPAddr() string {
	addr := a.ln.Addr().(*net.TCPAddr)
	ip := addr.IP
	if ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	return net.JoinHostPort(ip.String(), strconv.Itoa(addr.Port))
}

// Run lives until ctx ends, the server has left the cluster, or a part of the agent fails: then it stops the
// others and returns why.
func (a *Agent) Run(ctx context.Context) error {
	ended := make(chan error, 4)
	defer a.metrics.Close()
	stops := []func(){start(func(ctx context.Context) error { a.metrics.Run(ctx); return nil }, ended)}
	if a.server != nil {
		stops = append(stops, start(a.server.Run, ended))
	}
	if a.client != nil {
		stops = append(stops, start(func(ctx context.Context) error { a.client.Run(ctx); return nil }, ended))
	}
	stops = append(stops, start(a.serveHTTP, ended))
	var err error
	select {
	case <-ctx.Done():
	case <-a.left:
	case err = <-ended:
	}
	for _, stop := range slices.Backward(stops) {
		stop()
	}
	for len(ended) > 0 {
		err = errors.Join(err, <-ended)
	}
	return err
}

// start runs a part of the agent, which tells how it ended; the function it returns ends it and waits.
func start(run func(context.Context) error, ended chan<- error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var part sync.WaitGroup
	part.Go(func() { ended <- run(ctx) })
	return func() {
		cancel()
		part.Wait()
	}
}

// serveHTTP serves until ctx ends; requests see it, so that blocking queries end then.
func (a *Agent) serveHTTP(ctx context.Context) error {
	a.http.BaseContext = func(net.Listener) context.Context { return ctx }
	drained := make(chan struct{})
	stopped := context.AfterFunc(ctx, func() {
		defer close(drained)
		drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		if a.http.Shutdown(drain) != nil {
			_ = a.http.Close()
		}
	})
	err := a.http.Serve(a.ln)
	if stopped() {
		return err // by itself
	}
	<-drained
	return nil
}
