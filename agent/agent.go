package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/agent/certificate"
	"berth/api"
	"berth/api/areas"
	"berth/client"
	"berth/client/hooks/secrets"
	"berth/consul"
	"berth/endpoints/rights"
	"berth/internal/auditlog"
	"berth/internal/opsocket"
	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/telemetry"
	"berth/internal/version"
	"berth/rpc"
	"berth/server"
	"berth/server/consulacl"
	"berth/structs"
)

// drainTimeout bounds the wait for requests in flight when the agent stops. Blocking queries end at once.
const drainTimeout = 5 * time.Second

// Agent is one process. New opens its parts, and Run runs them.
type Agent struct {
	settings atomic.Pointer[Config] // see config and Reload
	logger   hclog.Logger
	server   *server.Server    // nil on a pure client
	client   *client.Client    // nil on a pure server
	consul   *consul.Link      // nil: the configuration turns Consul off
	acl      *consulacl.Client // of a server; nil like consul
	caller   rpc.Caller
	ln       net.Listener
	socket   net.Listener        // the operator socket
	apis     []*apiServer        // on ln and on socket
	taskAPI  *secrets.APISockets // of the tasks of the node
	keys     *peertls.Keys       // nil: the agent does not speak TLS
	splitter *peertls.Splitter   // of ln, nil: ln has connections of one kind
	// metrics ends last, because all other parts emit through it.
	metrics *telemetry.Telemetry
	// audit takes the changes by people until all other parts have ended; nil: there is no audit log.
	audit *auditlog.Log
	// source makes the configuration again. It is nil for an agent that has none to read.
	source    func() (*Config, error)
	reloading sync.Mutex // held while the configuration is read again
	// sessions are the requests that the servers of the API do not wait for.
	sessions sync.WaitGroup

	leaving sync.Mutex    // held while the server leaves
	left    chan struct{} // closed when the server has left, which ends the agent
}

// New opens the server, the node and the listeners of cfg. Config.Finish must have completed cfg. New gives
// up when ctx ends. It does not keep ctx.
func New(ctx context.Context, cfg Config, logger hclog.Logger) (*Agent, error) {
	address, why, err := cfg.AddressForOthers()
	if err != nil {
		return nil, err // before anything is open
	}
	logger.Info("other agents reach this one at its address", "address", address, "because", why)

	if err := os.MkdirAll(cfg.DataDir, 0o711); err != nil {
		return nil, structs.Internalf("data_dir: %w", err)
	}

	// The listeners come first: a second agent with the same port ends here, before it opens data.
	addr := cfg.bind(cfg.Addresses.HTTP, cfg.Ports.HTTP)
	ln, err := listenHTTP(net.ListenConfig{}, addr, addressPatience)
	if err != nil {
		return nil, err
	}

	socket, err := opsocket.Listen(cfg.OperatorSocket)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}

	sinks, err := telemetry.Start(cfg.Telemetry, logger) // first: the Raft log takes the sink when it opens
	if err != nil {
		err = structs.Invalidf("%w", err)
		return nil, errors.Join(err, ln.Close(), socket.Close())
	}

	a := &Agent{
		logger:  logger,
		ln:      ln,
		socket:  socket,
		metrics: sinks,
		left:    make(chan struct{}),
		taskAPI: secrets.NewAPISockets(logger),
	}

	a.settings.Store(&cfg)
	a.audit, err = auditlog.Open(cfg.Audit, auditlog.Deps{Agent: cfg.Name, Logger: logger.Named("audit")})
	if err == nil {
		err = a.openKeys()
	}
	if err == nil {
		err = a.open(ctx)
	}

	if err != nil {
		return nil, errors.Join(err, a.close())
	}

	a.advertiseInConsul()
	// The servers of the API exist from here on, and accept callers in Run.
	httpLogger := logger.Named("http")
	handler := a.newHandler(httpLogger)
	a.apis = a.newAPIServers(withHeaders(cfg.HTTPHeaders, withPage(a.config(), handler, httpLogger)), httpLogger)
	a.taskAPI.Serve(a.forTasks(withHeaders(cfg.HTTPHeaders, handler)))
	return a, nil
}

