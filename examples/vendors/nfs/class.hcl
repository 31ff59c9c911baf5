# Directories of a share. Set the name of the server and the path of the share before you apply it.
name        = "nfs"
description = "Directories of one NFS share"
plugin_id   = "nfs"

parameters {
  server = "nfs.example.com"
  share  = "/srv/berth"
}

# The task gets an error after three minutes without the server, and does not hang for good.
mount_options {
  mount_flags = ["nfsvers=4.1", "soft", "timeo=600", "retrans=2"]
}
