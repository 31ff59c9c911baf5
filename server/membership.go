package server

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"berth/internal/agentproof"
	"berth/internal/backoff"
	"berth/internal/level"
	"berth/server/gossip"
	"berth/structs"
)

// The tags by which servers describe themselves in the gossip.
const (
	tagRole      = "role"
	tagID        = "id"
	tagRPCAddr   = "rpc_addr"
	tagHTTPAddr  = "http_addr"
	tagPort      = "port" // of rpc_addr, as in the Nomad HTTP API
	tagRegion    = "region"
	tagDC        = "dc"
	tagExpect    = "expect"
	tagBootstrap = "bootstrapped" // this server is or was part of a Raft cluster
	tagVersion   = "build"
	tagLevel     = "level" // see package level
	tagZone      = "redundancy_zone"
	tagNonVoting = "nonvoter" // this server never votes
	tagMachine   = "machine"  // the identity of its machine
	tagHeld      = "held"     // it must not vote: its data directory is from another machine
	tagKEK       = "kek"      // the fingerprint of its key-encryption key: see package keys
	tagACL       = "acl"      // the mode of access control in its configuration

	roleServer = "berth-server"
)

// peer is another server as the gossip sees it.
type peer struct {
	name, id, rpcAddr, httpAddr string
	version, zone, kek, aclMode string
	expect, level               int
	bootstrapped, nonVoting     bool
	held                        bool
	status                      serf.MemberStatus
}

// membership is the gossip among servers.
type membership struct {
	serf   *serf.Serf
	logger hclog.Logger
	region string
	events chan serf.Event
	// changed holds one element: its reader reads all members.
	changed chan struct{}
	tagLock sync.Mutex
	history gossip.History
	names   *gossip.Names
	places  *gossip.Places
	least   atomic.Int32 // the least level of the servers
	// joined is closed when another server has answered, or if none is configured.
	joined chan struct{}
}

// reclaimAfter is the time after which another server may take the name of a failed one at another address.
// It is short, because a server that has failed has been silent for seconds already.
const reclaimAfter = time.Millisecond

func startMembership(
	cfg *Config,
	tags map[string]string,
	logger hclog.Logger,
) (*membership, error) {
	m := &membership{
		logger:  logger,
		region:  cfg.Region,
		events:  make(chan serf.Event, 256),
		changed: make(chan struct{}, 1),
		joined:  make(chan struct{}),
	}
	m.places = newPlaces(cfg, tags, logger)

	snapshot := filepath.Join(cfg.DataDir, "serf", "local.snapshot")
	err := os.MkdirAll(filepath.Dir(snapshot), 0o700)
	if err != nil {
		return nil, err
	}

	sc := serf.DefaultConfig()
	sc.Init()
	sc.NodeName = cfg.Name + "." + cfg.Region
	sc.Tags = tags
	sc.Tags[tagLevel] = strconv.Itoa(level.Now)
	sc.EventCh = m.events
	sc.SnapshotPath = snapshot
	sc.Merge = m.places

	// Without it a server that has left ignores its snapshot at the next start, and knows no other server.
	sc.RejoinAfterLeave = true

	// Serf would end a server whose name another one has. The leader decides instead: see removalReason.
	sc.EnableNameConflictResolution = false
	sc.MemberlistConfig.DeadNodeReclaimTime = reclaimAfter
	sc.Logger = logger.StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true})
	sc.MemberlistConfig.Logger = sc.Logger
	err = cfg.encryption().Apply(sc, logger)
	if err != nil {
		return nil, err
	}

	transport, err := cfg.sockets().Open(sc.MemberlistConfig, logger)
	if err != nil {
		return nil, err
	}

	m.names = gossip.WatchNames(sc, tags[tagID], serverID, logger)
	m.serf, err = gossip.Create(sc, logger)
	if err != nil {
		err = structs.Internalf("starting the gossip on %s: %w", cfg.SerfBind, err)
		return nil, errors.Join(err, transport.Shutdown())
	}
	m.names.Follow(m.serf.LocalMember)

	m.learnLevel()
	return m, nil
}

// newPlaces makes the knowledge of where each server runs. It knows the place of this one.
func newPlaces(cfg *Config, tags map[string]string, logger hclog.Logger) *gossip.Places {
	return gossip.NewPlaces(gossip.PlacesConfig{
		Describe: describeMember,
		Check:    checkLevel,
		Self:     serf.Member{Name: cfg.Name + "." + cfg.Region, Tags: tags},
		Wait:     cfg.placeWait(),
		Logger:   logger,
	})
}

// run records gossip events and signals them until ctx ends.
func (m *membership) run(ctx context.Context) {
	for {
		select {
		case e := <-m.events:
			m.history.Record(e, serverID)
			m.places.Record(e)
			m.learnLevel()
			select {
			case m.changed <- struct{}{}:
			default:
			}
		case <-m.serf.ShutdownCh():
			return
		case <-ctx.Done():
			return
		}
	}
}

// join tries to reach other servers until one is found: first from retry_join, then from FindServers. This
// server itself may be among the addresses: its own answer does not count. A server that forms a cluster
// alone looks for no others unless retry_join names some.
func (m *membership) join(ctx context.Context, cfg *Config) {
	interval := cfg.RetryInterval
	for len(cfg.RetryJoin) > 0 || cfg.FindServers != nil && cfg.BootstrapExpect != 1 {
		_, err := m.joinEach(ctx, cfg.RetryJoin)
		if m.serf.NumNodes() <= 1 && cfg.FindServers != nil {
			err = errors.Join(err, m.joinFound(ctx, cfg.FindServers))
		}

		servers := m.serf.NumNodes()
		if servers > 1 {
			m.logger.Info("joined the gossip", "servers", servers)
			break
		}

		m.logger.Warn("failed to join another server, retrying; retry_join or Consul has to name one",
			"retry_in", interval,
			"retry_join", cfg.RetryJoin,
			"error", errors.Join(err, m.names.Fault()))
		if !backoff.Sleep(ctx, interval) {
			return
		}
	}

	close(m.joined)
}

