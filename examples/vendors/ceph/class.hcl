# Images of one pool. clusterID is that of the jobs (ceph fsid).
# The variable nomad/volumes/default/ceph has the items userID and userKey.
name         = "ceph-rbd"
description  = "Block devices of the pool berth"
plugin_id    = "ceph-rbd"
secrets_from = "nomad/volumes/{namespace}/ceph"

parameters {
  clusterID     = "00000000-0000-0000-0000-000000000000"
  pool          = "berth"
  imageFeatures = "layering"
}

mount_options {
  fs_type     = "ext4"
  mount_flags = ["discard"]
}
