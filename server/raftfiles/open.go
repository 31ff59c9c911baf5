package raftfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	walmetrics "github.com/hashicorp/raft-wal/metrics"
	"github.com/hashicorp/raft-wal/segment"

	"berth/internal/level"
)

// Options are the paths and settings of Open.
type Options struct {
	DataDir     string // the server's
	ID          string // the server's, of ServerID
	SegmentSize int    // in bytes, 0 for raft-wal's own (64 MiB)
	Logger      hclog.Logger
	// Fatal is called when a log entry is found damaged while Raft runs. It ends the process.
	Fatal func(error)
}

// snapshotsKept is the number of Raft snapshots that stay on disk.
const snapshotsKept = 2

// Files are the files of a server's Raft.
type Files struct {
	Log       *Log // also the stable store
	Snapshots raft.SnapshotStore
}

// Close closes the files. Raft has ended.
func (f *Files) Close() error {
	return f.Log.Close()
}

// opening is the state of Open.
type opening struct {
	Options
	walDir  string
	snapDir string
	mark    markRecord // without an id in a new directory
	meta    *metaStore
	behind  *behind
}

func (o *opening) damage(path, format string, args ...any) error {
	return damageError(o.DataDir, path, format, args...)
}

// Open checks all files and opens them. A new data directory gets new files.
func Open(options Options) (*Files, error) {
	raftDir := filepath.Join(options.DataDir, "raft")
	o := &opening{
		Options: options,
		walDir:  filepath.Join(raftDir, "wal"),
		snapDir: filepath.Join(raftDir, "snapshots"),
	}

	var err error
	o.mark, err = readMark(o.DataDir)
	if err != nil {
		return nil, err
	}

	// This precedes MkdirAll: a directory that is missing is a finding.
	if err := o.checkPresence(raftDir); err != nil {
		return nil, err
	}

	if err := os.MkdirAll(o.walDir, 0o700); err != nil {
		return nil, err
	}

	o.meta, err = loadMeta(o.walDir)
	if err != nil {
		path := filepath.Join(o.walDir, metaName)
		return nil, o.damage(path, "the list of the log's segments is damaged: %w", err)
	}

	// Nothing is opened for writing before all files have passed.
	record, err := o.checkFiles()
	var files *Files
	if err == nil {
		files, err = o.openFiles(raftDir, record)
	}
	if err != nil {
		return nil, errors.Join(err, o.meta.Close())
	}
	return files, nil
}

// checkPresence does not make a new log where there was one. raft-wal would delete segments that no list
// names.
func (o *opening) checkPresence(raftDir string) error {
	hadLog := o.mark.last > 0 || o.mark.snapshot > 0
	for _, path := range []string{
		raftDir,
		o.walDir,
		filepath.Join(o.walDir, metaName),
	} {
		// The paths are below each other, so the first one that is missing decides.
		if pathExists(path) {
			continue
		}

		segments, err := filepath.Glob(filepath.Join(o.walDir, "*.wal"))
		if err != nil {
			return err
		}

		if hadLog || len(segments) > 0 {
			return o.damage(path, "it is missing, and this server has had a log")
		}

		return nil
	}
	return nil
}

// checkFiles reads the log and the snapshots and compares them with each other and with the mark.
func (o *opening) checkFiles() (record markRecord, err error) {
	last, sizes, err := o.checkLog()
	if err != nil {
		return record, err
	}

	snapshot, err := o.checkSnapshots()
	if err != nil {
		return record, err
	}
	o.behind = &behind{}
	o.behind.add(bytesAfter(sizes, snapshot))
	err = o.compare(last, snapshot)
	if err != nil {
		return record, err
	}

	return markRecord{
		level:    level.Now,
		id:       o.ID,
		last:     last,
		snapshot: snapshot,
	}, nil
}

// compare compares the last entry and the newest snapshot with each other and with the mark.
func (o *opening) compare(last, snapshot uint64) error {
	segments := o.meta.state().Segments
	switch {
	// The mark may be older than the log, never newer: what it names was durable.
	case last < o.mark.last:
		return o.damage(o.walDir, "the log ends at entry %d; it had entries up to %d", last, o.mark.last)
	case snapshot < o.mark.snapshot:
		return o.damage(o.snapDir, "the snapshot of entry %d is missing", o.mark.snapshot)
	// Between the snapshot and the first entry there are others, which nothing has any more.
	case last > 0 && segments[0].MinIndex > snapshot+1:
		return o.damage(o.snapDir, "the snapshot of the entries before %d is missing", segments[0].MinIndex)
	}
	return nil
}

// openFiles opens the files, which are whole. The first is the one with the level.
func (o *opening) openFiles(raftDir string, record markRecord) (*Files, error) {
	mark, err := openMark(o.DataDir, record, o.Logger)
	if err != nil {
		return nil, err
	}

	f, err := o.openLog(raftDir, mark)
	if err != nil {
		return nil, errors.Join(err, mark.close())
	}

	if record.last > 0 && record.last < record.snapshot {
		// A snapshot was installed, and the log that it replaces was not removed yet. The next entry would
		// not fit behind it.
		if err := f.Log.DeleteRange(1, record.last); err != nil {
			err = fmt.Errorf("%s: removing the entries before the snapshot: %w", o.walDir, err)
			return nil, errors.Join(err, f.Close())
		}
	}

	return f, nil
}

// openLog opens the log and the store of snapshots.
func (o *opening) openLog(raftDir string, mark *mark) (*Files, error) {
	o.meta.logger = o.Logger
	err := o.meta.repair()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.meta.path, err)
	}

	size := o.SegmentSize
	if size == 0 {
		size = wal.DefaultSegmentSize
	}
	space, err := openSpace(o.walDir, size)
	if err != nil {
		return nil, err
	}

	collector := walmetrics.NewGoMetricsCollector([]string{"raft", "wal"}, nil, nil)
	log, err := wal.Open(o.walDir,
		wal.WithMetaStore(o.meta),
		wal.WithLogger(o.Logger.Named("wal")),
		wal.WithSegmentFiler(segment.NewFiler(o.walDir, space)),
		wal.WithSegmentSize(size),
		wal.WithMetricsCollector(collector))
	if err != nil {
		err = o.damage(o.walDir, "opening the log: %w", err)
		return nil, errors.Join(err, space.close())
	}

	// raft-wal reads the files by itself. It must come to the same end as checkLog.
	last, _ := log.LastIndex()
	if last != mark.record.last {
		err := o.damage(o.walDir, "the log ends at entry %d instead of %d", last, mark.record.last)
		return nil, errors.Join(err, log.Close(), space.close())
	}

	logger := o.Logger.Named("snapshot")
	store, err := raft.NewFileSnapshotStoreWithLogger(raftDir, snapshotsKept, logger)
	if err != nil {
		err = fmt.Errorf("opening the snapshots in %s: %w", o.snapDir, err)
		return nil, errors.Join(err, log.Close(), space.close())
	}

	return &Files{
		Log: &Log{
			WAL:     log,
			dataDir: o.DataDir,
			meta:    o.meta,
			mark:    mark,
			space:   space,
			behind:  o.behind,
			fatal:   o.Fatal,
		},
		Snapshots: &snapshots{
			FileSnapshotStore: store,
			dir:               o.snapDir,
			mark:              mark,
			behind:            o.behind,
		},
	}, nil
}
