# The node half of democratic-csi for NFS, on every node. It mounts the shares, and does not speak with the API of the
# array: its settings name only the driver, and have no key.
job "truenas-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image = "docker.io/democraticcsi/democratic-csi:v1.9.4"
        args = [
          "--csi-version=1.5.0",
          "--csi-name=org.democratic-csi.nfs",
          "--csi-mode=node",
          "--driver-config-file=/local/driver.yaml",
          "--log-level=info",
          "--server-socket=/csi/csi.sock",
        ]
        network_mode = "host"
      }

      env {
        CSI_NODE_ID = "${node.unique.name}"
      }

      template {
        destination = "local/driver.yaml"
        data        = "driver: freenas-api-nfs\n"
      }

      csi_plugin {
        id             = "truenas"
        type           = "node"
        mount_dir      = "/csi"
        health_timeout = "2m"
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
