package core

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/injection"
	"berth/endpoints/query"
	"berth/endpoints/rights"
	"berth/fsm"
	"berth/internal/admit"
	"berth/internal/auditlog"
	"berth/internal/idtoken"
	"berth/internal/keylock"
	"berth/internal/keyring"
	"berth/internal/loadshed"
	"berth/server/clock"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// Deps are the parts that the procedures use.
type Deps struct {
	Store  *state.Store
	Raft   Raft
	Leases Leases
	// CallsOf returns the calls of a plugin that this server has in flight as the leader, and how many wait, the
	// oldest from a time on. nil: this server cannot lead.
	CallsOf func(plugin string) (inFlight, waiting int, since time.Time)
	Locks   Locks
	// Autopilot knows the health of the servers.
	Autopilot Autopilot
	Nodes     *nodeconn.Sessions // over which this server can call nodes
	Logger    hclog.Logger
	Region    string
	Name      string // of this server
	Socket    string // the path of its operator socket
	// Roles says that the certificates of callers decide on their rights. Without it a caller without a
	// certificate may do everything, and so may each other.
	Roles  bool
	Now    func() time.Time
	Consul Consul // nil: the servers use no Consul
	// WorkloadLogins has the identities that workloads get for their logins outside of the cluster.
	WorkloadLogins injection.Logins
	// Fencing has the fence devices of this server.
	Fencing Fencing
	// JobSource bounds the source of a job that is stored, with its variables, in bytes. 0 stores none.
	JobSource int
	// CollectGarbage deletes every row that has ended and is not needed, of any age.
	CollectGarbage func(context.Context, fsm.Proposer) (index uint64, err error)
	// RaftMultiplier scales how long a request waits for an election, as it scales the timeouts of Raft. 0 is 1.
	RaftMultiplier int
	// Clock is the time of ages and of log entries. nil: Now.
	Clock *clock.Cluster
	// Clocks compares the clocks of the servers. nil: this server cannot lead.
	Clocks Clocks
	// Level returns the least level of the servers.
	Level func() int
	// Drains is held while a request changes the drain of a node: see control.Deps.
	Drains sync.Locker
	// Keys encrypt the secrets of the cluster before they enter the log. nil: none.
	Keys *keyring.Ring
	// Gate decides about the callers of methods by their tokens. nil: whoever reaches a server may do
	// everything.
	Gate *rights.Gate
	// KeepDeleted is how long the deletion of a token is remembered.
	KeepDeleted time.Duration
	// DataDir is the folder of this server, where root allows another first token of access control.
	DataDir string
	// RootKeys serve the methods of the keyring. nil: nobody calls them.
	RootKeys RootKeys
	// Audit takes the changes by people and the denied calls. nil: there is no audit log.
	Audit *auditlog.Log
	// Events has the newest events of this server. nil: it keeps none.
	Events Events
	// AccessModes returns the modes of access control that the configurations of the servers ask for.
	AccessModes func() []access.ServerMode
	// Identities are the settings of workload identities, and Issuer names the issuer in them, "" for none.
	Identities idtoken.Settings
	Issuer     string
}

// Clocks compares the clocks of the servers while this one leads.
type Clocks interface {
	ReadClocks(ctx context.Context) *cluster.ClockResponse
	// AcceptClock sets the cluster time to this server's wall clock. The error is precondition if most
	// servers have another one.
	AcceptClock(ctx context.Context) (index uint64, err error)
}

// Server has what the procedures of all areas share on one server.
type Server struct {
	// Deps has the Raft whose entries are bounded by Writes.
	Deps
	Settings Settings
	Queries  *query.Engine   // runs the reads
	Writes   *loadshed.Queue // bounds the log entries of requests
	Rules    *admit.Engine   // evaluates the admission rules
}

// NewServer completes the parts of a server with their defaults.
func NewServer(d Deps, config Settings) *Server {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Clock == nil {
		d.Clock = clock.Wall(d.Now)
	}

	if d.Drains == nil {
		d.Drains = &sync.Mutex{}
	}

	if d.Keys == nil {
		d.Keys = &keyring.Ring{}
	}

	if d.RootKeys == nil {
		d.RootKeys = noRootKeys{}
	}

	if d.Events == nil {
		d.Events = noEvents{}
	}

	slowness := time.Duration(max(d.RaftMultiplier, 1))
	config.HoldTimeout *= slowness
	config.AnswerTimeout *= slowness
	d.Region = cmp.Or(d.Region, structs.DefaultRegion)
	queries := query.NewEngine(d.Store, d.Raft)
	writes := newWrites(config)
	d.Raft = boundedRaft{d.Raft, writes}
	return &Server{Deps: d, Settings: config, Queries: queries, Writes: writes, Rules: admit.New()}
}

// RowLocks returns the locks of rows that one request at a time records: see AwaitTurn.
func (s *Server) RowLocks() *keylock.Map {
	return &keylock.Map{MaxUsers: 1 + s.Settings.TurnQueue}
}

// CheckNode compares a secret with the row of a node in constant time. The error for an unknown node is
// not-found at the leader, so that the node registers again, and unavailable at a follower, which may lag.
func (s *Server) CheckNode(node *structs.Node, secret string) error {
	if node == nil {
		_, isMe, _, _ := s.Raft.Leader()
		if !isMe {
			return structs.NotServedf("this server does not know the node yet")
		}

		return structs.NotFoundf("the node is not registered")
	}

	if subtle.ConstantTimeCompare([]byte(node.SecretID), []byte(secret)) != 1 {
		return structs.Deniedf("the secret is not that of node %s", node.ID)
	}

	return nil
}

// boundedRaft is a Raft that admits a bounded number of entries at the same time.
type boundedRaft struct {
	Raft
	writes *loadshed.Queue
}

// newWrites returns the bound on the log entries of requests.
func newWrites(c Settings) *loadshed.Queue {
	return loadshed.NewQueue(loadshed.QueueConfig{
		Limit:    "writes",
		Permits:  c.Writes,
		Waiting:  c.WriteQueue,
		Patience: WritePatience,
		Soonest:  50 * time.Millisecond,
		Latest:   5 * time.Second,
		Text: fmt.Sprintf(
			"the log entry was not written: %d writes are in flight and others wait",
			c.Writes),
	})
}

// Propose proposes an entry when the queue admits it.
func (r boundedRaft) Propose(
	ctx context.Context,
	entry []byte,
) (uint64, any, error) {
	leave, err := r.writes.Enter(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	return r.Raft.Propose(ctx, entry)
}
