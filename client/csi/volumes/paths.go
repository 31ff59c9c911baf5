package volumes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/structs"
)

// maxPath is the longest path that every plugin has to accept (CSI spec, "Size Limits").
const maxPath = 128

// volumeDir is the one directory of a volume on this node, relative to the root.
func volumeDir(k VolumeKey) string {
	return ShortName(k.Namespace, k.ID)
}

// stagePath returns the staging path in the directory of a volume.
func stagePath(dir string) string { return filepath.Join(dir, "stage") }

// targetParent returns the directory of an allocation in a volume's.
func targetParent(dir, allocID string) string {
	return filepath.Join(dir, ShortName(allocID))
}

// targetPath returns the path at which a volume is published for an allocation.
func targetPath(dir, allocID string) string {
	return filepath.Join(targetParent(dir, allocID), "mount")
}

// MountPoints returns the paths on the host at which a volume is published for an allocation, and staged for
// all of them. Nothing need be mounted there.
func (v *Volumes) MountPoints(k VolumeKey, allocID string) (target, stage string) {
	dir := volumeDir(k)
	return v.hostPath(targetPath(dir, allocID)), v.hostPath(stagePath(dir))
}

// hostPath returns a path on the host from one relative to the root.
func (v *Volumes) hostPath(rel string) string {
	return filepath.Join(v.root, rel)
}

// pluginPath translates a path on the host into the plugin's scope.
func (w *volumeWork) pluginPath(rel string) (string, error) {
	reg := w.conn.Registration
	below, ok := strings.CutPrefix(w.hostPath(rel),
		strings.TrimSuffix(reg.HostMountPath, "/")+"/")
	if !ok || reg.PluginMountPath == "" {
		return "", structs.Preconditionf("plugin %q: %s is outside the paths of the plugin (%q as %q)",
			reg.ID, w.hostPath(rel),
			reg.HostMountPath, reg.PluginMountPath)
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

// makeDir makes a directory of the volume and those above it. It does not look into one that exists: a file
// system that is mounted there may hang.
func (w *volumeWork) makeDir(rel string) error {
	path := w.hostPath(rel)
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
