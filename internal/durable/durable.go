// Package durable replaces files so that the new content survives a power cut.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile replaces a file atomically, by way of path+".tmp". The new content is durable when it returns.
// The mode is 0600. A failed write leaves no temporary file.
func WriteFile(path string, content []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}

	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}

	err = errors.Join(err, f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}

	return Rename(tmp, path)
}

// Rename renames a file. The new name is durable when it returns.
func Rename(from, to string) error {
	err := os.Rename(from, to)
	if err != nil {
		return err
	}
	return Sync(filepath.Dir(to))
}

// Sync writes the content of a file, or the names in a directory, to the disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}
