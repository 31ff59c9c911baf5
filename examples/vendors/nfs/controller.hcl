# The controller half of csi-driver-nfs: it mounts the share for a moment and makes a directory for each volume. So its
# container is privileged, which a task with a csi_plugin block is.
job "nfs-controller" {
  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image = "registry.k8s.io/sig-storage/nfsplugin:v4.13.4"
        args = [
          "--nodeid=${node.unique.id}",
          "--endpoint=${CSI_ENDPOINT}",
          "--default-ondelete-policy=archive",
        ]
        network_mode = "host"
      }

      csi_plugin {
        id   = "nfs"
        type = "controller"
      }

      resources {
        cpu    = 50
        memory = 200
      }
    }
  }
}
