# A task that keeps a log in a directory of its node. Offer the directory in the node's configuration first:
#
#   client {
#     host_volume "data" {
#       path = "/srv/data"
#     }
#   }
job "host-directory" {
  group "writer" {
    volume "data" {
      type        = "host"
      source      = "data"
      access_mode = "single-node-single-writer"
    }

    task "log" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"started at $(date)\" >> /data/log; cat /data/log; exec sleep 1000000"]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
