package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/memberlist"

	"berth/endpoints/core"
	"berth/endpoints/injection"
	"berth/endpoints/join"
	"berth/endpoints/rights"
	"berth/internal/agentproof"
	"berth/internal/auditlog"
	"berth/internal/boottime"
	"berth/internal/conf"
	"berth/internal/idtoken"
	"berth/rpc"
	"berth/server/autopilot"
	"berth/server/backup"
	"berth/server/control"
	"berth/server/control/cluster"
	"berth/server/control/fence"
	"berth/server/control/garbage"
	"berth/server/events"
	"berth/server/fencing"
	"berth/server/gossip"
	"berth/server/keys"
	"berth/structs"
	"berth/structs/validate"
)

// Config has the settings of a server. The agent's configuration file has it as its `server` block.
type Config struct {
	Enabled         bool          `hcl:"enabled"`
	BootstrapExpect int           `hcl:"bootstrap_expect"` // servers that form the cluster at first
	RetryJoin       []string      `hcl:"retry_join"`       // gossip addresses of servers: host or host:port
	RetryInterval   time.Duration `hcl:"retry_interval"`

	// Encrypt is the first key of the gossip: see gossip.Encryption, also for the two below.
	Encrypt        structs.Secret `hcl:"encrypt"`
	VerifyIncoming bool           `hcl:"encrypt_verify_incoming"`
	VerifyOutgoing bool           `hcl:"encrypt_verify_outgoing"`

	HeartbeatTTL   time.Duration `hcl:"heartbeat_ttl"`     // a node sends its next heartbeat within this
	HeartbeatGrace time.Duration `hcl:"heartbeat_grace"`   // a node is down when its heartbeat is this late
	MaxNodeLease   time.Duration `hcl:"max_node_lease"`    // the longest lease that an operator can order
	EvalGC         time.Duration `hcl:"eval_gc_threshold"` // age of ended evaluations and allocations
	JobGC          time.Duration `hcl:"job_gc_threshold"`  // age of ended jobs, from their end
	NodeGC         time.Duration `hcl:"node_gc_threshold"`
	// ClockQuarantine is the time for which most servers agree before the cluster time follows their clocks.
	ClockQuarantine time.Duration `hcl:"clock_quarantine"`
	GCInterval      time.Duration `hcl:"gc_interval"`
	GCRows          int           `hcl:"gc_max_rows"`        // ended rows of a kind that stay
	RaftMultiplier  int           `hcl:"raft_multiplier"`    // scales Raft's timeouts: 1 for a fast network
	FenceParallel   int           `hcl:"fence_max_parallel"` // nodes that are fenced at once

	SnapshotThreshold uint64 `hcl:"raft_snapshot_threshold"` // log entries between snapshots
	TrailingLogs      uint64 `hcl:"raft_trailing_logs"`      // entries behind a snapshot for slow followers

	MaxConnsPerAddr int `hcl:"rpc_max_conns_per_client"` // RPC connections of one remote address

	// JobSource bounds the source of a job that the servers store, with its variables. 0 stores none.
	JobSource conf.ByteSize `hcl:"job_max_source_size"`

	RedundancyZone string `hcl:"redundancy_zone"`   // one server of each zone votes
	NonVoting      bool   `hcl:"non_voting_server"` // it follows the log and never votes

	// Scheduler is the configuration that the first leader stores.
	Scheduler cluster.SchedulerSettings `hcl:"default_scheduler_config,block"`

	// Keyring says where the key-encryption key is, with which the servers open the keys of the secrets.
	Keyring keys.Settings `hcl:"keyring,block"`

	// OIDCIssuer is the address by which others find the public keys of identities: an URL, "" for none.
	OIDCIssuer string           `hcl:"oidc_issuer"`
	Identities idtoken.Settings `hcl:"workload_identity,block"`

	// Backup is how the leader saves archives of the state.
	Backup backup.Settings `hcl:"snapshot_agent,block"`

	events.Settings // of the event stream

	// Fencing has the devices that fence lost nodes. The servers try them in this order.
	Fencing []*fencing.Device `hcl:"fencing,block"`

	// The agent fills in the rest from its own blocks.
	Autopilot     autopilot.Settings
	ACL           rights.Settings
	DataDir       string // Raft and gossip files; made if missing
	AgentDir      string // all files of the agent, whose use is told when the disk is full; "": DataDir
	Name          string // unique among the servers
	Region        string
	Datacenter    string
	Version       string
	RPCBind       string // host:port of Raft and RPC
	RPCAdvertise  string // host:port for others; "" for the address bound
	SerfBind      string // host:port of the gossip
	SerfAdvertise string
	HTTPAdvertise string // host:port of this agent's HTTP API
	// OperatorSocket is the path of this agent's operator socket, which errors name.
	OperatorSocket string

	// Consul does the servers' work in Consul, nil: the agent uses none.
	Consul Consul
	// WorkloadLogins has the identities that workloads get for their logins at Vault and Consul.
	WorkloadLogins injection.Logins

	// Machine is the identity of the machine, "" for this one's. Tests set it.
	Machine structs.MachineID
	// PlaceWait is the time for which a server that has failed keeps its place from its copies: see
	// agentproof.CheckServer. 0 is placeWait. Tests set it.
	PlaceWait time.Duration

	// AgentSettings has the settings of the agent outside of this block that all servers should have alike, by
	// their names: see alike.
	AgentSettings map[string]string

	// Audit is the audit log of the agent, nil: it has none.
	Audit *auditlog.Log

	// Fencers are devices that prove that a lost node can no longer write, besides Fencing's. Tests set them.
	Fencers fence.Devices

	// AutoJoin says that FindServers finds the gossip addresses of other servers, where retry_join does not.
	AutoJoin    bool
	FindServers func(context.Context) ([]string, error)

	// DigestEvery is the time between two comparisons of the states of the servers. 0 is digestEvery. Tests set
	// it.
	DigestEvery time.Duration

	// AutopilotInterval is the time between two checks of the servers; 0 for autopilot's own. Tests set it.
	AutopilotInterval time.Duration

	TLS        *tls.Config // of the port, nil for plain TCP
	RequireTLS bool        // take nothing else, and decide on the rights of a caller by its certificate

	// Machines is how machines get their certificates.
	Machines join.Settings

	RaftTimeout time.Duration // of heartbeats and elections, times RaftMultiplier; 0 for raftTimeout
	// Dial and Gossip connect to other servers, nil for the real network without TLS. Tests can cut them.
	// Gossip returns the transport by which the gossip sends. It receives by the sockets of t.
	Dial rpc.Dialer
	// DialTLS connects to other servers with TLS alone; nil: Dial does, or there is no TLS.
	DialTLS rpc.Dialer
	Gossip  func(t *memberlist.NetTransport) memberlist.NodeAwareTransport
}

