package server

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/serf/serf"

	"berth/endpoints"
	"berth/endpoints/core"
	"berth/endpoints/join"
	"berth/endpoints/rights"
	"berth/internal/boottime"
	"berth/internal/keyring"
	"berth/internal/loadshed"
	"berth/rpc"
	"berth/server/autopilot"
	"berth/server/backup"
	"berth/server/clock"
	"berth/server/control"
	"berth/server/control/workqueue"
	"berth/server/events"
	"berth/server/gossip"
	"berth/server/keys"
	"berth/server/leases"
	"berth/server/nodeconn"
	"berth/server/raftfiles"
	"berth/server/raftnet"
	"berth/server/signing"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/cluster"
)

// Server is one member of the cluster. New opens it, Run runs it.
type Server struct {
	cfg       Config
	logger    hclog.Logger
	id        string
	addr      string // advertised RPC address
	store     *state.Store
	clock     *clock.Cluster
	events    *events.Ring
	consensus *consensus
	layer     *raftnet.Layer
	members   *membership
	// GossipKeys changes the keys with which the servers encrypt their gossip.
	GossipKeys *gossip.Keyrings
	keys       *keyring.Ring
	rootKeys   *keys.Keys
	accessMode *accessMode
	digests    *digests
	Signing    *signing.Signer // signs for this server, without a leader
	nodes      *nodeconn.Sessions
	endpoints  *endpoints.Endpoints
	leases     *leases.Leases
	calls      *workqueue.Loads      // of plugins
	locks      *leases.VariableLocks // of variables
	autopilot  *autopilot.Autopilot
	Backup     *backup.Agent // saves archives on a schedule
	rpc        *rpc.Server
	joins      *join.Port
	gate       *loadshed.Gate
	pool       *rpc.Pool
	securePool *rpc.Pool // of Config.DialTLS; unused without it
	listener   *rpc.Listener
	loops      func() []control.Loop // the leader loops
	lock       *os.File              // held while the data directory is this server's
	// leading is set while this server leads and has applied everything that earlier leaders committed.
	leading   atomic.Pointer[leadership]
	watch     leaderWatch
	drains    sync.Mutex    // see control.Deps.Drains
	between   chan func()   // called while none of the leader's loops runs
	leadEnded chan struct{} // closed when between has no reader
	restoring sync.Mutex    // held during a restore
	forget    *plainEntryLoop
	waits     atomic.Pointer[error] // see Waits
	began     time.Time
}

