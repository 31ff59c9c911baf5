# A volume for examples/counter.hcl. `berth volume create examples/volume.hcl` creates it at the plugin.
id           = "counter"
name         = "counter"
type         = "csi"
plugin_id    = "hostpath"
capacity_min = "16MiB"
capacity_max = "64MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