// Consul is what the procedures and the leader's loops do in Consul.
type Consul interface {
	core.Consul
	cluster.Consul
}

// leastHeartbeat is the least heartbeat_ttl and heartbeat_grace. A node notices within half of the TTL, or
// a second, that a server does not answer (client.beatTimeout), and has the rest and the grace to reach
// another.
const leastHeartbeat = time.Second

// DefaultConfig returns the configuration of a server on one fast machine.
func DefaultConfig() Config {
	return Config{
		BootstrapExpect:   1,
		RetryInterval:     5 * time.Second,
		VerifyIncoming:    true,
		VerifyOutgoing:    true,
		HeartbeatTTL:      10 * time.Second,
		HeartbeatGrace:    10 * time.Second,
		MaxNodeLease:      30 * time.Minute,
		EvalGC:            time.Hour,
		JobGC:             4 * time.Hour,
		NodeGC:            24 * time.Hour,
		GCInterval:        5 * time.Minute,
		GCRows:            20_000,
		FenceParallel:     1,
		RaftMultiplier:    1,
		ClockQuarantine:   time.Hour,
		SnapshotThreshold: 16384,
		TrailingLogs:      10240,
		MaxConnsPerAddr:   rpc.DefaultConnsPerAddr,
		JobSource:         1_000_000,
		Scheduler:         cluster.DefaultSchedulerSettings(),
		Identities:        idtoken.DefaultSettings(),
		Backup:            backup.DefaultSettings(),
		Settings:          events.DefaultSettings(),
		Autopilot:         autopilot.DefaultSettings(),
		Region:            "global",
		Datacenter:        "dc1",
		RPCBind:           "0.0.0.0:4747",
		SerfBind:          "0.0.0.0:4748",
	}
}

