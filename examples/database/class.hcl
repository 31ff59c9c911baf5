name        = "db"
description = "An ext4 file system of its own for each volume"
plugin_id   = "hostpath"

parameters {
  type = "image"
}

mount_options {
  fs_type = "ext4"
}

# A volume is made where its allocation runs. It is deleted a day after the purge of its job.
binding      = "first-consumer"
reclaim      = "delete"
delete_after = "24h"
