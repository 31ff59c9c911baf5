// Package paths names and makes the directories in which plugins see volumes.
package paths

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/client/csi/registry"
	"berth/structs"
)

// maxPath is the longest path that every plugin has to accept (CSI spec, "Size Limits").
const maxPath = 128

// ShortName makes one name of its parts: 16 characters that are safe in every path.
func ShortName(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	// 10 bytes make 16 characters of base32, without padding.
	return strings.ToLower(base32.StdEncoding.EncodeToString(h[:10]))
}

// Stage returns the staging path in the directory of a volume.
func Stage(dir string) string { return filepath.Join(dir, "stage") }

// TargetParent returns the directory of an allocation in a volume's.
func TargetParent(dir, allocID string) string {
	return filepath.Join(dir, ShortName(allocID))
}

// Target returns the path at which a volume is published for an allocation.
func Target(dir, allocID string) string {
	return filepath.Join(TargetParent(dir, allocID), "mount")
}

// InPlugin translates a path on the host into the scope of a plugin.
func InPlugin(reg *registry.Instance, host string) (string, error) {
	below, ok := strings.CutPrefix(host, strings.TrimSuffix(reg.HostMountPath, "/")+"/")
	if !ok || reg.PluginMountPath == "" {
		return "", structs.Preconditionf("plugin %q: %s is outside the paths of the plugin (%q as %q)",
			reg.ID, host, reg.HostMountPath, reg.PluginMountPath)
	}

	path := filepath.Join(reg.PluginMountPath, below)
	if len(path) > maxPath {
		return "", structs.Invalidf(
			"plugin %q: the path %s is %d bytes long, plugins need not take more than %d: shorten "+
				"stage_publish_base_dir",
			reg.ID, path, len(path), maxPath)
	}
	return path, nil
}

// Make makes a directory and those above it. It does not look into one that exists: a file system that is
// mounted there may hang.
func Make(path string) error {
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
