package server_test

import (
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/server/raftfiles"
	"berth/test/kit"
)

// The log entries of 200 services of 10 allocations that eight clients register over HTTP: registrations and
// plans that share entries.
const (
	aloneAllocs  = 2000
	aloneEntries = 72
	aloneBytes   = 1_200_000 // of all entries
)

// BenchmarkRaftAlone writes these entries to Raft with its log on disk and does not apply them, one after
// another, as the batches of a server do. The unit is an allocation.
func BenchmarkRaftAlone(b *testing.B) {
	r := startRaftAlone(b)
	write := func() {
		for range aloneEntries {
			err := r.Apply(make([]byte, aloneBytes/aloneEntries), time.Minute).Error()
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	write() // the file grows to its size
	m := kit.BeginMeter(b)
	for b.Loop() {
		write()
		m.Round()
	}
	m.End(aloneAllocs)
}

func startRaftAlone(b *testing.B) *raft.Raft {
	dir := b.TempDir()
	id, err := raftfiles.ServerID(dir)
	if err != nil {
		b.Fatal(err)
	}
	logger := hclog.NewNullLogger()
	files, err := raftfiles.Open(raftfiles.Options{
		DataDir: dir,
		ID:      id,
		Logger:  logger,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = files.Close() })
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(id)
	cfg.Logger = logger
	cfg.BatchApplyCh = true
	addr, transport := raft.NewInmemTransport("")
	r, err := raft.NewRaft(cfg, idleFSM{}, files.Log, files.Log, files.Snapshots, transport)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Shutdown().Error() })
	only := raft.Server{ID: cfg.LocalID, Address: addr}
	err = r.BootstrapCluster(raft.Configuration{Servers: []raft.Server{only}}).Error()
	if err != nil {
		b.Fatal(err)
	}
	<-r.LeaderCh()
	return r
}

// idleFSM does not apply entries.
type idleFSM struct{}

func (idleFSM) Apply(*raft.Log) any { return nil }

func (idleFSM) Snapshot() (raft.FSMSnapshot, error) { return idleFSM{}, nil }

func (idleFSM) Restore(io.ReadCloser) error { return nil }

func (idleFSM) Persist(sink raft.SnapshotSink) error { return sink.Close() }

func (idleFSM) Release() {}
