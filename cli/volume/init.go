package volume

import (
	"cmp"
	"context"

	"berth/cli/command"
)

// exampleVolume works with the bundled hostpath plugin.
const exampleVolume = `# A volume for "berth volume create". Its plugin must run: see "berth
# plugin status".

id        = "data"     # the source of volume blocks in jobs
name      = "data"     # a suggestion for the plugin
type      = "csi"
plugin_id = "hostpath" # the id in the csi_plugin block of the plugin's job

# Or a volume class, which has the plugin and other values: berth volume class list
#class = "fast"

# The bounds of the size.
capacity_min = "10MiB"
capacity_max = "64MiB"

# Its uses, one block for each.
#   access_mode: single-node-writer, single-node-reader-only,
#     multi-node-reader-only, multi-node-single-writer, multi-node-multi-writer
#   attachment_mode: file-system, block-device
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# Mount options, for file-system only. Default: the plugin decides.
#mount_options {
#  fs_type     = "ext4"
#  mount_flags = ["noatime"]
#}

# Parameters of the plugin, passed unchanged.
#parameters {
#  type = "image" # hostpath: a separate file system of the requested size; or directory
#}

# Secrets for the storage system. berth never shows them.
#secrets {
#  password = "..."
#}

# Or the path of a variable with the secrets, which can be changed at any time:
# berth var put nomad/volumes/default/ID password=@FILE
#secrets_from = "nomad/volumes/default/ID"
`

// volumeInit writes the example to a new file.
func volumeInit(_ context.Context, c *command.Call) error {
	hosts, err := ofHosts(c)
	if err != nil {
		return err
	}
	if hosts {
		return c.WriteExample(cmp.Or(c.Arg(0), "volume.hcl"), hostVolumeExample)
	}
	return c.WriteExample(cmp.Or(c.Arg(0), "volume.hcl"), exampleVolume)
}
