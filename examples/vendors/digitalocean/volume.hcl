# The cloud gets a name that berth makes. The name of the file is a label.
id           = "digitalocean-data"
name         = "berth-data"
class        = "digitalocean"
capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
