# The node half of Hetzner's CSI driver, on every server of the cloud: it formats and mounts volumes. It needs no token.
# It asks the metadata service for the ID and the location of its server.
job "hetzner-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      # A volume that is attached later appears in the /dev of the machine, and not in a copy of it.
      config {
        image        = "docker.io/hetznercloud/hcloud-csi-driver:v2.22.1"
        args         = ["-node"]
        network_mode = "host"
        volumes      = ["/dev:/dev"]
      }

      env {
        ENABLE_METRICS = "false"
      }

      csi_plugin {
        id   = "hetzner"
        type = "node"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