// New opens the server's files and its port. Run releases them, and New does if it fails.
func New(cfg Config, logger hclog.Logger) (_ *Server, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Dial == nil {
		cfg.Dial = rpc.Dial
	}
	s := &Server{
		cfg:       cfg,
		logger:    logger,
		store:     state.New(),
		events:    events.New(cfg.Settings),
		keys:      &keyring.Ring{},
		between:   make(chan func()),
		leadEnded: make(chan struct{}),
	}
	var opened []func() error // the functions that close it again
	defer func() {
		for _, undo := range slices.Backward(opened) {
			if err != nil {
				err = errors.Join(err, undo())
			}
		}
	}()
	s.lock, err = raftfiles.LockDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	opened = append(opened, s.lock.Close)
	if err := raftfiles.RemoveMatching(cfg.DataDir, restoreFiles); err != nil {
		return nil, structs.Internalf("removing the files of an interrupted restore: %w", err)
	}
	s.id, err = raftfiles.ServerID(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", cfg.RPCBind)
	if err != nil {
		return nil, structs.Internalf("listening for RPC: %w", err)
	}
	opened = append(opened, ln.Close)
	advertised, err := raftnet.AdvertisedAddress(ln.Addr().(*net.TCPAddr), cfg.RPCAdvertise)
	if err != nil {
		return nil, err
	}
	s.addr = advertised.String()
	s.layer = raftnet.NewLayer(advertised, cfg.Dial, logger)
	err = openState(s)
	if err != nil {
		return nil, err
	}
	opened = append(opened, s.consensus.close)
	s.createServices(ln)
	s.members, err = startMembership(&s.cfg, s.tags(), logger.Named("serf"))
	if err != nil {
		return nil, err
	}
	s.GossipKeys = gossip.NewKeyrings(s.members.serf, cfg.VerifyIncoming, cfg.VerifyOutgoing)
	return s, nil
}

// createServices creates the parts that answer on the port. Nothing of them runs before Run.
func (s *Server) createServices(ln net.Listener) {
	cfg := &s.cfg
	logger := s.logger.Named("rpc")
	s.loops = s.leaderLoops
	s.gate = loadshed.NewGate(loadshed.MinAdmit)
	s.securePool = rpc.NewPool(cfg.DialTLS, logger, nil)
	s.clock = clock.New(boottime.Now, func() *cluster.ClusterTime {
		return clustertime.Of(s.store.Read())
	})
	s.leases = leases.New(cfg.control().Leases, nil)
	s.calls = workqueue.NewLoads()
	s.locks = leases.NewVariableLocks(leases.LockConfig{Store: s.store, Proposer: s, Logger: logger})
	s.nodes = nodeconn.NewSessions(peerServers{s})
	s.autopilot = autopilot.New(autopilotDeps(s))
	s.Backup = backup.New(cfg.Backup, s.SnapshotSave, s.logger)
	s.forget = &plainEntryLoop{
		Store:   s.store,
		Raft:    s.consensus.Raft,
		Reload:  s.consensus.reload,
		Enter:   s.consensus.Enter,
		Files:   s.consensus.files,
		DataDir: cfg.DataDir,
		Logger:  s.logger,
	}
	s.endpoints = endpoints.New(endpointDeps(s, logger))

	s.rpc = rpc.NewServer(logger, s.endpoints.List()...)
	s.rpc.Shed(s.gate)
	s.joins = join.NewPort(cfg.Machines, s, logger)
	s.listener = rpc.NewListener(ln, logger, map[byte]func(net.Conn){
		rpc.ByteRPC:  s.rpc.ServeConn,
		rpc.ByteMux:  s.rpc.ServeMux,
		rpc.ByteRaft: s.layer.Handoff,
		rpc.ByteJoin: s.joins.ServeConn,
	})
	s.listener.Secure(cfg.TLS, cfg.RequireTLS)
	s.listener.SecureJoins(cfg.Machines.TLS)
	s.listener.LimitPerAddr(cfg.MaxConnsPerAddr)
}

// endpointDeps returns the parts of a server that its remote procedures use.
func endpointDeps(s *Server, logger hclog.Logger) core.Deps {
	cfg := &s.cfg
	return core.Deps{
		Store:          s.store,
		Raft:           s,
		Leases:         s.leases,
		CallsOf:        s.calls.Of,
		Locks:          s.locks,
		Autopilot:      s.autopilot,
		Nodes:          s.nodes,
		Consul:         cfg.Consul,
		WorkloadLogins: cfg.WorkloadLogins,
		Fencing:        cfg.fencers(),
		Logger:         logger,
		Region:         cfg.Region,
		Name:           cfg.Name,
		Roles:          cfg.RequireTLS,
		Socket:         cfg.OperatorSocket,
		JobSource:      int(cfg.JobSource),
		CollectGarbage: s.collectGarbage,
		RaftMultiplier: cfg.RaftMultiplier,
		Level:          s.level,
		Clock:          s.clock,
		Clocks:         s,
		Drains:         &s.drains,
		Keys:           s.keys,
		RootKeys:       s.rootKeys,
		DataDir:        cfg.DataDir,
		Audit:          cfg.Audit,
		Events:         s.events,
		Identities:     cfg.Identities,
		Issuer:         cfg.OIDCIssuer,
		AccessModes:    s.configuredModes,
		KeepDeleted:    cfg.ACL.KeepDeleted,
		Gate:           cfg.ACL.NewGate(logger, cfg.RequireTLS, cfg.OIDCIssuer, s.accessMode.mode),
	}
}

func (s *Server) tags() map[string]string {
	tags := map[string]string{
		tagRole:     roleServer,
		tagID:       s.id,
		tagRPCAddr:  s.addr,
		tagHTTPAddr: s.cfg.HTTPAdvertise,
		tagRegion:   s.cfg.Region,
		tagDC:       s.cfg.Datacenter,
		tagVersion:  s.cfg.Version,
		tagExpect:   strconv.Itoa(s.cfg.BootstrapExpect),
		tagACL:      s.cfg.ACL.OwnMode(),
	}

	_, tags[tagPort], _ = net.SplitHostPort(s.addr)
	if !s.consensus.fresh {
		tags[tagBootstrap] = "1"
	}

	if s.cfg.RedundancyZone != "" {
		tags[tagZone] = s.cfg.RedundancyZone
	}

	if kek := s.rootKeys.KEK(); kek != "" {
		tags[tagKEK] = kek
	}

	if s.cfg.NonVoting {
		tags[tagNonVoting] = "1"
	}

	if s.consensus.machine != "" {
		tags[tagMachine] = string(s.consensus.machine)
	}

	if s.consensus.held.Load() {
		tags[tagHeld] = "1"
	}

	return tags
}

// Run runs the server until ctx ends, then shuts down in order: the leader's loops, the port, the gossip,
// Raft. It returns after every goroutine of the server has ended.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	loops.Go(func() { s.lead(ctx) })
	loops.Go(func() { s.watchLeader(ctx) })
	loops.Go(func() { s.members.run(ctx) })
	loops.Go(func() { s.rootKeys.Follow(ctx) })
	loops.Go(func() { s.Signing.Run(ctx) })
	loops.Go(func() { s.bootstrap(ctx) })
	loops.Go(func() { s.followMode(ctx) })
	loops.Go(func() { s.forget.Run(ctx) })
	loops.Go(func() { s.followClock(ctx) })
	loops.Go(func() { s.digests.run(ctx) })
	loops.Go(func() { s.watchSpace(ctx) })
	loops.Go(func() { s.compactLog(ctx) })
	loops.Go(func() {
		if err := s.gate.Run(ctx); err != nil {
			s.logger.Warn("failed to measure the load, admitting all reads", "error", err)
		}
	})

	loops.Go(func() {
		s.members.join(ctx, &s.cfg)
		s.announce(ctx)
	})
	loops.Go(func() { s.awaitRelease(ctx) })
	listening, stopListening := context.WithCancel(context.Background())
	var port sync.WaitGroup
	port.Go(func() { s.listener.Run(listening) })
	s.logger.Info("server started",
		"server_id", s.id,
		"rpc_addr", s.addr,
		"name", s.cfg.Name)

	<-ctx.Done()
	s.consensus.files.Log.StopWaiting() // the loops may wait for Raft, which may wait for space
	loops.Wait()
	stopListening()
	s.joins.Close()
	s.rpc.Close()
	_ = s.layer.Close()
	port.Wait()
	s.pool.Close()
	s.securePool.Close()
	err := errors.Join(
		s.members.serf.Shutdown(),
		s.consensus.close(),
		s.lock.Close(),
	)

	s.logger.Info("server stopped")
	return err
}

