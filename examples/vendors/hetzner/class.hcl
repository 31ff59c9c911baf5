# Volumes at Hetzner, created in the location of the server that needs them.
name        = "hetzner"
description = "Volumes of the cloud, each in one location"
plugin_id   = "hetzner"
binding     = "first-consumer"

mount_options {
  fs_type = "ext4"
}
