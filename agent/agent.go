package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/client"
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
	http   *http.Server
}

// New opens the server and the node that cfg asks for and the HTTP port. cfg must be finished.
func New(cfg Config, logger hclog.Logger) (_ *Agent, err error) {
	a := &Agent{cfg: cfg, logger: logger}
	if err := os.MkdirAll(cfg.DataDir, 0o711); err != nil {
		return nil, structs.Errorf(structs.KindInternal, "data_dir: %w", err)
	}
	if a.ln, err = net.Listen("tcp", cfg.bind(cfg.Addresses.HTTP, cfg.Ports.HTTP)); err != nil {
		return nil, structs.Errorf(structs.KindInternal, "listening for HTTP: %w", err)
	}
	defer func() {
		if err != nil {
			_ = a.ln.Close()
		}
	}()
	if err := a.open(); err != nil {
		return nil, errors.Join(err, a.closeServer())
	}
	return a, a.openHTTP()
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
	cc := a.cfg.Client.Copy()
	cc.HTTPAddr, cc.Version = httpAddr, version.Version
	if a.server != nil {
		cc.Servers = []string{a.server.RPCAddr()}
	}
	if a.client, err = client.New(cc, client.Deps{Logger: a.logger}); err != nil {
		return err
	}
	if a.caller == nil {
		a.caller = a.client.Caller()
	}
	return nil
}

// closeServer releases what a server took that is not going to run.
func (a *Agent) closeServer() error {
	if a.server == nil {
		return nil
	}
	ended, end := context.WithCancel(context.Background())
	end()
	return a.server.Run(ended)
}

// openHTTP makes the HTTP server; requests see a context that ends when the agent stops.
func (a *Agent) openHTTP() error {
	a.http = &http.Server{
		Handler:           api.NewHandler(api.Config{Caller: a.caller, Agent: local{a}, Logger: a.logger.Named("http")}),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          a.logger.Named("http").StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
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

// Run lives until ctx ends, or until a part of the agent fails: then it stops the others and returns why.
func (a *Agent) Run(ctx context.Context) error {
	serverCtx, stopServer := context.WithCancel(context.Background())
	clientCtx, stopClient := context.WithCancel(context.Background())
	defer stopServer()
	defer stopClient()
	failed := make(chan error, 2)
	var servers, clients, web sync.WaitGroup
	if a.server != nil {
		servers.Go(func() { failed <- a.server.Run(serverCtx) })
	}
	if a.client != nil {
		clients.Go(func() { a.client.Run(clientCtx) })
	}
	base, endRequests := context.WithCancel(context.Background())
	defer endRequests()
	a.http.BaseContext = func(net.Listener) context.Context { return base }
	web.Go(func() {
		if err := a.http.Serve(a.ln); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	})

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	endRequests()
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if a.http.Shutdown(drain) != nil {
		_ = a.http.Close()
	}
	web.Wait()
	stopClient()
	clients.Wait()
	stopServer()
	servers.Wait()
	for len(failed) > 0 {
		err = errors.Join(err, <-failed)
	}
	return err
}
