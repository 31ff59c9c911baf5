package cli

import (
	"context"
	"errors"
	"os"

	"berth/structs"
)

// exampleVolume works with the bundled hostpath plugin.
const exampleVolume = `# A volume for "berth volume create". The plugin that makes it must run: see
# "berth plugin status".

id        = "data"     # what jobs call it
name      = "data"     # what the plugin is told to call it
type      = "csi"
plugin_id = "hostpath" # the id in the csi_plugin block of the plugin's job

# At least, and at most, as large as this.
capacity_min = "10MiB"
capacity_max = "64MiB"

# What it may be used for; give one block for each way.
#   access_mode: single-node-writer, single-node-reader-only,
#     multi-node-reader-only, multi-node-single-writer, multi-node-multi-writer
#   attachment_mode: file-system, block-device
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# How it is mounted, for file-system only. Left out, the plugin decides.
#mount_options {
#  fs_type     = "ext4"
#  mount_flags = ["noatime"]
#}

# What the plugin understands beyond that, passed on as it is.
#parameters {
#  type = "image" # hostpath: a file system of its own, of the size asked for; or directory
#}

# Secrets of the plugin's storage system, never shown again.
#secrets {
#  password = "..."
#}
`

// volumeInit writes the example to a new file.
func volumeInit(_ context.Context, c *Call) error {
	name := c.Arg(0)
	if name == "" {
		name = "volume.hcl"
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return structs.Errorf(structs.KindConflict, "there is a file %s already", name)
	}
	if err != nil {
		return structs.Errorf(structs.KindInvalid, "%w", err)
	}
	_, err = f.WriteString(exampleVolume)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	c.Printf("Wrote %s\n", name)
	return nil
}
