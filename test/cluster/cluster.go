package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/agenttest"
	"berth/rpc"
	"berth/server"
	"berth/server/autopilot"
	"berth/state"
	"berth/structs"
)

// Patience is how long the helpers wait for a condition. It is long for slow machines, and costs nothing when
// the condition comes true.
const Patience = 2 * time.Minute

// Cluster has servers on a network, and the nodes that a test adds.
type Cluster struct {
	T       testing.TB
	Net     *Network
	Servers []*Server
	// Configure, if set, changes the configuration of servers before they are made.
	Configure func(*server.Config)
	Logger    hclog.Logger
	dir       string
	nodes     []*Node
}

// Server is a member over all its restarts. While it is down, it has the state of its last run.
type Server struct {
	Name string
	cfg  server.Config
	run  atomic.Pointer[serverRun]
}

// serverRun is a server from a start to its end.
type serverRun struct {
	*server.Server
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done closes
}

// Option changes the configuration of a cluster's servers.
type Option func(*server.Config)

// New starts servers, and waits until one of them leads and each knows all of them. They stop at the end of
// the test, which checks the state of every server.
func New(t testing.TB, servers int, options ...Option) *Cluster {
	t.Helper()
	return NewLogged(t, logger(), servers, options...)
}

// NewLogged is New with a log of the servers.
func NewLogged(t testing.TB, log hclog.Logger, servers int, options ...Option) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "berth-cluster")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{
		T:      t,
		Net:    NewNetwork(),
		dir:    dir,
		Logger: log,
		Configure: func(cfg *server.Config) {
			for _, o := range options {
				o(cfg)
			}
		},
	}
	t.Cleanup(c.close)
	for range servers {
		c.Add(servers)
	}
	c.form()
	c.Leader()
	for _, s := range c.Servers {
		c.Await(s.Name+" knows all servers", func() bool { return s.alive() == servers })
	}
	return c
}

// alive returns the number of servers that a server takes for alive.
func (s *Server) alive() (count int) {
	for _, m := range s.Current().Members() {
		if m.Status == "alive" {
			count++
		}
	}
	return count
}

// logger writes to standard error when BERTH_TEST_LOG names a level.
func logger() hclog.Logger {
	level := os.Getenv("BERTH_TEST_LOG")
	if level == "" {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{
		Level:  hclog.LevelFromString(level),
		Output: os.Stderr,
	})
}

func (c *Cluster) close() {
	c.Net.Heal()
	for _, n := range c.nodes {
		n.Kill()
	}
	for _, s := range c.Servers {
		if faults := state.Check(s.Store().Read()); len(faults) > 0 {
			c.T.Errorf("the state of %s is inconsistent: %v", s.Name, faults)
		}
		s.run.Load().cancel()
	}
	for _, s := range c.Servers {
		if err := s.Kill(); err != nil {
			c.T.Errorf("%s: %v", s.Name, err)
		}
	}
	c.Net.Close()
	_ = os.RemoveAll(c.dir)
}

// Add starts one more server, which joins the others. expect is its bootstrap_expect.
func (c *Cluster) Add(expect int) *Server {
	c.T.Helper()
	name := fmt.Sprintf("s%d", len(c.Servers)+1)
	ip := c.Net.Address(name)
	cfg := server.DefaultConfig()
	cfg.Name = name
	cfg.DataDir = filepath.Join(c.dir, name)
	cfg.BootstrapExpect = expect
	cfg.RPCBind = net.JoinHostPort(ip, "0")
	cfg.SerfBind = net.JoinHostPort(ip, "0")
	// Two servers of three elect only with both votes. Two candidacies collide for ever if a vote takes as long
	// as the timeout, which some writes to a busy disk do.
	cfg.RaftTimeout = time.Second
	cfg.RetryInterval = 200 * time.Millisecond
	cfg.AutopilotInterval = 500 * time.Millisecond
	cfg.Autopilot = patientAutopilot()
	cfg.Dial = c.Net.From(name).Dial
	cfg.Gossip = c.Net.From(name).Gossip
	for _, other := range c.Servers {
		cfg.RetryJoin = append(cfg.RetryJoin, serfAddr(other.Current()))
	}
	if len(cfg.RetryJoin) == 0 && expect != 1 {
		cfg.RetryJoin = []string{net.JoinHostPort(ip, "1")} // no server: the others will join
	}
	c.Configure(&cfg)
	s := &Server{Name: name, cfg: cfg}
	c.startServer(s)
	c.Servers = append(c.Servers, s)
	return s
}

