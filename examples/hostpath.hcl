# The CSI driver that berth ships, on every node. It needs no storage system: a volume is on the local disk of
# the node that created it.
job "hostpath" {
  type = "system"

  group "plugin" {
    task "driver" {
      driver = "exec"

      config {
        command = "berth"
        args    = ["plugin", "hostpath", "-node-id", "${node.unique.id}"]
      }

      # The task serves the controller half and the node half of the driver on the socket $CSI_ENDPOINT, which
      # is in mount_dir. Its data is in $BERTH_PLUGIN_DATA, a directory that outlives this allocation.
      csi_plugin {
        id             = "hostpath"
        type           = "monolith"
        mount_dir      = "/csi"
        health_timeout = "30s"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