// newHandler returns the HTTP API of the agent.
func (a *Agent) newHandler(logger hclog.Logger) http.Handler {
	cfg := a.config()
	return api.NewHandler(api.Config{
		Routes:        areas.Routes(),
		Caller:        rights.ForPeople(a.caller),
		Own:           a.caller,
		ACL:           cfg.ACL.Enabled,
		OpenFile:      filepath.Join(cfg.DataDir, "acl-open"),
		Joined:        cfg.TLS.On(),
		HidesTokens:   cfg.TLS.Required() && cfg.Server.Enabled,
		Agent:         local{a},
		Logger:        logger,
		AllowedHosts:  cfg.httpHosts(),
		Connect:       a.connect,
		CheckSecrets:  a.checkSecrets,
		CheckArchives: a.checkArchives,
		Sessions:      &a.sessions,
		Name:          cfg.Name,
		Audit:         a.audit,
	})
}

// close closes the open parts of an agent that never runs.
func (a *Agent) close() error {
	err := errors.Join(a.ln.Close(), a.socket.Close())
	if a.server != nil {
		// A server closes in Run, which ends at once with this context.
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		err = errors.Join(err, a.server.Run(ended))
	}

	a.closeConsul()
	a.audit.Close()
	a.metrics.Close()
	return err
}

// open opens the parts in the order in which they use each other: the node calls the server beside it, and
// both have Consul.
func (a *Agent) open(ctx context.Context) error {
	cfg := a.config()
	err := a.openConsul()
	if err == nil && cfg.Server.Enabled {
		err = a.openServer()
	}
	if err == nil && cfg.Client.Enabled {
		err = a.openClient(ctx)
	}
	return err
}

// openServer makes the server, with the parts of it that depend on the whole agent.
func (a *Agent) openServer() (err error) {
	cfg := a.config()

	// A copy: what is added here is not a part of the configuration.
	sc := cfg.Server
	sc.Version = version.Version
	sc.HTTPAdvertise = a.advertisedHTTP()
	sc.Audit = a.audit
	sc.AgentDir = cfg.DataDir
	sc.AgentSettings = cfg.alike()

	// A server joins by gossip, a node by RPC, so each looks for another tag.
	sc.FindServers = a.findServers(cfg.Consul.ServerAutoJoin, consul.TagSerf)
	if a.keys != nil {
		// The port of a server takes other servers and nodes. Operators use the HTTP API.
		sc.TLS = a.keys.Server(peertls.Roles(pki.RoleServer, pki.RoleNode))
		sc.RequireTLS = cfg.TLS.Required()
		sc.Machines = a.machines()
		sc.Dial = a.dialServers()
		if !cfg.TLS.Required() {
			sc.DialTLS = rpc.SecureDialer(rpc.Dial, a.keys.Client(peertls.Roles(pki.RoleServer)), false)
		}
	}

	// A nil pointer in the interface would not be nil. So it is for the other parts of Deps.
	if a.acl != nil {
		sc.Consul = a.acl
	}

	a.server, err = server.New(sc, a.logger.Named("server"))
	if err != nil {
		return err
	}

	a.caller = a.server
	if a.keys != nil {
		// The keys were opened before the server, and ask for revocations from here on.
		certificate.InStore(a.keys, a.server.Store())
	}

	return nil
}