// joinFound joins the servers that find knows.
func (m *membership) joinFound(ctx context.Context, find func(context.Context) ([]string, error)) error {
	addrs, err := find(ctx)
	if err != nil {
		return err
	}
	_, err = m.joinEach(ctx, addrs)
	return err
}

// joinEach tries one address after the other, so that the end of ctx does not wait for the timeouts of all.
// It returns the number of addresses that answered, and the faults of the others.
func (m *membership) joinEach(ctx context.Context, addrs []string) (answered int, err error) {
	var faults []error
	for _, addr := range addrs {
		if ctx.Err() != nil {
			return answered, ctx.Err()
		}
		_, err := m.serf.Join([]string{addr}, true)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		answered++
	}
	return answered, errors.Join(faults...)
}

// Join joins the gossip of the servers at some gossip addresses, once, and returns the number of addresses
// that answered. The error is unavailable if none of another server did. The log names the others.
func (s *Server) Join(ctx context.Context, addrs []string) (answered int, err error) {
	err = gossip.CheckAddresses(addrs)
	if err != nil {
		return 0, err
	}

	answered, err = s.members.joinEach(ctx, addrs)
	if s.members.serf.NumNodes() == 1 { // what answered is this server itself
		answered = 0
		err = errors.Join(err, cmp.Or(s.members.names.Fault(), errors.New("no other server is known")))
	}

	if answered == 0 {
		return 0, structs.Unavailablef("server %s cannot join: %w", s.cfg.Name, err)
	}

	if err != nil {
		s.logger.Warn("failed to join some of the servers", "error", err)
	}

	return answered, nil
}

// serverID returns the ID of a server in the gossip, "" for another member.
func serverID(m serf.Member) string {
	if m.Tags[tagRole] != roleServer {
		return ""
	}
	return m.Tags[tagID]
}

// describeMember returns the ID of a server in the gossip, "" for another member, and where it runs.
func describeMember(m serf.Member) (id string, at agentproof.Server) {
	return serverID(m), agentproof.Server{
		Name:    m.Name,
		Address: m.Tags[tagRPCAddr],
		Machine: structs.MachineID(m.Tags[tagMachine]),
		Held:    m.Tags[tagHeld] == "1",
	}
}

// peers lists the servers of the region, this one included, in the order of their IDs.
func (m *membership) peers() []peer {
	var out []peer
	for _, member := range m.serf.Members() {
		if member.Tags[tagRole] != roleServer ||
			member.Tags[tagRegion] != m.region {
			continue
		}

		expect, _ := strconv.Atoi(member.Tags[tagExpect])
		of, _ := strconv.Atoi(member.Tags[tagLevel])
		out = append(out, peer{
			name:         member.Name,
			id:           member.Tags[tagID],
			rpcAddr:      member.Tags[tagRPCAddr],
			httpAddr:     member.Tags[tagHTTPAddr],
			version:      member.Tags[tagVersion],
			zone:         member.Tags[tagZone],
			kek:          member.Tags[tagKEK],
			aclMode:      member.Tags[tagACL],
			expect:       expect,
			level:        of,
			bootstrapped: member.Tags[tagBootstrap] == "1",
			nonVoting:    member.Tags[tagNonVoting] == "1",
			held:         member.Tags[tagHeld] == "1",
			status:       member.Status,
		})
	}

	slices.SortFunc(out, func(a, b peer) int {
		return strings.Compare(a.id, b.id)
	})
	return out
}

// checkLevel rejects a server of a version before the first release. Each command needs a higher level, so
// nothing could be written beside it: see leastLevel.
func checkLevel(m serf.Member) error {
	of, _ := strconv.Atoi(m.Tags[tagLevel])
	if m.Tags[tagRole] != roleServer || of >= level.First {
		return nil
	}
	return structs.Preconditionf("server %s has level %d, and these servers need %d or later: it has a version "+
		"before 0.1.0. Update it, and start it with an empty data_dir", m.Name, of, level.First)
}

// learnLevel records the least level of the servers.
func (m *membership) learnLevel() {
	m.least.Store(int32(leastLevel(m.peers())))
}

// leastLevel returns the least level of servers: one that has failed is expected back, one that has left is
// not.
func leastLevel(peers []peer) int {
	least := level.Now
	for _, p := range peers {
		if p.status != serf.StatusLeft {
			least = min(least, p.level)
		}
	}
	return least
}

// level returns the least level of the servers.
func (s *Server) level() int { return int(s.members.least.Load()) }

// markBootstrapped announces in the gossip that there is a cluster, so that no other server forms a second
// one.
func (m *membership) markBootstrapped() { m.setTag(tagBootstrap, "1") }

// setTag changes a tag of this server.
func (m *membership) setTag(name, value string) {
	m.tagLock.Lock()
	defer m.tagLock.Unlock()
	tags := m.serf.LocalMember().Tags
	if tags[name] == value {
		return
	}
	copied := maps.Clone(tags)
	copied[name] = value
	if err := m.serf.SetTags(copied); err != nil {
		m.logger.Warn("failed to change a tag in the gossip", "tag", name, "error", err)
	}
}
