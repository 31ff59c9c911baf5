package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/files"
	"berth/server/raftfiles"
	"berth/state"
	"berth/structs"
)

// peersFile, in the directory raft of a starting server, replaces the members of the Raft configuration. It
// is the remedy after the loss of a majority. infoFile in the same directory explains it.
const (
	peersFile = "peers.json"
	infoFile  = "peers.info"
)

// infoText is the content of infoFile: the paths of the files, and this server's ID and address.
const infoText = `How to go on after a majority of the servers is lost for good

As long as a majority of the servers can come back, start them instead: this
loses nothing. The steps below lose every entry that only the lost servers
have.

1. Make sure that the lost servers never start again with their old data: two
   of them could elect a leader of their own beside the new one.
2. Stop all servers that are left.
3. On each of them write the same file %[1]s
   with one entry for each server that is left, and no others. This server's:

   [
     {"id": "%[2]s", "address": "%[3]s", "non_voter": false}
   ]

   The ID of each server is in the file server-id of its data directory. The
   address is the one of its RPC port.
4. Start them. Each takes the file in once, deletes it and says so in its log.
5. Start new servers in the place of the lost ones: they join by retry_join.
`

// writePeersInfo keeps the explanation of peersFile up to date.
func writePeersInfo(dataDir, id, addr string) error {
	dir := filepath.Join(dataDir, "raft")
	path := filepath.Join(dir, infoFile)
	text := fmt.Sprintf(infoText, filepath.Join(dir, peersFile), id, addr)
	b, err := os.ReadFile(path)
	if err == nil && string(b) == text {
		return nil
	}
	return files.WriteDurable(path, []byte(text))
}

// recoverPeers replaces the members of the Raft configuration by the members in peersFile, if there is one,
// and then deletes it. A fault leaves everything as it is and keeps the server from starting.
//
// A server that recovers may lack entries that only the lost servers had. So its nodes have to report
// their volumes, as after the restore of an archive, before a volume is staged anywhere.
func (c *consensus) recoverPeers(cfg *Config, logger hclog.Logger) error {
	path := filepath.Join(cfg.DataDir, "raft", peersFile)
	peers, err := readPeers(path, c.id)
	if err != nil || peers == nil {
		return err
	}

	if c.fresh {
		return structs.Preconditionf(
			"%s: this server has no state to continue from; write the file on a server that has", path)
	}

	logger.Warn("replacing the members of the raft configuration",
		"path", path, "servers", fmt.Sprint(peers.Servers))
	store := state.New()
	machine := recovering{fsm.New(store), store}
	log := c.files.Log
	rc := raftConfig(cfg, c.id, logger)
	err = raft.RecoverCluster(rc, machine, log, log, c.files.Snapshots, c.transport, *peers)
	if err != nil {
		return structs.Internalf("%s: replacing the members of the Raft configuration: %w", path, err)
	}

	// The operator's word is that this server is no copy.
	err = raftfiles.KeepMachine(cfg.DataDir, c.machine)
	if err != nil {
		return err
	}

	// A crash before this takes the file in once more, with the same result.
	if err := os.Remove(path); err != nil {
		return structs.Internalf("%s: deleting the file, which was taken in: %w", path, err)
	}

	logger.Warn("replaced the members of the raft configuration",
		"path", path,
		"last_index", store.Index())
	return nil
}

// readPeers reads a peersFile; nil without an error if there is none.
func readPeers(path string, me raft.ServerID) (*raft.Configuration, error) {
	fault := func(format string, args ...any) error {
		return structs.Invalidf("%s: %w (%s explains the file)", path, fmt.Errorf(format, args...), infoFile)
	}

	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault("%w", err)
	case !info.Mode().IsRegular(),
		info.Size() > structs.MaxPeersFile:
		return nil, fault("it is no file of at most %d bytes", structs.MaxPeersFile)
	}

	peers, err := raft.ReadConfigJSON(path)
	if err != nil {
		return nil, fault("%w", err)
	}

	var ids []string
	for _, s := range peers.Servers {
		if s.ID == me && s.Suffrage == raft.Voter {
			return &peers, nil
		}

		ids = append(ids, string(s.ID))
	}

	return nil, fault("it gives no vote to this server, whose ID is %s; it names %s",
		me, strings.Join(ids, ", "))
}

// recovering is the FSM with which the members are replaced: it marks its state as one that may have lost
// entries.
type recovering struct {
	*fsm.FSM
	store *state.Store
}

// Snapshot implements raft.FSM. All servers that recover from the same entries make the same state, so the
// time is one of the state's own.
func (r recovering) Snapshot() (raft.FSMSnapshot, error) {
	var now int64
	for n := range state.Nodes(r.store.Read()) {
		for _, e := range n.Events {
			now = max(now, e.Timestamp.UnixNano())
		}
	}

	err := r.store.Write(r.store.Index(), func(tx *state.WriteTx) error {
		state.Recover(tx, state.New().Read(), now)
		return nil
	})
	if err != nil {
		return nil, err
	}

	return r.FSM.Snapshot()
}
