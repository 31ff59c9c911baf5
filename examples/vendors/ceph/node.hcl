# The node half of ceph-csi for block devices (RBD), on every node: it maps images by the module rbd of the kernel.
variable "cluster" {
  type    = string
  default = "00000000-0000-0000-0000-000000000000"
}

variable "monitors" {
  type    = list(string)
  default = ["10.0.0.11:6789", "10.0.0.12:6789", "10.0.0.13:6789"]
}

job "ceph-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image = "quay.io/cephcsi/cephcsi:v3.16.3"
        args = [
          "--type=rbd",
          "--nodeserver=true",
          "--drivername=rbd.csi.ceph.com",
          "--nodeid=${node.unique.id}",
          "--endpoint=${CSI_ENDPOINT}",
          "--stagingpath=/local/csi",
          "--pluginpath=/local/csi",
          "--pidlimit=-1",
        ]
        network_mode = "host"
        volumes = [
          "/dev:/dev",
          "/sys:/sys",
          "/lib/modules:/lib/modules:ro",
          "local/config.json:/etc/ceph-csi-config/config.json",
        ]
        tmpfs = ["/tmp/csi/keys"]
      }

      template {
        destination = "local/config.json"
        data        = jsonencode([{ clusterID = var.cluster, monitors = var.monitors }])
      }

      csi_plugin {
        id                     = "ceph-rbd"
        type                   = "node"
        stage_publish_base_dir = "/local/csi"
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
