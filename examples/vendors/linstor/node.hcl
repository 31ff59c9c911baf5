# The node half of the CSI driver of LINSTOR, on every node with a LINSTOR satellite. The satellite has the name of the
# node of berth.
variable "linstor" {
  type    = string
  default = "http://linstor.example.com:3370"
}

job "linstor-csi-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image = "quay.io/piraeusdatastore/piraeus-csi:v1.12.0"
        args = [
          "--csi-endpoint=${CSI_ENDPOINT}",
          "--node=${node.unique.name}",
          "--linstor-endpoint=${var.linstor}",
        ]
        network_mode = "host"
        volumes      = ["/dev:/dev"]
      }

      csi_plugin {
        id   = "linstor"
        type = "node"
      }

      resources {
        cpu    = 50
        memory = 128
      }
    }
  }
}