// The least and the most gc_max_rows. A rolling update of a large job ends thousands of allocations at once.
const (
	minGCRows = 100
	maxGCRows = 10_000_000
)

// maxRaftEntries is the most log entries that a setting may make a server keep.
const maxRaftEntries = 10_000_000

// Validate joins all faults of a configuration.
func (c *Config) Validate() error {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, args...))
	}
	faults = append(faults, c.Autopilot.Validate(), gossip.CheckKey(c.Encrypt), c.Keyring.Validate(),
		c.Identities.Validate(), c.Backup.Validate(), idtoken.CheckIssuer(c.OIDCIssuer),
		c.Settings.Validate())
	c.checkVote(bad)
	if c.DataDir == "" {
		bad("server: data_dir is required")
	}
	if c.Name == "" {
		bad("server: name is required")
	}
	if c.RaftMultiplier < 1 || c.RaftMultiplier > 10 {
		bad("server: raft_multiplier is %d; expected 1 to 10", c.RaftMultiplier)
	}
	if c.GCRows < minGCRows || c.GCRows > maxGCRows {
		bad("server: gc_max_rows is %d; expected %d to %d", c.GCRows, minGCRows, maxGCRows)
	}
	if c.MaxConnsPerAddr < 1 {
		bad("server: rpc_max_conns_per_client is %d; expected 1 or more", c.MaxConnsPerAddr)
	}
	if c.JobSource < 0 || c.JobSource > structs.MaxJobSource {
		bad("server: job_max_source_size is %d bytes; expected 0, which stores no sources, to %d",
			c.JobSource, structs.MaxJobSource)
	}
	if c.FenceParallel < 1 || c.FenceParallel > fence.MostParallel {
		bad("server: fence_max_parallel is %d; expected 1 to %d", c.FenceParallel, fence.MostParallel)
	}
	c.checkDurations(bad)
	first := c.Scheduler.Row()
	if err := validate.SchedulerConfig(&first); err != nil {
		bad("server: default_scheduler_config: %w", err)
	}
	for name, n := range map[string]uint64{
		"raft_snapshot_threshold": c.SnapshotThreshold,
		"raft_trailing_logs":      c.TrailingLogs,
	} {
		if n < 1 || n > maxRaftEntries {
			bad("server: %s is %d; expected 1 to %d", name, n, maxRaftEntries)
		}
	}
	for name, addr := range map[string]string{
		"addresses.rpc":  c.RPCBind,
		"addresses.serf": c.SerfBind,
	} {
		_, _, err := net.SplitHostPort(addr)
		if err != nil {
			bad("server: %s: %w", name, err)
		}
	}
	return errors.Join(append(faults, fencing.ValidateAll(c.Fencing))...)
}

// maxZone bounds a redundancy_zone in bytes: the gossip carries 512 bytes of all tags of a server.
const maxZone = 64

