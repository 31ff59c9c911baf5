# A volume with a name that the cloud takes: lower-case letters, digits and dashes, at most 64.
id           = "digitalocean-data"
name         = "berth-data"
class        = "digitalocean"
capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
