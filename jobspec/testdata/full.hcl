variable "dc" {
  type    = list(string)
  default = ["dc1", "dc2"]
}

variable "image" { default = "busybox" }

locals {
  tag  = "v1"
  name = "${var.image}:${local.tag}"
}

job "full" {
  region      = "global"
  namespace   = "prod"
  name        = upper("full")
  type        = "service"
  priority    = 70
  all_at_once = true
  datacenters = concat(var.dc, ["dc3"])
  node_pool   = "fast"

  meta {
    owner = "storage"
    n     = 4
  }

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  group "db" {
    count          = 3
    shutdown_delay = "5s"

    constraint {
      attribute = "${attr.driver.exec.version}"
      version   = ">= 1.0"
    }
    constraint {
      attribute = "${meta.rack}"
      regexp    = "r[0-9]+"
    }
    constraint {
      attribute    = "${meta.tags}"
      set_contains = "ssd,fast"
    }
    constraint {
      attribute = "${attr.storage.free}"
      operator  = "is_set"
    }
    constraint {
      distinct_hosts = true
    }

    restart {
      attempts = 1
      mode     = "delay"
    }
    reschedule {
      attempts = 4
      interval = "2h"
    }
    ephemeral_disk {
      size    = 150
      sticky  = true
      migrate = true
    }

    volume "data" {
      type            = "csi"
      source          = "db"
      per_alloc       = true
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      mount_options {
        fs_type     = "ext4"
        mount_flags = ["noatime"]
      }
      ownership {
        owner  = "postgres"
        group  = "postgres"
        mode   = "0750"
        policy = "always"
      }
    }

    task "main" {
      driver = "exec"
      user   = "nobody"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo ${NOMAD_ALLOC_ID} $${HOME} ${env "HOME"}${env  "B"} ${local.name}"]
        mount {
          type = "bind"
        }
        mount {
          type = "tmpfs"
        }
      }
      env {
        PORT  = 8080
        NODE  = "${node.unique.name}"
        RACK  = "${meta["rack"]}"
        ALLOC = "${BERTH_ALLOC_DIR}/x"
        TEXT  = <<-EOT
          on ${attr.unique.hostname}
          $${env "KEPT"}
        EOT
      }
      resources {
        cpu        = 500
        memory     = 256
        memory_max = 512
      }
      restart {
        attempts = 9
      }
      logs {
        max_files     = 2
        max_file_size = 5
      }
      kill_timeout   = "20s"
      kill_signal    = "SIGINT"
      leader         = true
      shutdown_delay = 1000000000
      meta           = { a = "b" }
      volume_mount {
        volume           = "data"
        destination      = "/data"
        read_only        = true
        propagation_mode = "host-to-task"
        sub_path         = "pg/${NOMAD_ALLOC_INDEX}"
        snapshot {
          pre     = ["/local/db", "lock"]
          post    = ["/local/db", "unlock"]
          timeout = "20s"
        }
      }
    }
  }
}
