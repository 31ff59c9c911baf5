package volume

import (
	"cmp"
	"context"
	"fmt"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/jobspec"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

var classCommands = []command.Command{
	{
		Name:     "init",
		Args:     "[file]",
		Synopsis: "Write an example of the file of a class (class.hcl)",
		Local:    true,
		Run: func(_ context.Context, c *command.Call) error {
			return c.WriteExample(cmp.Or(c.Arg(0), "class.hcl"), exampleClass)
		},
		Examples: "berth volume class init\n" +
			"berth volume class init fast.hcl",
	},
	{
		Name:     "apply",
		Args:     "<file>",
		Synopsis: "Create or replace a class",
		Help: `
The file has the class in HCL, or in the JSON of the API; "-" is the standard
input. A change of a class changes no volume. The plugin and the parameters of
a class that volumes name cannot change.`,
		Acts:     true,
		Run:      classApply,
		Examples: "berth volume class apply fast.hcl",
	},
	{
		Name:     "list",
		Synopsis: "List the classes",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := volumes.ListClasses(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return classSheet.List(c, "volume class", all)
		},
		Examples: "berth volume class list",
	},
	{
		Name:     "info",
		Args:     "<class>",
		Synopsis: "Show a class, and the space that its plugin has",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			row, err := volumes.GetClass(ctx, c.API, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Show(row, func() error {
				printClass(c, row)
				return printSpaces(ctx, c, row.Name)
			})
		},
		Examples: "berth volume class info fast",
	},
	{
		Name:     "delete",
		Args:     "<class>",
		Synopsis: "Delete a class that no volume names",
		Acts:     true,
		Run: func(ctx context.Context, c *command.Call) error {
			seen, err := volumes.GetClass(ctx, c.API, c.Arg(0))
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = volumes.DeleteClass(ctx, on, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"Name": c.Arg(0)}, "Volume class %q is deleted", c.Arg(0))
		},
		Examples: "berth volume class delete fast",
	},
}

// exampleClass works with the bundled hostpath plugin.
const exampleClass = `# A class for "berth volume class apply". Volumes name it: class = "fast".

name      = "fast"
plugin_id = "hostpath" # the id in the csi_plugin block of the plugin's job

# Volumes without a class and without a plugin_id have the default class.
#default = true

# Parameters of the plugin, passed unchanged. A volume may add others.
parameters {
  type = "image" # hostpath: a separate file system of the requested size; or directory
}

# The variable with the secrets of a volume, in the namespace of the volume.
#secrets_from = "nomad/volumes/{namespace}/fast"

# Mount options. Those of a volume file come before them.
#mount_options {
#  fs_type     = "ext4"
#  mount_flags = ["noatime"]
#}

# Where volumes may be requested, one block for each topology. Default: anywhere.
#allowed_topology {
#  segments {
#    zone = "a"
#  }
#}

# Volumes grow by themselves before they are full, if the plugin expands volumes.
#grow {
#  at  = "80%"    # of the bytes are used
#  by  = "20%"    # of the size
#  max = "200GiB" # the largest size
#}

# The release of volumes of a lost node: hold, fence or lease.
#on_node_loss = "fence"
`

func classApply(ctx context.Context, c *command.Call) error {
	row, err := command.ReadDefinition(c, decodeClass, jobspec.ReadClass, validate.VolumeClass)
	if err != nil {
		return err
	}

	err = volumes.PutClass(ctx, c.API, row)
	if err != nil {
		return err
	}
	return c.Report(command.Changed{"Name": row.Name}, "Volume class %q is applied", row.Name)
}

// decodeClass reads a class in JSON, with its defaults.
func decodeClass(src []byte) (*storage.VolumeClass, error) {
	row, err := volumes.DecodeClass(src)
	row.Canonicalize()
	return row, err
}

var classSheet = command.Sheet[*storage.ClassStub]{
	Titles: "Name|Plugin|Default|Reclaim|Binding|Description",
	Row: func(_ *command.Call, s *storage.ClassStub) []string {
		return []string{
			s.Name,
			s.PluginID,
			show.YesNo(s.Default),
			s.Reclaim,
			s.Binding,
			s.Description,
		}
	},
}

func printClass(c *command.Call, row *storage.VolumeClass) {
	deleteAfter := ""
	if row.Reclaim == storage.ReclaimDelete && row.DeleteAfter != nil {
		deleteAfter = show.Span(*row.DeleteAfter)
	}
	c.Pairs(
		"Name", row.Name,
		"Description", row.Description,
		"Plugin", row.PluginID,
		"Default", show.YesNo(row.Default),
		"Parameters", show.KeyValues(row.Parameters),
		"Mutable parameters", show.KeyValues(row.MutableParameters),
		"Secrets from", row.SecretsFrom,
		"Mount options", mountOptions(row.MountOptions),
		"Allowed topologies", topologies(row.AllowedTopologies),
		"On node loss", row.OnNodeLoss,
		"Reclaim", row.Reclaim,
		"Delete after", deleteAfter,
		"Binding", row.Binding,
		"Quota weight", fmt.Sprint(row.QuotaWeight),
		"Volumes grow", growRule(row.Grow),
		"Volumes are trimmed", trimRule(row.Trim),
	)
}

// spaceSheet has the answers of a plugin by place. An answer of GetCapacity says how much is left, and one to
// a creation the size that found no space.
var spaceSheet = command.Sheet[*storage.Exhaustion]{
	Titles: "Place|Left|Largest volume|No space for|Since",
	Row: func(_ *command.Call, e *storage.Exhaustion) []string {
		left := ""
		largest := ""
		full := ""
		if e.LeftTime != 0 {
			left = structs.FormatBytes(e.Left)
		}
		if e.MaxVolume != 0 {
			largest = structs.FormatBytes(e.MaxVolume)
		}
		if e.Time != 0 {
			full = structs.FormatBytes(e.Bytes)
		}
		return []string{
			cmp.Or(e.Place, "everywhere"), left, largest, full, show.Nanos(max(e.Time, e.LeftTime)),
		}
	},
}

// printSpaces prints the space of a class, if its plugin has answered. Servers of an earlier version do not
// know the request.
func printSpaces(ctx context.Context, c *command.Call, name string) error {
	rows, err := volumes.ClassSpaces(ctx, c.API, name)
	switch {
	case structs.IsKind(err, structs.KindNotFound):
		return nil
	case err != nil || len(rows) == 0:
		return err
	}
	spaceSheet.Section(c, "Space", rows)
	return nil
}
