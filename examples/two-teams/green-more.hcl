id           = "more"
name         = "green-more"
type         = "csi"
plugin_id    = "hostpath"
capacity_min = "16MiB"
capacity_max = "64MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
