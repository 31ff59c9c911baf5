package raftfiles

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"golang.org/x/sys/unix"

	"berth/structs"
)

// Info describes the files of a server that does not run.
type Info struct {
	DataDir   string // of the server
	ServerID  string
	Level     int    // of the version that wrote the files
	Term      uint64 // in which the server was last
	Log       LogInfo
	Snapshots []SnapshotInfo // the newest first
	// Servers are the members in the newest configuration, which is of the index ConfigIndex: of an entry, or
	// else of a snapshot. An entry may be one that the servers have not agreed on.
	Servers     []Member
	ConfigIndex uint64
}

// LogInfo describes a log. All numbers of an empty one are 0.
type LogInfo struct {
	First     uint64
	FirstTerm uint64
	Last      uint64
	LastTerm  uint64
	Segments  int
	Bytes     int64 // of the entries
}

// SnapshotInfo describes a snapshot.
type SnapshotInfo struct {
	ID    string
	Index uint64
	Term  uint64
	Bytes int64
}

// Member is a server of the configuration.
type Member struct {
	ID       string
	Address  string
	Suffrage string
}

// Inspect reads the files of a server and changes none of them. dir is its data directory, or its agent's.
// each is called with each entry of the log, in their order, unless it is nil; its error ends the reading.
// The files of a server that runs are a failed precondition.
func Inspect(dir string, each func(*raft.Log) error) (*Info, error) {
	dataDir, err := findDataDir(dir)
	if err != nil {
		return nil, err
	}
	lock, err := lockExisting(dataDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }()

	v := &inspection{opening: opening{
		Options: Options{DataDir: dataDir},
		walDir:  filepath.Join(dataDir, "raft", "wal"),
		snapDir: filepath.Join(dataDir, "raft", "snapshots"),
	}, each: each, info: &Info{DataDir: dataDir, Snapshots: []SnapshotInfo{}, Servers: []Member{}}}
	err = v.read()
	if err != nil {
		return nil, err
	}
	return v.info, nil
}

// findDataDir returns the data directory of the server.
func findDataDir(dir string) (string, error) {
	for _, candidate := range []string{dir, filepath.Join(dir, "server")} {
		if pathExists(filepath.Join(candidate, markName)) {
			return candidate, nil
		}
	}
	return "", structs.NotFoundf("%s has no files of a server; expected the data_dir of an agent with a "+
		"server, or the folder server in it", dir)
}

// lockExisting locks a data directory against a server until the file is closed. It creates nothing.
func lockExisting(dataDir string) (*os.File, error) {
	f, err := os.Open(filepath.Join(dataDir, lockName))
	if err != nil {
		return nil, structs.Preconditionf("%s: the lock of the server: %w", dataDir, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err != nil {
		_ = f.Close() // the error that counts is the other
		return nil, structs.Preconditionf("a server uses %s, and changes its files meanwhile; stop it, or ask "+
			"it: `berth operator raft list-peers`, `berth agent-info`", dataDir)
	}
	return f, nil
}

// inspection is the state of Inspect.
type inspection struct {
	opening
	each func(*raft.Log) error
	info *Info
}

func (v *inspection) read() (err error) {
	v.mark, err = readMark(v.DataDir)
	if err != nil {
		return err
	}
	v.info.ServerID = v.mark.id
	v.info.Level = v.mark.level

	err = v.checkPresence(filepath.Join(v.DataDir, "raft"))
	if err != nil {
		return err
	}
	v.meta, err = loadMeta(v.walDir)
	if err != nil {
		return v.damage(filepath.Join(v.walDir, metaName), "the list of the log's segments is damaged: %w", err)
	}
	if term := v.meta.content.Stable["CurrentTerm"]; len(term) == 8 {
		v.info.Term = binary.LittleEndian.Uint64(term)
	}

	snapshot, err := v.describeSnapshots()
	if err != nil {
		return err
	}
	last, err := v.readSegments(v.readEntries)
	if err != nil {
		return err
	}
	return v.compare(last, snapshot)
}

// describeSnapshots describes the snapshots, and takes the configuration of the newest one.
func (v *inspection) describeSnapshots() (newest uint64, err error) {
	newest, err = v.readSnapshots(func(_ string, meta *stateMeta) error {
		if len(v.info.Snapshots) == 0 || meta.Index > newest {
			newest = meta.Index
			v.configure(meta.ConfigurationIndex, meta.Configuration)
		}
		v.info.Snapshots = append(v.info.Snapshots, SnapshotInfo{
			ID:    meta.ID,
			Index: meta.Index,
			Term:  meta.Term,
			Bytes: meta.Size,
		})
		return nil
	})
	slices.SortFunc(v.info.Snapshots, func(a, b SnapshotInfo) int {
		return cmp.Or(cmp.Compare(b.Index, a.Index), strings.Compare(b.ID, a.ID))
	})
	return newest, err
}

// configure takes a configuration of the servers.
func (v *inspection) configure(index uint64, c raft.Configuration) {
	v.info.ConfigIndex = index
	v.info.Servers = v.info.Servers[:0]
	for _, s := range c.Servers {
		v.info.Servers = append(v.info.Servers, Member{
			ID:       string(s.ID),
			Address:  string(s.Address),
			Suffrage: s.Suffrage.String(),
		})
	}
}

// readEntries reads the entries of a segment that belong to the log. An interrupted write at the end of the
// last segment is none of it.
func (v *inspection) readEntries(f *segmentFile) error {
	v.info.Log.Segments++
	for i, offset := range f.offsets {
		index := f.info.BaseIndex + uint64(i)
		if index < f.info.MinIndex || !f.isTail() && index > f.info.MaxIndex {
			continue // it was cut off
		}
		var e raft.Log
		err := decodeEntry(f.b[offset:], &e)
		if err == nil && e.Index != index {
			err = fmt.Errorf("the entry has index %d", e.Index)
		}
		if err != nil {
			return v.damage(f.path, "the log entry %d is damaged: %w", index, err)
		}
		v.note(&e)
		if v.each == nil {
			continue
		}
		err = v.each(&e)
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeEntry reads the entry of a frame, and checks it.
func decodeEntry(frame []byte, e *raft.Log) error {
	size := uint64(binary.LittleEndian.Uint32(frame[4:]))
	if size > uint64(len(frame)-frameHeader) {
		return errors.New("it is longer than its file")
	}
	err := new(wal.BinaryCodec).Decode(frame[frameHeader:frameHeader+size], e)
	if err != nil {
		return err
	}
	return removeSum(e)
}

// note adds an entry to the facts.
func (v *inspection) note(e *raft.Log) {
	log := &v.info.Log
	if log.First == 0 {
		log.First = e.Index
		log.FirstTerm = e.Term
	}
	log.Last = e.Index
	log.LastTerm = e.Term
	log.Bytes += int64(len(e.Data))
	if e.Type == raft.LogConfiguration && e.Index > v.info.ConfigIndex {
		v.configure(e.Index, raft.DecodeConfiguration(e.Data))
	}
}
