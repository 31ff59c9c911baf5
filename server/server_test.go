package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"berth/internal/agenttest"
	"berth/internal/keyring"
	"berth/internal/snaparchive"
	"berth/rpc"
	"berth/server/control"
	"berth/state"
	"berth/structs"
)

// patience is the time for which a test waits for a condition.
const patience = 2 * time.Minute

// noLeaks fails the test when goroutines are left of it.
func noLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		var left error
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			left = goleak.Find()
			if left == nil {
				return
			}
		}
		t.Error(left)
	})
}

// testConfig is a server of one on the loopback.
func testConfig(t *testing.T) Config {
	t.Helper()
	c := DefaultConfig()
	c.DataDir, c.Name = filepath.Join(t.TempDir(), "data"), "s1"
	c.RPCBind = "127.0.0.1:0"
	c.SerfBind = "127.0.0.1:0"
	c.RaftTimeout = 100 * time.Millisecond
	c.AutopilotInterval = 500 * time.Millisecond
	c.Autopilot.ServerStabilizationTime = 0
	c.Autopilot.LastContactThreshold = 10 * time.Second
	return c
}

// running is a server in its Run.
type running struct {
	*Server
	t    *testing.T
	stop func()
}

// run starts a server and waits until it leads.
func run(t *testing.T, cfg Config) *running {
	t.Helper()
	s, err := New(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, s)
}

// start runs a server and waits until it leads.
func start(t *testing.T, s *Server) *running {
	t.Helper()
	r := startAny(t, s)
	r.until("it leads", func() bool {
		_, leads, _, _ := s.Leader()
		return leads
	})
	return r
}

// until polls a condition without a notification.
func (r *running) until(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.After(patience); !holds(); {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			r.t.Fatalf("condition not met: %s", what)
		}
	}
}

// rows waits until the state is as wanted.
func (r *running) rows(what string, holds func(tx *state.ReadTx) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		tx := r.store.ReadWatched()
		if holds(tx) {
			return
		}
		if err := r.store.Wait(ctx, tx); err != nil {
			r.t.Fatalf("condition not met: %s", what)
		}
	}
}

func (r *running) register(job string) {
	r.t.Helper()
	_, err := rpc.Call(r.t.Context(), r, structs.JobRegister, &structs.JobRegisterRequest{Job: &structs.Job{
		ID:          job,
		Type:        structs.JobService,
		Datacenters: []string{"dc1"},
		TaskGroups: []*structs.TaskGroup{
			{
				Name:  "g",
				Count: 1,
				Tasks: []*structs.Task{{
					Name:   "t",
					Driver: "exec",
					Config: map[string]any{"command": "true"},
				}},
			}},
	}})
	if err != nil {
		r.t.Fatalf("registering %s: %v", job, err)
	}
}

func (r *running) has(job string) bool {
	return state.Job(r.store.Read(), structs.DefaultNamespace, job) != nil
}

func TestServer_KeepsRowsAcrossARestart(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	s := run(t, cfg)
	s.register("one")
	id, index := s.id, s.store.Index()
	s.stop()
	if _, _, err := s.Propose(t.Context(), nil); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("an entry after the end: %v, want unavailable", err)
	}

	s = run(t, cfg)
	if !s.has("one") || s.store.Index() < index || s.id != id {
		t.Errorf("after a restart: job %v, index %d (before %d), id %s (before %s)", s.has("one"), s.store.Index(),
			index, s.id, id)
	}
	if s.consensus.fresh || s.tags()[tagBootstrap] != "1" {
		t.Error("server with a log is fresh")
	}
	s.register("two")
}

