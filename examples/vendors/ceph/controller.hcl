# The controller half of ceph-csi for block devices (RBD): it makes, expands and deletes images. The key of the user comes
# with each call from the variable that the class names. Set the ID of the cluster (ceph fsid) and its monitors.
variable "cluster" {
  type    = string
  default = "00000000-0000-0000-0000-000000000000"
}

variable "monitors" {
  type    = list(string)
  default = ["10.0.0.11:6789", "10.0.0.12:6789", "10.0.0.13:6789"]
}

job "ceph-controller" {
  group "controller" {
    count = 2

    constraint {
      distinct_hosts = true
    }

    task "driver" {
      driver = "docker"

      config {
        image = "quay.io/cephcsi/cephcsi:v3.16.3"
        args = [
          "--type=rbd",
          "--controllerserver=true",
          "--drivername=rbd.csi.ceph.com",
          "--nodeid=${node.unique.id}",
          "--endpoint=${CSI_ENDPOINT}",
          "--instanceid=berth",
          "--pidlimit=-1",
          "--setmetadata=false",
        ]
        network_mode = "host"
        volumes      = ["local/config.json:/etc/ceph-csi-config/config.json"]
        tmpfs        = ["/tmp/csi/keys"]
      }

      template {
        destination = "local/config.json"
        data        = jsonencode([{ clusterID = var.cluster, monitors = var.monitors }])
      }

      csi_plugin {
        id   = "ceph-rbd"
        type = "controller"
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
