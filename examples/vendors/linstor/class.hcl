# Volumes with two replicas in the storage pool "pool". A node without a replica reaches them over the network.
name        = "linstor"
description = "Two replicas by DRBD"
plugin_id   = "linstor"
binding     = "first-consumer"

parameters {
  "linstor.csi.linbit.com/storagePool"                       = "pool"
  "linstor.csi.linbit.com/placementCount"                    = "2"
  "linstor.csi.linbit.com/resourceGroup"                     = "berth"
  "property.linstor.csi.linbit.com/DrbdOptions/auto-quorum" = "io-error"
}

mount_options {
  fs_type = "ext4"
}
