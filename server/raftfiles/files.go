package raftfiles

import (
	"errors"
	"fmt"
	"os"
)

// readLimited reads a file that cannot be larger than limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}

	// A damaged directory may have anything under a name, for example a pipe that blocks.
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("not a regular file of at most %d bytes", limit)
	}
	return os.ReadFile(path)
}

// pathExists reports whether something is at the path. A path that cannot be examined counts as existing.
func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
