package raftfiles

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// readLimited reads a file that cannot be larger than limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	err := checkRegular(path, limit)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// checkRegular checks that a file is a regular one and not larger than limit bytes.
func checkRegular(path string, limit int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}

	// A damaged directory may have anything under a name, for example a pipe that blocks.
	if !info.Mode().IsRegular() || info.Size() > limit {
		return fmt.Errorf("not a regular file of at most %d bytes", limit)
	}
	return nil
}

// readWritten is readLimited without the end of the file that was allocated and never written. That end has
// zeros alone, and is most of a segment: reading it takes longer than the rest of a start, and 64 MiB.
func readWritten(path string, limit int64) ([]byte, error) {
	err := checkRegular(path, limit)
	if err != nil {
		return nil, err
	}

	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()

	end, err := writtenEnd(f)
	if err != nil {
		return nil, err
	}

	b := make([]byte, end)
	_, err = f.ReadAt(b, 0)
	return b, err
}

// writtenEnd returns the offset behind the last part of a file that has data. A file system that does not
// tell holes from data says that all has.
func writtenEnd(f *os.File) (end int64, err error) {
	for {
		data, err := f.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return end, nil // no data follows
		}
		if err != nil {
			return 0, err
		}

		end, err = f.Seek(data, unix.SEEK_HOLE)
		if err != nil {
			return 0, err
		}
	}
}

// pathExists reports whether something is at the path. A path that cannot be examined counts as existing.
func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