// AddCopy starts a server on a copy of the data directory of another one, with a name and addresses of its
// own.
func (c *Cluster) AddCopy(of *Server, change func(*server.Config)) *Server {
	c.T.Helper()
	configure := c.Configure
	defer func() { c.Configure = configure }()
	c.Configure = func(cfg *server.Config) {
		configure(cfg)
		change(cfg)
		err := os.CopyFS(cfg.DataDir, os.DirFS(of.cfg.DataDir))
		if err != nil {
			c.T.Fatal(err)
		}
	}
	return c.Add(0)
}

// patientAutopilot keeps servers that tests kill, because most tests start them again. It gives votes without
// a wait, also on a slow machine.
func patientAutopilot() autopilot.Settings {
	s := autopilot.DefaultSettings()
	s.CleanupDeadServers = false
	s.LastContactThreshold = 10 * time.Second
	s.MaxTrailingLogs = 100_000
	s.ServerStabilizationTime = 0
	return s
}

func (c *Cluster) startServer(s *Server) {
	c.T.Helper()
	made, err := server.New(s.cfg, c.Logger.Named(s.Name))
	if err != nil {
		c.T.Fatalf("starting %s: %v", s.Name, err)
	}
	s.cfg.RPCBind = made.RPCAddr()
	s.cfg.SerfBind = serfAddr(made)
	ctx, cancel := context.WithCancel(context.Background())
	l := &serverRun{
		Server: made,
		cancel: cancel,
		done:   make(chan struct{}),
	}
	s.run.Store(l)
	go func() {
		defer close(l.done)
		l.err = made.Run(ctx)
	}()
}

// Kill ends a server without a transfer or a message.
func (s *Server) Kill() error {
	l := s.run.Load()
	l.cancel()
	<-l.done
	return l.err
}

// DataDir is where the server's files are.
func (s *Server) DataDir() string { return s.cfg.DataDir }

// Running reports whether the server has not been killed.
func (s *Server) Running() bool {
	select {
	case <-s.run.Load().done:
		return false
	default:
		return true
	}
}

// Restart starts a server that was killed, on its data and its addresses.
func (c *Cluster) Restart(s *Server) {
	c.T.Helper()
	c.startServer(s)
}

// Change changes the configuration of a server that was killed for its next starts.
func (s *Server) Change(change func(*server.Config)) { change(&s.cfg) }

// FailsToStart starts a server that was killed and returns the error with which it does not start.
func (c *Cluster) FailsToStart(s *Server) error {
	c.T.Helper()
	_, err := server.New(s.cfg, c.Logger.Named(s.Name))
	if err == nil {
		c.T.Fatalf("%s starts", s.Name)
	}
	return err
}

// Move gives a killed server another address for its next start, at which it joins the running servers.
func (c *Cluster) Move(s *Server) {
	ip := c.Net.Address(s.Name)
	s.cfg.RPCBind = net.JoinHostPort(ip, "0")
	s.cfg.SerfBind = net.JoinHostPort(ip, "0")
	s.cfg.RetryJoin = nil
	for _, other := range c.Others(s) {
		s.cfg.RetryJoin = append(s.cfg.RetryJoin, serfAddr(other.Current()))
	}
}

// Current returns the server of the present run.
func (s *Server) Current() *server.Server {
	return s.run.Load().Server
}

// Call calls a method at the server (rpc.Caller).
func (s *Server) Call(ctx context.Context, method string, req, resp any) error {
	return s.Current().Call(ctx, method, req, resp)
}

// Store is the server's state.
func (s *Server) Store() *state.Store {
	return s.Current().Store()
}

// Leads reports whether the server leads and is up to date.
func (s *Server) Leads() bool {
	_, leads, _, _ := s.Current().Leader()
	return leads && s.Running()
}

