package volumes

import (
	"path/filepath"

	"berth/client/csi/mounts"
	"berth/client/csi/registry"
)

// volumeDir is the one directory of a volume on this node, relative to the root.
func volumeDir(k VolumeKey) string {
	return mounts.ShortName(k.Namespace, k.ID)
}

// MountPoints returns the paths on the host at which a volume is published for an allocation, and staged for
// all of them. Nothing need be mounted there.
func (v *Volumes) MountPoints(k VolumeKey, allocID string) (target, stage string) {
	dir := volumeDir(k)
	return v.hostPath(mounts.TargetPath(dir, allocID)), v.hostPath(mounts.StagePath(dir))
}

// hostPath returns a path on the host from one relative to the root.
func (v *Volumes) hostPath(rel string) string {
	return filepath.Join(v.root, rel)
}

// pluginPath translates a path on the host into the plugin's scope.
func (w *volumeWork) pluginPath(rel string) (string, error) {
	return registry.PathInPlugin(w.conn.Registration, w.hostPath(rel))
}

func (w *volumeWork) makeDir(rel string) error { return mounts.MakeDir(w.hostPath(rel)) }
