// Package files handles single files whose content must not be lost, or is not to be trusted.
//
//   - WriteDurable replaces a file so that the new content survives a power cut.
//   - ReadIn, ReplaceIn and OpenPlain read and write files in directories that a task can change at any time.
//     They follow no symbolic link.
//   - IsMachineFault and IsNoSpace distinguish errors of a machine from errors of a file. If a disk is full
//     or a file is not readable, the file itself is not damaged. It must not be removed. DescribeDisk says
//     what fills a disk.
//
// The supervisor of tasks needs it, so it imports little.
package files

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteDurable replaces a file atomically, by way of path+".tmp". The new content is durable when it returns.
// The mode is 0600. A failed write leaves no temporary file.
func WriteDurable(path string, content []byte) error {
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

	return RenameDurable(tmp, path)
}

// RenameDurable renames a file. The new name is durable when it returns.
func RenameDurable(from, to string) error {
	err := os.Rename(from, to)
	if err != nil {
		return err
	}
	return SyncDurable(filepath.Dir(to))
}

// SyncDurable writes the content of a file, or the names in a directory, to the disk.
func SyncDurable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}