// Leader waits until one of the servers (of all, if none are named) leads.
func (c *Cluster) Leader(among ...*Server) *Server {
	c.T.Helper()
	if len(among) == 0 {
		among = c.Servers
	}
	var leader *Server
	c.Await("one of the servers leads", func() bool {
		for _, s := range among {
			if s.Leads() {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// Others returns the running servers except one.
func (c *Cluster) Others(s *Server) []*Server {
	return slices.DeleteFunc(slices.Clone(c.Servers), func(o *Server) bool {
		return o == s || !o.Running()
	})
}

// Names returns the names of servers.
func Names(servers []*Server) (names []string) {
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return names
}

// Await polls until a condition holds that has no notification. AwaitRows waits for rows.
func (c *Cluster) Await(what string, holds func() bool) {
	c.T.Helper()
	deadline := time.After(Patience)
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if holds() {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			c.T.Fatalf("waited %s without success: %s", Patience, what)
		}
	}
}

// AwaitRows waits until the state of a server fulfils a condition.
func (c *Cluster) AwaitRows(s *Server, what string, holds func(tx *state.ReadTx) bool) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		tx := s.Store().ReadWatched()
		if holds(tx) {
			return
		}
		if err := s.Store().Wait(ctx, tx); err != nil {
			c.T.Fatalf("%s: waited %s without success: %s", s.Name, Patience, what)
		}
	}
}

// Must calls a method at a server and fails the test if the call fails. It repeats the call while there is no
// leader or the outcome is unknown.
func Must[Req, Resp any](c *Cluster, s *Server, m structs.Method[Req, Resp], req *Req) *Resp {
	c.T.Helper()
	agenttest.Stamp(req)
	var resp *Resp
	var err error
	for deadline := time.Now().Add(Patience); ; {
		resp, err = rpc.Call(c.T.Context(), s, m, req)
		again := structs.IsKind(err, structs.KindUnavailable) ||
			structs.IsKind(err, structs.KindTimeout)
		if !again || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		c.T.Fatalf("%s at %s: %v (%s)", m.Name, s.Name, err, structs.KindOf(err))
	}
	return resp
}

// AtLeader calls do with the leader. It repeats the call after an election.
func (c *Cluster) AtLeader(what string, do func(s *Server) error) {
	c.T.Helper()
	var err error
	c.Await(what, func() bool {
		err = do(c.Leader())
		return !structs.IsKind(err, structs.KindUnavailable)
	})
	if err != nil {
		c.T.Fatalf("%s: %v (%s)", what, err, structs.KindOf(err))
	}
}

// StateBytes returns the whole state of a server as a snapshot.
func (s *Server) StateBytes() []byte {
	var b bytes.Buffer
	if err := s.Store().Read().Save(&b); err != nil {
		panic(err) // a write to a buffer does not fail
	}
	return b.Bytes()
}

// stateAtIndex returns a server's whole state with its index, and false if the state changed meanwhile.
func (s *Server) stateAtIndex() (index uint64, whole []byte, ok bool) {
	index = s.Store().Index()
	whole = s.StateBytes()
	return index, whole, index == s.Store().Index()
}

// CheckEqualStates waits until all running servers have applied the same entries, and fails the test unless
// their states have equal bytes.
func (c *Cluster) CheckEqualStates() {
	c.T.Helper()
	c.Await("all servers have applied the same entries", func() bool {
		leader := c.Leader()
		index, want, ok := leader.stateAtIndex()
		for _, s := range c.Others(leader) {
			i, got, quiet := s.stateAtIndex()
			if !ok || !quiet || i != index {
				return false
			}
			if !bytes.Equal(got, want) {
				c.T.Errorf("at index %d the states of %s and %s differ: %d and %d bytes", index, leader.Name, s.Name,
					len(want), len(got))
			}
		}
		return true
	})
}

// Nodes returns the added nodes, the oldest first.
func (c *Cluster) Nodes() []*Node {
	return slices.Clone(c.nodes)
}

// serfAddr returns the gossip address of a server.
func serfAddr(s *server.Server) string {
	m := s.Member()
	return net.JoinHostPort(m.Addr, strconv.Itoa(int(m.Port)))
}
