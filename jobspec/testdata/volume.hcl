id           = "db[0]"
namespace    = "prod"
name         = "database"
type         = "csi"
labels       = { tier = "gold" }
plugin_id    = "hostpath"
external_id  = "vol-1"
trim         = "24h"
capacity_min = "64MiB"
capacity_max = 134217728

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
capability {
  access_mode     = "single-node-reader-only"
  attachment_mode = "block-device"
}

mount_options {
  fs_type     = "xfs"
  mount_flags = ["noatime", "nodiscard"]
}

secrets {
  user = "u"
}
parameters = {
  "csi.example.com/kind" = "fast"
}
context {
  a = "b"
}

topology_request {
  required {
    topology {
      segments { rack = "r1" }
    }
    topology { segments = { "topology.hostpath.csi/node" = "n1" } }
  }
  preferred {
    topology {
      segments { rack = "r1" }
    }
    topology {
      segments { "topology.hostpath.csi/node" = "n2" }
    }
  }
}

on_node_loss = "fence"
