package raftfiles

import (
	"errors"
	"os"
	"path/filepath"
)

// RemoveMatching removes the files of a folder whose names match a pattern of filepath.Glob, such as those
// that a server left when it was killed.
func RemoveMatching(dir, pattern string) error {
	left, err := filepath.Glob(filepath.Join(dir, pattern))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
