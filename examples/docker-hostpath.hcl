# A CSI driver of another project as a container, on every node: csi-driver-host-path. Name its image with the registry
# that has it, or load or build it on each node first and set gc { image = false } there: berth removes images that no
# task uses any more. A task with a csi_plugin block is privileged, so it needs no other setting of the node.
job "docker-hostpath" {
  type = "system"

  group "plugin" {
    task "driver" {
      driver = "docker"

      config {
        image = "csi-driver-host-path:v1.7.2"
        args = [
          "--endpoint=${CSI_ENDPOINT}",
          "--nodeid=${node.unique.id}",
          "--statedir=${BERTH_PLUGIN_DATA}",
        ]
        network_mode = "host"
      }

      # berth gives the container the directory of the socket, a directory that outlives it, and the directory of the
      # volumes, whose mounts it shares with the host.
      csi_plugin {
        id                     = "docker-hostpath"
        type                   = "monolith"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
        health_timeout         = "30s"
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
