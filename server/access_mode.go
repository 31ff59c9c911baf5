package server

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/serf/serf"

	"berth/fsm"
	"berth/internal/files"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// modeFile keeps the mode of access control of the cluster beside the state. After a start without a quorum
// the state comes from the last snapshot, which may be older than the mode.
const modeFile = "acl-mode.json"

// modeInterval is the time between two comparisons of the mode with the configurations of the servers.
const modeInterval = 5 * time.Second

// accessMode knows the mode of the cluster on one server.
type accessMode struct {
	path  string
	store *state.Store
	last  atomic.Pointer[keptMode]
}

// keptMode is the content of modeFile: the mode, and the index of the entry that stored it.
type keptMode struct {
	Mode  string
	Index uint64
}

// openAccessMode reads the mode that was last kept. A file that is not readable is an error: without it the
// server might answer everybody.
func openAccessMode(dir string, store *state.Store) (*accessMode, error) {
	m := &accessMode{path: filepath.Join(dir, modeFile), store: store}
	kept, err := readMode(m.path)
	if err != nil {
		return nil, structs.Internalf("reading the mode of access control, %s: %w; if it is damaged, write "+
			`{"Mode":"enforce"} into it`, m.path, err)
	}
	_, err = os.Lstat(m.path)
	if errors.Is(err, fs.ErrNotExist) { // the file has its space from the first start on
		err = m.write(kept)
	}
	if err != nil && !files.IsNoSpace(err) {
		return nil, err
	}
	m.last.Store(kept)
	return m, nil
}

// readMode reads a file with a mode. Without the file the mode is off.
func readMode(path string) (*keptMode, error) {
	kept := &keptMode{Mode: access.ModeOff}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return kept, nil
}

// KeptMode returns the mode of access control that the cluster of a server had last, before the server
// starts: off if its data folder has none. A damaged file is an error.
func KeptMode(dataDir string) (string, error) {
	kept, err := readMode(filepath.Join(dataDir, modeFile))
	if err != nil {
		return "", err
	}
	return kept.Mode, nil
}

// write replaces the file. On a full disk it writes over it, which needs no space. A power cut within that
// damages the file at most, and the next start says so.
func (m *accessMode) write(now *keptMode) error {
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	err = files.WriteDurable(m.path, text)
	if !files.IsNoSpace(err) {
		return err
	}

	f, missing := os.OpenFile(m.path, os.O_WRONLY, 0)
	if missing != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// mode returns the mode of the cluster. Until the state has reached the entry that the file names, it is the
// stricter one of both.
func (m *accessMode) mode() string {
	tx := m.store.Read()
	mode, _ := state.ACLMode(tx)
	kept := m.last.Load()
	if tx.Applied() < kept.Index {
		return access.StricterMode(mode, kept.Mode)
	}
	return mode
}

// followMode keeps the mode of the cluster in the file at each change, and says so.
func (s *Server) followMode(ctx context.Context) {
	m := s.accessMode
	for ctx.Err() == nil {
		tx := m.store.ReadWatched()
		mode, index := state.ACLMode(tx)
		wait := modeInterval
		if kept := m.last.Load(); tx.Applied() >= kept.Index && (mode != kept.Mode || index != kept.Index) {
			wait = s.keepMode(keptMode{Mode: mode, Index: index})
		}
		within, cancel := context.WithTimeout(ctx, wait)
		_ = m.store.Wait(within, tx)
		cancel()
	}
}

// keepMode writes the file. It returns the time after which a failed attempt is repeated.
func (s *Server) keepMode(now keptMode) time.Duration {
	err := s.accessMode.write(&now)
	if err != nil {
		s.logger.Error("failed to keep the mode of access control, retrying", "file", s.accessMode.path,
			"retry_in", modeInterval, "error", err)
		return modeInterval
	}
	before := s.accessMode.last.Swap(&now)
	if before.Mode != now.Mode {
		s.logger.Warn("the mode of access control of the cluster has changed", "mode", now.Mode,
			"before", before.Mode)
	}
	return time.Hour // a change of the row ends the wait
}

// tightenMode is the loop of the leader that stores the strictest mode of the configurations of the servers.
// It begins once there is a token, and never loosens the mode.
func (s *Server) tightenMode(ctx context.Context) {
	for ctx.Err() == nil {
		tx := s.store.ReadWatched()
		mode, _ := state.ACLMode(tx)
		wanted := mode
		for _, server := range s.configuredModes() {
			wanted = access.StricterMode(wanted, server.Mode)
		}
		if wanted != mode && state.ACLBootstrapped(tx) != 0 {
			_, err := fsm.Propose(ctx, s, fsm.ACLMode, &access.ModeChange{Mode: wanted})
			if err != nil && ctx.Err() == nil {
				s.logger.Warn("failed to tighten the mode of access control, retrying", "mode", wanted, "error", err)
			}
		}
		within, cancel := context.WithTimeout(ctx, modeInterval)
		_ = s.store.Wait(within, tx)
		cancel()
	}
}

// configuredModes returns the modes that the configurations of the servers ask for: of this one, and of those
// in the gossip that are alive.
func (s *Server) configuredModes() []access.ServerMode {
	modes := []access.ServerMode{{Name: s.cfg.Name, Mode: s.cfg.ACL.OwnMode()}}
	for _, p := range s.members.peers() {
		if p.id != s.id && p.status == serf.StatusAlive {
			modes = append(modes, access.ServerMode{Name: p.name, Mode: p.aclMode})
		}
	}
	return modes
}
