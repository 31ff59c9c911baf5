// Command fill makes the data of a peer's server that has volumes with claims already, as a snapshot of Raft
// from which it starts: to make 100,000 claims by its RPC takes minutes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"berth/bench/peer/shape"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func main() {
	dir := flag.String("dir", "", "the server's data_dir, which need not be there")
	addr := flag.String("addr", "127.0.0.1:4647", "the server's RPC address")
	nodes := flag.Int("nodes", 1000, "size of the fleet")
	volumes := flag.Int("vols", 10000, "volumes")
	each := flag.Int("each", 10, "claims of each")
	allocs := flag.Int("allocs", 5000, "allocations, whose claims they are")
	flag.Parse()
	check(run(filepath.Join(*dir, "server"), *addr, shape.Fill{
		Nodes:           *nodes,
		Volumes:         *volumes,
		ClaimsPerVol:    *each,
		SharedVolClaims: -1,
		Allocs:          *allocs,
		FewAllocs:       true,
	}))
}

func run(dir, addr string, fill shape.Fill) error {
	id := shape.UUID("server", 0)
	if err := os.MkdirAll(filepath.Join(dir, "raft"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "node-id"), []byte(id), 0o600); err != nil {
		return err
	}
	fsm := shape.NewFSM(true)
	fill.Do(fsm.State())
	snap, err := fsm.Snapshot()
	if err != nil {
		return err
	}
	store, err := raft.NewFileSnapshotStoreWithLogger(filepath.Join(dir, "raft"), 2, hclog.NewNullLogger())
	if err != nil {
		return err
	}
	alone := raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter,
		ID:       raft.ServerID(id),
		Address:  raft.ServerAddress(addr),
	}}}
	_, transport := raft.NewInmemTransport(raft.ServerAddress(addr)) // it writes addresses as they are
	sink, err := store.Create(raft.SnapshotVersionMax, 100, 1, alone, 1, transport)
	if err != nil {
		return err
	}
	if err := snap.Persist(sink); err != nil {
		return err
	}
	return sink.Close()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}
