# Datasets of a TrueNAS, shared by NFS.
name        = "truenas"
description = "Datasets of the array, by NFS"
plugin_id   = "truenas"

mount_options {
  mount_flags = ["nfsvers=4.1", "noatime", "soft", "timeo=600", "retrans=2"]
}