// openClient makes the node. With a server in the process it calls that one, and does not look for others.
func (a *Agent) openClient(ctx context.Context) (err error) {
	cfg := a.config()
	cc := a.nodeSettings(cfg.Client)
	cc.HTTPAddr = a.advertisedHTTP()
	cc.Version = version.Version
	deps := client.Deps{
		Starting: ctx,
		Logger:   a.logger,
		TaskAPI:  a.taskAPI,
	}

	if a.keys != nil {
		deps.Dial = a.dialServers()

		// A node with a certificate has the ID that is in it.
		deps.CertifiedID = a.keys.NodeID()
	}

	if a.server == nil {
		deps.FindServers = a.findServers(cfg.Consul.ClientAutoJoin, consul.TagRPC)
	}

	if a.consul != nil {
		deps.Consul = a.consul
	}

	a.client, err = client.New(cc, deps)
	if err != nil {
		return err
	}

	// The HTTP API calls the server of the process if it has one, else the servers that the node knows.
	if a.caller == nil {
		a.caller = a.client.Caller()
	}

	return nil
}

// advertisedHTTP returns the address at which others reach the HTTP API, with the bound port.
func (a *Agent) advertisedHTTP() string {
	// The configuration may have the port 0, and the kernel has chosen one.
	port := a.ln.Addr().(*net.TCPAddr).Port
	cfg := a.config()
	addr := cfg.advertise(cfg.Addresses.HTTP, cfg.Advertise.HTTP, port)
	if addr != "" {
		return addr
	}
	return a.HTTPAddr()
}

// HTTPAddr returns the address to which the HTTP API is bound.
func (a *Agent) HTTPAddr() string {
	addr := a.ln.Addr().(*net.TCPAddr)
	ip := addr.IP
	if ip.IsUnspecified() {
		// Nobody can connect to an unspecified address, and this machine reaches itself by loopback.
		ip = net.IPv4(127, 0, 0, 1)
	}
	return net.JoinHostPort(ip.String(), strconv.Itoa(addr.Port))
}

// scheme returns the scheme of the addresses of the HTTP API.
func (a *Agent) scheme() string {
	if a.keys != nil {
		return "https"
	}
	return "http"
}

// Run blocks until ctx ends, the server has left the cluster, or a part of the agent fails. It then stops the
// other parts and returns the cause.
func (a *Agent) Run(ctx context.Context) error {
	// The buffer has a place for each part, so that no part blocks at its end.
	ended := make(chan error, 8)
	defer a.metrics.Close()
	defer a.audit.Close()
	defer a.closeConsul()
	var stops []func()

	// The order of the calls is the order of the starts.
	run := func(part func(context.Context) error) {
		stops = append(stops, startPart(part, ended))
	}

	run(endless(a.metrics.Run))
	if a.consul != nil { // it ends after the node, whose last services it removes
		run(endless(a.consul.Run))
	}

	if a.server != nil {
		run(a.server.Run)
	}

	if a.client != nil {
		run(endless(a.client.Run))
		run(endless(client.Metrics{Node: a.client, Logger: a.logger.Named("metrics")}.Run))
	}

	run(endless(a.taskAPI.Run))
	if a.keys != nil {
		run(a.runKeys)
	}

	// The API is the last part to start and the first one to end: it calls all others.
	run(a.serveHTTP)
	var err error
	select {
	case <-ctx.Done():
	case <-a.left:
	case err = <-ended:
	}

	// The reverse order ends each part before the parts that it uses, and stop waits for it.
	for _, stop := range slices.Backward(stops) {
		stop()
	}

	// The part that failed first is the cause. Those that failed while they stopped are added.
	for len(ended) > 0 {
		err = errors.Join(err, <-ended)
	}

	return err
}

// endless returns a part that never fails.
func endless(run func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		run(ctx)
		return nil
	}
}

// startPart runs a part of the agent and sends the result of the part to ended. stop ends the part and waits.
func startPart(run func(context.Context) error, ended chan<- error) (stop func()) {
	// The context is not derived from Run's: its end would stop all parts at once, in no order.
	ctx, cancel := context.WithCancel(context.Background())
	var part sync.WaitGroup
	part.Go(func() { ended <- run(ctx) })
	return func() {
		cancel()
		part.Wait()
	}
}
