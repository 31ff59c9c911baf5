package raftfiles

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// lockName is the file whose lock a server holds while it runs.
const lockName = "server.lock"

// LockDir locks the data directory against other servers. It makes the directory if it is
// missing. Closing the file unlocks it.
func LockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, structs.Internalf("server: data_dir: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, structs.Internalf("server: data_dir: %w", err)
	}

	// The kernel releases the lock when the process ends, however it ends. The file stays.
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		_ = f.Close() // the error that counts is the other
		return nil, structs.Preconditionf("server: another server uses the data directory %s: %w", dir, err)
	}
	return f, nil
}