// Call serves a request of this process, so that a server is an rpc.Caller for its own HTTP API.
func (s *Server) Call(ctx context.Context, method string, req, resp any) error {
	return s.rpc.Call(ctx, method, req, resp)
}

// RPCAddr returns the address of this server's RPC for others.
func (s *Server) RPCAddr() string { return s.addr }

// Members lists the servers as the gossip sees them.
func (s *Server) Members() []*cluster.AgentMember {
	var out []*cluster.AgentMember
	for _, m := range s.members.serf.Members() {
		out = append(out, gossip.Member(m))
	}
	for _, m := range s.members.places.Rejected() {
		rejected := gossip.Member(m)
		rejected.Status = gossip.StatusRejected
		out = append(out, rejected)
	}
	return out
}

// Member returns this server as the gossip sees it.
func (s *Server) Member() *cluster.AgentMember {
	return gossip.Member(s.members.serf.LocalMember())
}

// Store returns the server's state; for readers only.
func (s *Server) Store() *state.Store { return s.store }

// Stats returns Raft's own counters, and the index of plainEntryLoop, for `agent self`.
func (s *Server) Stats() map[string]string {
	stats := s.consensus.Stats()
	stats["secrets_removed_to"] = strconv.FormatUint(s.forget.Done(), 10)
	return stats
}

