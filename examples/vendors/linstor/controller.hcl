# The controller half of the CSI driver of LINSTOR: it makes, attaches and expands volumes through the API of the LINSTOR
# controller. Set its address.
variable "linstor" {
  type    = string
  default = "http://linstor.example.com:3370"
}

job "linstor-csi-controller" {
  group "controller" {
    count = 2

    constraint {
      distinct_hosts = true
    }

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
      }

      csi_plugin {
        id   = "linstor"
        type = "controller"
      }

      resources {
        cpu    = 50
        memory = 128
      }
    }
  }
}
