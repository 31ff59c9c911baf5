# The CSI driver that berth ships, on every node: storage for the first day, with no storage system at
# hand. A volume lives on the node that made it.
job "hostpath" {
  type = "system"

  group "plugin" {
    task "driver" {
      driver = "exec"

      config {
        command = "berth"
        args    = ["plugin", "hostpath", "-node-id", "${node.unique.id}"]
      }

      # The task serves the driver's controller and node halves on $CSI_ENDPOINT, which it finds in
      # mount_dir. What it keeps is in $BERTH_PLUGIN_DATA, a directory that outlives this allocation.
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