// Leader returns the leader, as far as this server knows (core.Raft). After an election and before
// this server has applied the entries of earlier leaders, it knows of no leader: the caller is to wait a
// moment.
func (s *Server) Leader() (addr string, isMe, known bool, lastContact time.Duration) {
	leader, id := s.consensus.LeaderWithID()
	if string(id) == s.id {
		// Leadership that was lost and won again has another term.
		l := s.leading.Load()
		if l == nil || l.term != s.consensus.CurrentTerm() {
			return "", false, false, 0
		}

		return string(leader), true, true, 0
	}

	last := s.consensus.LastContact()
	if last.IsZero() {
		last = s.began
	}

	return string(leader), false, leader != "", time.Since(last)
}

// VerifyLeader confirms with a quorum that this server still leads, for reads that must not be stale.
func (s *Server) VerifyLeader() error {
	if !s.consensus.alone() {
		if err := s.consensus.verify(); err != nil {
			return err
		}
	}
	_, isMe, _, _ := s.Leader()
	if !isMe {
		return structs.NotServedf("this server has just begun to lead and is not up to date yet")
	}
	return nil
}

// Alone reports whether this server leads and is the only voter (core.Raft).
func (s *Server) Alone() bool {
	_, isMe, _, _ := s.Leader()
	return isMe && s.consensus.alone()
}

// Configuration lists the members of the Raft configuration.
func (s *Server) Configuration() (servers []*cluster.RaftServer) {
	leader, _ := s.consensus.LeaderWithID()
	peers := s.members.peers()
	for _, member := range s.consensus.members() {
		server := &cluster.RaftServer{
			ID:           string(member.ID),
			Address:      string(member.Address),
			Leader:       member.Address == leader,
			Voter:        member.Suffrage == raft.Voter,
			RaftProtocol: "3",
		}

		server.Node, _ = s.members.history.NameOf(server.ID)
		for _, p := range peers {
			if p.id == server.ID {
				server.Node = p.name
				server.Status = p.status.String()
			}
		}

		servers = append(servers, server)
	}

	return servers
}

// Forward calls a method at another server. An answer that decides whom its reader trusts comes over TLS.
func (s *Server) Forward(ctx context.Context, addr, method string, req, resp any) error {
	if s.cfg.DialTLS != nil && rights.GivesTrust(method) {
		return s.securePool.Call(ctx, addr, method, req, resp)
	}
	return s.pool.Call(ctx, addr, method, req, resp)
}

// Servers returns the RPC addresses of the servers that are alive, the leader's first.
func (s *Server) Servers() []string {
	var addrs []string
	leader, _, _, _ := s.Leader()
	if leader != "" {
		addrs = append(addrs, leader)
	}
	for _, p := range s.members.peers() {
		if p.status == serf.StatusAlive && p.rpcAddr != leader {
			addrs = append(addrs, p.rpcAddr)
		}
	}
	return addrs
}

// LeaderHTTP returns the HTTP address of the leader, "" if it is not known.
func (s *Server) LeaderHTTP() string {
	leader, _, _, _ := s.Leader()
	for _, p := range s.members.peers() {
		if leader != "" && p.rpcAddr == leader {
			return p.httpAddr
		}
	}
	return ""
}
