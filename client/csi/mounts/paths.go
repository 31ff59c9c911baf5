package mounts

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ShortName makes one name of its parts: 16 characters that are safe in every path.
func ShortName(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	// 10 bytes make 16 characters of base32, without padding.
	return strings.ToLower(base32.StdEncoding.EncodeToString(h[:10]))
}

// StagePath returns the staging path in the directory of a volume.
func StagePath(dir string) string { return filepath.Join(dir, "stage") }

// TargetParent returns the directory of an allocation in a volume's.
func TargetParent(dir, allocID string) string {
	return filepath.Join(dir, ShortName(allocID))
}

// TargetPath returns the path at which a volume is published for an allocation.
func TargetPath(dir, allocID string) string {
	return filepath.Join(TargetParent(dir, allocID), "mount")
}

// MakeDir makes a directory and those above it. It does not look into one that exists: a file system that is
// mounted there may hang.
func MakeDir(path string) error {
	err := os.Mkdir(path, 0o750)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(path), 0o750)
		if err == nil {
			err = os.Mkdir(path, 0o750)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Exists reports whether a path exists, without looking into it.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// IsDevice reports whether a path is a device node.
func IsDevice(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode()&os.ModeDevice != 0
}
