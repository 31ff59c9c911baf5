# Volumes at DigitalOcean. Such a volume is in the region of the controller, or in that of its topology_request.
name        = "digitalocean"
description = "Block storage of the cloud, each in one region"
plugin_id   = "digitalocean"

mount_options {
  fs_type = "ext4"
}