func TestServer_StartsFromTheSnapshotOfACompactedLog(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	cfg.SnapshotThreshold, cfg.TrailingLogs = 4, 2
	s := run(t, cfg)
	for i := range 20 {
		s.register(fmt.Sprint("job", i))
	}
	if err := s.SnapshotSave(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	s.register("after")
	if first, err := s.consensus.files.Log.FirstIndex(); err != nil || first < 10 {
		t.Fatalf("log begins at %d (%v), want a compacted log", first, err)
	}
	s.stop()
	s = run(t, cfg)
	for _, job := range []string{"job0", "job19", "after"} {
		if !s.has(job) {
			t.Errorf("job %s is lost", job)
		}
	}
}

func TestRestore_BringsTheStateBack(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	cfg.HeartbeatTTL, cfg.HeartbeatGrace = 10*time.Minute, time.Minute
	s := run(t, cfg)
	s.register("one")
	var archive bytes.Buffer
	if err := s.SnapshotSave(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	s.register("two")
	before := s.store.Index()
	if err := s.SnapshotRestore(t.Context(), &archive, keyring.RestoreKeys{}); err != nil {
		t.Fatal(err)
	}
	s.rows("the archive's jobs", func(tx *state.ReadTx) bool {
		return state.Job(tx, structs.DefaultNamespace, "one") != nil &&
			state.Job(tx, structs.DefaultNamespace, "two") == nil
	})
	s.until("it leads on", func() bool {
		_, leads, _, _ := s.Leader()
		return leads
	})
	s.register("three")
	if s.store.Index() <= before {
		t.Errorf("index fell from %d to %d", before, s.store.Index())
	}
	if left, _ := filepath.Glob(filepath.Join(cfg.DataDir, "restore-*")); len(left) > 0 {
		t.Errorf("files left behind: %v", left)
	}
	s.stop()
	s = run(t, cfg)
	if !s.has("one") || s.has("two") || !s.has("three") {
		t.Errorf("after a restart: one %v, two %v, three %v", s.has("one"), s.has("two"), s.has("three"))
	}
}

// A node of an archive may have been gone for long: its lease begins with the restore, and ends.
func TestRestore_GivesNodesALease(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	cfg.HeartbeatTTL, cfg.HeartbeatGrace = time.Second, time.Second
	s := run(t, cfg)
	node := &structs.Node{
		ID:       "n1",
		SecretID: "secret",
		Name:     "n1",
		Status:   structs.NodeReady,
	}
	var archive bytes.Buffer
	for ready := false; !ready; { // on a busy machine the lease may end before the archive is saved
		req := &structs.NodeRegisterRequest{Node: node}
		agenttest.Stamp(req)
		_, err := rpc.Call(t.Context(), s, structs.NodeRegister, req)
		if err != nil {
			t.Fatal(err)
		}
		archive.Reset()
		err = s.SnapshotSave(t.Context(), &archive)
		if err != nil {
			t.Fatal(err)
		}
		ready = state.Node(s.store.Read(), "n1").Status == structs.NodeReady
	}
	downAfter := func(index uint64) func(tx *state.ReadTx) bool {
		return func(tx *state.ReadTx) bool {
			n := state.Node(tx, "n1")
			return n != nil && n.Status == structs.NodeDown && n.ModifyIndex > index
		}
	}
	s.rows("its lease ends", downAfter(0))
	before := s.store.Index()
	if err := s.SnapshotRestore(t.Context(), &archive, keyring.RestoreKeys{}); err != nil {
		t.Fatal(err)
	}
	// It becomes down anew, so it was as in the archive before.
	s.rows("its lease ends again", downAfter(before))
}

func TestRestore_OfADamagedArchiveChangesNothing(t *testing.T) {
	noLeaks(t)
	s := run(t, testConfig(t))
	s.register("one")
	var saved bytes.Buffer
	if err := s.SnapshotSave(t.Context(), &saved); err != nil {
		t.Fatal(err)
	}
	s.register("two")
	flipped := bytes.Clone(saved.Bytes())
	flipped[len(flipped)/2] ^= 1
	var alien bytes.Buffer
	text := "no state at all"
	if err := snaparchive.Write(&alien, snaparchive.Meta{Index: 5, Term: 1}, int64(len(text)),
		strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	for name, archive := range map[string][]byte{
		"index near 2^64":         reindexed(t, saved.Bytes(), 1<<64-2),
		"rows newer than the log": reindexed(t, saved.Bytes(), 1),
		"empty":                   nil, "text": []byte("hello"), "cut short": saved.Bytes()[:saved.Len()-7],
		"a bit flipped":          flipped,
		"whole, of another kind": alien.Bytes(),
	} {
		err := s.SnapshotRestore(t.Context(), bytes.NewReader(archive), keyring.RestoreKeys{})
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v (%s), want invalid", name, err, structs.KindOf(err))
		}
		if !s.has("one") || !s.has("two") {
			t.Errorf("%s: the state was changed", name)
		}
	}
	var redacted bytes.Buffer
	meta := snaparchive.Meta{Index: 5, Term: 1, Redacted: true}
	err := snaparchive.Write(&redacted, meta, 0, new(bytes.Buffer))
	if err == nil {
		err = s.SnapshotRestore(t.Context(), &redacted, keyring.RestoreKeys{})
	}
	if !structs.IsKind(err, structs.KindPrecondition) || !s.has("two") {
		t.Errorf("a redacted archive: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.cfg.DataDir, "restore-*")); len(left) > 0 {
		t.Errorf("files left behind: %v", left)
	}
}

func TestConfig_ValidateNamesAllFaults(t *testing.T) {
	valid := func(c *Config) {
		c.DataDir, c.Name = "/data", "s1"
	}
	for name, tc := range map[string]struct {
		edit func(*Config)
		want []string
	}{
		"good": {valid, nil},
		"nothing": {func(c *Config) { *c = Config{} }, []string{"data_dir", "name", "retry_join", "raft_multiplier",
			"heartbeat_ttl", "retry_interval", "gc_interval", "eval_gc_threshold", "job_gc_threshold",
			"node_gc_threshold", "raft_snapshot_threshold is 0", "raft_trailing_logs is 0", "addresses.rpc",
			"addresses.serf"}},
		"too long": {func(c *Config) { valid(c); c.NodeGC = math.MaxInt64 }, []string{"node_gc_threshold is",
			"at most 87600h0m0s"}},
		"few rows":  {func(c *Config) { valid(c); c.GCRows = 99 }, []string{"gc_max_rows is 99; expected 100 to"}},
		"many rows": {func(c *Config) { valid(c); c.GCRows = maxGCRows + 1 }, []string{"gc_max_rows is 10000001"}},
		"too many logs": {func(c *Config) { valid(c); c.TrailingLogs = math.MaxUint64 },
			[]string{"raft_trailing_logs is 18446744073709551615; expected 1 to"}},
		"no events": {func(c *Config) { valid(c); c.EventBuffer = 0 },
			[]string{"event_buffer_size is 0; expected 1 to 1000000, or enable_event_broker = false"}},
		"large sources": {func(c *Config) { valid(c); c.JobSource = 8<<20 + 1 },
			[]string{"job_max_source_size is 8388609 bytes; expected 0, which stores no sources, to 8388608"}},
		"negative sources": {func(c *Config) { valid(c); c.JobSource = -1 }, []string{"job_max_source_size is -1"}},
		"no sources":       {func(c *Config) { valid(c); c.JobSource = 0 }, nil},
		"even": {func(c *Config) { valid(c); c.BootstrapExpect, c.RetryJoin = 4, []string{"x"} },
			[]string{"expected an odd number"}},
		"too many": {func(c *Config) { valid(c); c.BootstrapExpect, c.RetryJoin = 11, []string{"x"} },
			[]string{"bootstrap_expect is 11"}},
		"short leases": {func(c *Config) {
			valid(c)
			c.HeartbeatTTL, c.HeartbeatGrace = 999*time.Millisecond,
				time.Nanosecond
		}, []string{"heartbeat_ttl is 999ms; expected 1s or more", "heartbeat_grace is 1ns"}},
		"alone":        {func(c *Config) { valid(c); c.BootstrapExpect = 3 }, []string{"retry_join is required"}},
		"joining only": {func(c *Config) { valid(c); c.BootstrapExpect, c.RetryJoin = 0, []string{"x"} }, nil},
		"scheduler": {func(c *Config) { valid(c); c.Scheduler.Algorithm = "best" },
			[]string{`default_scheduler_config: SchedulerAlgorithm is "best"`}},
		"address": {func(c *Config) { valid(c); c.RPCBind = "nowhere" }, []string{"addresses.rpc"}},
	} {
		c := DefaultConfig()
		tc.edit(&c)
		err := c.Validate()
		if (err == nil) != (len(tc.want) == 0) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range tc.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v does not name %q", name, err, want)
			}
		}
	}
}

// occupy takes a port, for TCP or for UDP.
func occupy(t *testing.T, network string) string {
	t.Helper()
	if network == "udp" {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn.LocalAddr().String()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

// damage writes nonsense over a file of a server that has run once.
func damage(t *testing.T, c *Config, file string) {
	t.Helper()
	run(t, *c).stop()
	if err := os.WriteFile(filepath.Join(c.DataDir, file), bytes.Repeat([]byte("nonsense"), 1000),
		0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNew_LeavesNothingOpenWhenItFails(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, c *Config){
		"the RPC port is in use":          func(t *testing.T, c *Config) { c.RPCBind = occupy(t, "tcp") },
		"the gossip's TCP port is in use": func(t *testing.T, c *Config) { c.SerfBind = occupy(t, "tcp") },
		"the gossip's UDP port is in use": func(t *testing.T, c *Config) { c.SerfBind = occupy(t, "udp") },
		"the gossip's port is no number":  func(_ *testing.T, c *Config) { c.SerfBind = "127.0.0.1:serf" },
		"no RPC address for others":       func(_ *testing.T, c *Config) { c.RPCBind = "0.0.0.0:0" },
		"the RPC address is none":         func(_ *testing.T, c *Config) { c.RPCAdvertise = "nowhere" },
		"the gossip's address is none":    func(_ *testing.T, c *Config) { c.SerfAdvertise = "127.0.0.1" },
		"tags that are too long": func(_ *testing.T, c *Config) {
			c.HTTPAdvertise = strings.Repeat("x", 1000)
		},
		"the data directory cannot be made": func(_ *testing.T, c *Config) { c.DataDir = "/dev/null/data" },
		"Damaged log":                       func(t *testing.T, c *Config) { damage(t, c, "raft/wal/wal-meta.db") },
		"Damaged gossip directory": func(t *testing.T, c *Config) {
			if err := errors.Join(os.MkdirAll(c.DataDir, 0o700), os.WriteFile(filepath.Join(c.DataDir, "serf"), nil,
				0o600)); err != nil {
				t.Fatal(err)
			}
		},
		"Data directory in use": func(t *testing.T, c *Config) { run(t, *c) },
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			cfg := testConfig(t)
			good := cfg
			spoil(t, &cfg)
			s, err := New(cfg, hclog.NewNullLogger())
			if err == nil {
				t.Fatal("New returned no error")
			}
			if s != nil {
				t.Error("New returned a server with an error")
			}
			if cfg.DataDir != good.DataDir || strings.HasPrefix(name, "D") {
				return
			}
			run(t, good).register("one") // nothing of the first try is in its way
		})
	}
}

func TestRaftError_HasTheKindOfItsOutcome(t *testing.T) {
	for err, want := range map[error]structs.Kind{
		raft.ErrNotLeader: structs.KindUnavailable, raft.ErrLeadershipTransferInProgress: structs.KindUnavailable,
		raft.ErrEnqueueTimeout: structs.KindUnavailable, raft.ErrRaftShutdown: structs.KindUnavailable,
		raft.ErrLeadershipLost: structs.KindTimeout, raft.ErrAbortedByRestore: structs.KindTimeout,
		errors.New("no space left on device"):           structs.KindTimeout,
		fmt.Errorf("in between: %w", raft.ErrNotLeader): structs.KindUnavailable,
	} {
		got := raftError(err)
		if !structs.IsKind(got, want) || !errors.Is(got, err) {
			t.Errorf("%v: %v is %s, want %s", err, got, structs.KindOf(got), want)
		}
		elsewhere := want == structs.KindUnavailable && !errors.Is(err, raft.ErrEnqueueTimeout)
		if structs.IsNotServed(got) != elsewhere {
			t.Errorf("%v: may another server be called: %v, want %v", err, !elsewhere, elsewhere)
		}
	}
}

// The loops of one leadership have all ended before those of the next begin, and before Run returns.
func TestLeadership_NeverRunsTheLoopsTwice(t *testing.T) {
	noLeaks(t)
	s, err := New(testConfig(t), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	var alive, begun atomic.Int32
	loop := control.Loop{Name: "test", Run: func(ctx context.Context) {
		if alive.Add(1) > 1 {
			t.Error("server runs before Run")
		}
		begun.Add(1)
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond) // the longer it takes to end, the better
		alive.Add(-1)
	}}
	s.loops = func() []control.Loop {
		return []control.Loop{loop}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r := &running{s, t, cancel}
	for i := range int32(5) {
		r.until("the loop begins", func() bool {
			return begun.Load() == i+1
		})
		err := s.betweenLoops(t.Context(), func() error { // one of the ways to restart the loops
			if n := alive.Load(); n != 0 {
				t.Errorf("%d leader loops run, want 0", n)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-ended; err != nil || alive.Load() != 0 {
		t.Errorf("Run returned %v with %d loops alive", err, alive.Load())
	}
}
