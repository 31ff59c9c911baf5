package volume

import (
	"cmp"
	"context"
	"strings"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/jobspec"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

// typeFlag selects the type of volumes.
var typeFlag = command.Flag{
	Name:  "type",
	Kind:  command.String,
	Value: "type",
	Usage: "The type of the volume: csi, the default, or host for a dynamic host volume",
}

// ofHosts reports whether a command is about dynamic host volumes.
func ofHosts(c *command.Call) (bool, error) {
	switch t := c.String("type"); t {
	case "", structs.VolumeTypeCSI:
		return false, nil
	case structs.VolumeTypeHost:
		return true, nil
	default:
		return false, command.BadUsage("-type is csi or host")
	}
}

// createHostVolume creates the dynamic host volume of a file, and waits until it is ready unless -detach is
// given.
func createHostVolume(ctx context.Context, c *command.Call, name string, src []byte) error {
	name = command.ShownName(name)
	sources := map[string][]byte{name: src}
	f, faults := jobspec.ReadHostVolume(name, src)
	if f != nil {
		f.Content.Namespace = cmp.Or(f.Content.Namespace, c.Namespace())
		f.Content.Canonicalize()
		faults = command.CheckContent(faults, validate.HostVolume(f.Content), f.Locate)
	}
	if faults != nil {
		return command.InFiles(sources, faults)
	}

	w := watch.New(c)
	w.Waits.Step = "to see the volumes: " +
		structs.CommandLine(f.Content.Namespace, "volume status", "-type", "host")
	var made *volumes.HostVolumeWritten
	err := w.WithTimeout(ctx, func(ctx context.Context) error {
		return w.AwaitAnswer(ctx, "the plugin, which creates the volume", func() (err error) {
			made, err = volumes.CreateHostVolume(ctx, c.API, f.Content, c.Bool("detach"))
			return err
		})
	})
	if err != nil {
		return command.InFiles(sources, f.Locate(err))
	}

	if made.Warnings != "" {
		w.WriteLine("Warning: %s", made.Warnings)
	}
	v := made.Volume
	return c.Report(v, "Host volume %q is %s on node %s: ID %s",
		v.Name, v.State, show.ShortID(v.NodeID), v.ID)
}

var hostVolumeSheet = command.Sheet[*storage.DynamicHostVolumeStub]{
	Titles: "ID|Name|Plugin|Node|Node Pool|Capacity|State",
	Row: func(_ *command.Call, v *storage.DynamicHostVolumeStub) []string {
		return []string{
			v.ID,
			v.Name,
			v.PluginID,
			show.ShortID(v.NodeID),
			v.NodePool,
			show.Size(v.CapacityBytes),
			v.State,
		}
	},
}

// hostVolumeStatus lists dynamic host volumes, or shows one.
func hostVolumeStatus(ctx context.Context, c *command.Call) error {
	if c.Given("plugin") || c.Given("class") || c.Given("external") || c.Bool("verbose") {
		return command.BadUsage("-plugin, -class, -external and -verbose are not for -type host")
	}
	if c.Arg(0) != "" {
		return showHostVolume(ctx, c)
	}

	node := ""
	if c.Given("node") {
		id, err := c.Resolve(ctx, "node", c.String("node"))
		if err != nil {
			return err
		}
		node = id
	}
	all, err := volumes.ListHostVolumes(ctx, c.API, node, "")
	if err != nil {
		return err
	}
	return hostVolumeSheet.List(c, "host volume", all)
}

func showHostVolume(ctx context.Context, c *command.Call) error {
	id, err := findHostVolume(ctx, c)
	if err != nil {
		return err
	}
	v, _, err := volumes.GetHostVolume(ctx, c.API, id, nil)
	if err != nil {
		return err
	}
	return c.Show(v, func() error {
		c.Pairs(
			"ID", v.ID,
			"Name", v.Name,
			"Namespace", v.Namespace,
			"Plugin", v.PluginID,
			"Node", v.NodeID,
			"Node pool", v.NodePool,
			"State", v.State,
			"Reason", v.Reason,
			"Capacity", show.Size(v.CapacityBytes),
			"Made for", hostVolumeModes(v.RequestedCapabilities),
			"Created", show.Nanos(v.CreateTime),
			"Modified", show.Nanos(v.ModifyTime),
		)
		var rows command.Grid
		for _, a := range v.Allocations {
			rows.AddRow(c.ID(a.ID), a.JobID, a.TaskGroup, a.ClientStatus)
		}
		command.PrintSome(c, "Allocations", "ID|Job|Group|Status", rows)
		c.Printf("\nIts claims and its growth: %s\n", structs.CommandLine(v.Namespace, "volume status", v.ID))
		return nil
	})
}

func hostVolumeModes(capabilities []*structs.CSIVolumeCapability) string {
	var parts []string
	for _, c := range capabilities {
		parts = append(parts, string(c.AccessMode)+"/"+string(c.AttachmentMode))
	}
	return show.JoinComma(parts...)
}

// findHostVolume returns the ID of the only dynamic host volume whose name is the argument, or whose ID
// begins with it.
func findHostVolume(ctx context.Context, c *command.Call) (string, error) {
	all, err := volumes.ListHostVolumes(ctx, c.API, "", "")
	if err != nil {
		return "", err
	}
	var found []string
	for _, v := range all {
		if v.ID == c.Arg(0) {
			return v.ID, nil
		}
		if v.Name == c.Arg(0) || strings.HasPrefix(v.ID, c.Arg(0)) {
			found = append(found, v.ID)
		}
	}

	switch len(found) {
	case 0:
		return "", structs.NotFoundf("no host volume has the name %q or an ID that begins with it", c.Arg(0))
	case 1:
		return found[0], nil
	}
	return "", structs.Invalidf("several host volumes have the name %q or an ID that begins with it: %s",
		c.Arg(0), strings.Join(found, ", "))
}

// deleteHostVolume deletes a dynamic host volume with its data.
func deleteHostVolume(ctx context.Context, c *command.Call) error {
	id, err := findHostVolume(ctx, c)
	if err != nil {
		return err
	}

	w := watch.New(c)
	err = w.WithTimeout(ctx, func(ctx context.Context) error {
		return w.VolumeRequest(ctx, "", id, func() error {
			return volumes.DeleteHostVolume(ctx, c.API, id, c.Bool("force"))
		})
	})
	if err != nil {
		return err
	}
	return c.Report(command.Changed{"VolumeID": id}, "Host volume %q is deleted", id)
}

// hostVolumeExample works with the bundled hostpath plugin.
const hostVolumeExample = `# A dynamic host volume for "berth volume create". The shipped plugin hostpath
# has to run on the nodes: see "berth plugin status".

name      = "data"
type      = "host"
plugin_id = "mkdir" # the plugin of the shipped driver

# The node. Without node_id the servers choose one of the pool.
#node_pool = "default"
#node_id   = "..."
#constraint {
#  attribute = "${attr.kernel.name}"
#  value     = "linux"
#}

# The bounds of the size.
capacity_min = "10MiB"
capacity_max = "64MiB"

# Its uses, one block for each.
#   access_mode: single-node-writer, single-node-reader-only,
#     single-node-single-writer, single-node-multi-writer
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`
