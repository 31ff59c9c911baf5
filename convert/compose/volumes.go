package compose

import (
	"path"

	"github.com/compose-spec/compose-go/v2/types"

	"berth/structs"
)

// mounts sets the volumes of a task, and asks for them in its group.
func (c *converter) mounts(g *structs.TaskGroup, t *structs.Task, s *types.ServiceConfig) {
	place := g.Name + "/" + t.Name
	for _, v := range s.Volumes {
		switch {
		case v.Type == types.VolumeTypeVolume && v.Source != "":
			c.volume(g, t, &v)
		case v.Type == types.VolumeTypeVolume:
			c.lost(place, "the anonymous volume at "+v.Target, "the container keeps these files until it ends; "+
				"write a volume block for longer")
		case v.Type == types.VolumeTypeBind:
			c.lost(place, "the directory "+v.Source+" of the machine at "+v.Target, "let a template or an artifact "+
				"write the files, or let the node offer the directory as a host volume")
		case v.Type == types.VolumeTypeTmpfs:
			mount := map[string]any{"type": "tmpfs", "target": v.Target}
			if v.Tmpfs != nil && v.Tmpfs.Size > 0 {
				mount["tmpfs_options"] = []any{map[string]any{"size": int64(v.Tmpfs.Size)}}
			}
			addMount(t, mount)
		default:
			c.lost(place, "the mount of type "+v.Type+" at "+v.Target, "berth has none of this type")
		}
	}
}

// addMount adds a mount block to the config of a task.
func addMount(t *structs.Task, mount map[string]any) {
	all, _ := t.Config["mount"].([]any)
	t.Config["mount"] = append(all, mount)
}

// volume mounts a named volume. A task sees a folder of it: a new file system has a folder lost+found, and
// many images want an empty directory.
func (c *converter) volume(g *structs.TaskGroup, t *structs.Task, v *types.ServiceVolumeConfig) {
	alias := v.Source
	mount := &structs.VolumeMount{
		Volume:      alias,
		Destination: v.Target,
		ReadOnly:    v.ReadOnly,
	}
	t.VolumeMounts = append(t.VolumeMounts, mount)
	def := c.project.Volumes[alias]
	if !bool(def.External) {
		mount.SubPath = "data"
	}
	if v.Volume != nil && v.Volume.Subpath != "" {
		mount.SubPath = path.Join(mount.SubPath, v.Volume.Subpath)
	}
	if g.Volumes[alias] != nil {
		return
	}

	r := &structs.VolumeRequest{Type: structs.VolumeTypeCSI}
	if g.Volumes == nil {
		g.Volumes = map[string]*structs.VolumeRequest{}
	}
	g.Volumes[alias] = r
	if bool(def.External) {
		r.Source = alias
		if def.Name != "" {
			r.Source = def.Name
		}
		r.AccessMode = structs.CSISingleNodeWriter
		r.AttachmentMode = structs.CSIFileSystem
		c.note(g.Name, "the volume %s is external: register or create it before", r.Source)
	} else {
		r.Class = c.Class
		r.Size = c.Size
		c.volumes = true
		if def.Driver != "" && def.Driver != "local" || len(def.DriverOpts) > 0 {
			c.lost(g.Name, "driver of the volume "+alias, "the class has a plugin and its parameters")
		}
	}
	if g.Count > 1 {
		r.AccessMode = structs.CSIMultiNodeMultipleWriter
		c.note(g.Name, "the instances share the volume %s: its plugin needs several writers; with per_alloc each has its own", alias)
	}
}