// checkVote reports the faults of the settings that decide on the first vote and on later ones.
func (c *Config) checkVote(bad func(format string, args ...any)) {
	if c.BootstrapExpect < 0 || c.BootstrapExpect > 9 {
		bad("server: bootstrap_expect is %d; expected the number of servers, 1 to 9, or 0 to join others only", c.BootstrapExpect)
	}

	if c.BootstrapExpect > 1 && c.BootstrapExpect%2 == 0 {
		bad("server: bootstrap_expect is %d; expected an odd number, since an even one survives no more "+
			"failures than the odd one below it", c.BootstrapExpect)
	}

	if c.BootstrapExpect != 1 && len(c.RetryJoin) == 0 && !c.AutoJoin {
		bad("server: retry_join is required where bootstrap_expect is not 1: " +
			"the servers have to find each other, unless consul.server_auto_join finds them")
	}

	if c.NonVoting && c.BootstrapExpect != 0 {
		bad("server: bootstrap_expect is %d with non_voting_server; expected 0: a server without a vote joins others", c.BootstrapExpect)
	}

	if len(c.RedundancyZone) > maxZone {
		bad("server: redundancy_zone has %d bytes; at most %d are allowed", len(c.RedundancyZone), maxZone)
	}
}

// setting is a duration with its name in the configuration.
type setting struct {
	name string
	d    time.Duration
}

// checkDurations reports the faults of all durations.
func (c *Config) checkDurations(bad func(format string, args ...any)) {
	for _, v := range []setting{
		{"retry_interval", c.RetryInterval},
		{"gc_interval", c.GCInterval},
		{"clock_quarantine", c.ClockQuarantine},
		{"eval_gc_threshold", c.EvalGC},
		{"job_gc_threshold", c.JobGC},
		{"max_node_lease", c.MaxNodeLease},
		{"node_gc_threshold", c.NodeGC},
	} {
		if v.d <= 0 || v.d > structs.MaxInterval {
			bad("server: %s is %s; expected more than 0 and at most %s", v.name, v.d, structs.MaxInterval)
		}
	}

	for _, v := range []setting{
		{"heartbeat_ttl", c.HeartbeatTTL},
		{"heartbeat_grace", c.HeartbeatGrace},
	} {
		if v.d < leastHeartbeat {
			bad("server: %s is %s; expected %s or more: nodes need that time to switch to another server when one is cut off", v.name, v.d, leastHeartbeat)
		}
	}
}

// fencers returns the fence devices in the order in which they are tried.
func (c *Config) fencers() fence.Devices {
	return append(fence.NewDevices(c.Fencing), c.Fencers...)
}

// control returns the configuration of the leader loops.
func (c *Config) control() control.Config {
	loops := control.DefaultConfig()
	loops.Leases.TTL = c.HeartbeatTTL
	loops.Leases.Grace = c.HeartbeatGrace
	loops.Leases.Longest = c.MaxNodeLease
	loops.Leases.BootID = boottime.ID()
	loops.Authority = c.Machines.Authority
	loops.FenceParallel = c.FenceParallel
	loops.GCInterval = c.GCInterval
	loops.RotateSigning = c.Identities.RotateAfter
	loops.Scheduler = c.Scheduler.Row()
	loops.GCKeep = garbage.Thresholds{
		Eval: c.EvalGC,
		Job:  c.JobGC,
		Node: c.NodeGC,
		Rows: c.GCRows,
	}

	return loops
}

// placeWait is long enough for a look at a machine that does not answer.
const placeWait = 5 * time.Minute

func (c *Config) placeWait() time.Duration { return cmp.Or(c.PlaceWait, placeWait) }

func (c *Config) digestEvery() time.Duration { return cmp.Or(c.DigestEvery, digestEvery) }

func (c *Config) machine() structs.MachineID { return cmp.Or(c.Machine, agentproof.ReadMachine("/")) }

// sockets returns the addresses of the gossip.
func (c *Config) sockets() gossip.Sockets {
	return gossip.Sockets{
		Bind:      c.SerfBind,
		Advertise: c.SerfAdvertise,
		Transport: c.Gossip,
	}
}

// encryption returns how the gossip is encrypted.
func (c *Config) encryption() *gossip.Encryption {
	return &gossip.Encryption{
		Dir:            c.DataDir,
		Key:            c.Encrypt,
		VerifyIncoming: c.VerifyIncoming,
		VerifyOutgoing: c.VerifyOutgoing,
		RequireTLS:     c.RequireTLS,
	}
}
