package handover

import (
	"context"
	"os"
	"path/filepath"

	"berth/client/config"
	"berth/client/csi/content"
	"berth/client/csi/mounts"
	"berth/client/hooks"
	"berth/structs"
)

// HostVolumesConfig has the functions of the node that the hook calls.
type HostVolumesConfig struct {
	// Volume returns the host volume with a name, nil if the node does not have it.
	Volume func(name string) *config.HostVolume
	// Holder returns another allocation of this node that has not ended and excludes an allocation from one
	// of its volumes, "" if there is none.
	Holder func(*structs.Allocation) (allocID string)
	// Progress receives the reason for which an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
	// Dir is a directory of the node for the mount points of folders.
	Dir string
}

type hostVolumes struct {
	requests []*structs.VolumeRequest
	config   HostVolumesConfig
	folders  string // the directory of the mount points of this allocation
}

// HostVolumes makes the hook of an allocation. It is nil for a group without host volumes.
func HostVolumes(env *hooks.AllocEnv, c HostVolumesConfig) hooks.Alloc {
	requests := env.Group.HostVolumes()
	if len(requests) == 0 {
		return nil
	}
	return &hostVolumes{
		requests: requests,
		config:   c,
		folders:  filepath.Join(c.Dir, mounts.ShortName(env.Alloc.ID)),
	}
}

func (v *hostVolumes) Name() string { return "host_volumes" }

// Up waits for the end of other writers and gives the directories to the tasks. The plan that replaces a
// writer places its successor before the end of the writer.
func (v *hostVolumes) Up(ctx context.Context, env *hooks.AllocEnv) error {
	wait := hooks.Await{
		Holder:   v.config.Holder,
		Progress: v.config.Progress,
		Part:     "one of its host volumes",
	}

	err := wait.End(ctx, env.Alloc)
	if err != nil {
		return err
	}

	for _, r := range v.requests {
		offered := v.config.Volume(r.Source)
		switch {
		case offered == nil:
			return structs.Preconditionf("the node's configuration has no host volume %q", r.Source)
		case offered.ReadOnly && !r.ReadOnly:
			return structs.Preconditionf("host volume %q is read-only on this node", r.Source)
		}

		info, err := os.Stat(offered.Path)
		if err != nil {
			return structs.Preconditionf("host volume %q: %w", r.Source, err)
		}

		if !info.IsDir() {
			return structs.Preconditionf("host volume %q: %s is not a directory", r.Source, offered.Path)
		}

		env.SetVolume(r.Name, hooks.VolumeMount{
			HostPath: offered.Path,
			ReadOnly: r.ReadOnly,
			Folders: content.Folders{
				Volume:   offered.Path,
				Dir:      v.folders,
				ReadOnly: r.ReadOnly,
			},
		})
	}

	return nil
}

// Down unmounts the folders that tasks have mounted. The driver makes the other mounts, in a namespace that
// ends with the task.
func (v *hostVolumes) Down(context.Context) error { return content.ReleaseFolders(v.folders) }
