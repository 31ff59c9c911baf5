package auditlog

import (
	"path/filepath"

	"berth/internal/agentlog"
	"berth/internal/files"
)

// rotate renames the file, and deletes the oldest renamed ones. A crash leaves the file under one of its two
// names, and the next start makes a new one.
func (f *file) rotate() error {
	err := agentlog.RotateFile(f.Path, f.now())
	if err != nil {
		return err
	}

	err = files.SyncDurable(filepath.Dir(f.Path))
	if err == nil && f.RotateMaxFiles > 0 {
		err = agentlog.PruneRotated(f.Path, f.RotateMaxFiles)
	}
	if err != nil {
		f.warn("failed to delete old audit logs", err) // the next rotation tries again
	}
	return nil
}
