variable "size" {
  default = "256MiB"
}

variable "max_connections" {
  default = 50
}

job "postgres" {
  group "db" {
    volume "data" {
      type  = "csi"
      class = "db"
      size  = var.size

      ownership {
        owner = "postgres"
        group = "postgres"
        mode  = "0700"
      }
    }

    update {
      min_healthy_time = "1s"
    }

    migrate {
      min_healthy_time = "1s"
    }

    service {
      name     = "postgres"
      provider = "berth"

      check {
        name     = "ready"
        type     = "script"
        task     = "server"
        command  = "pg_isready"
        args     = ["-h", "127.0.0.1"]
        interval = "1s"
        timeout  = "2s"
      }
    }

    task "server" {
      driver       = "exec"
      user         = "postgres"
      kill_signal  = "SIGINT" # PostgreSQL ends its connections and writes all to the disk
      kill_timeout = "30s"

      config {
        command = "/bin/sh"
        args    = ["-ec", <<-EOF
          PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
          test -s /data/pg/PG_VERSION || initdb -D /data/pg -U postgres -A trust -E UTF8
          exec postgres -D /data/pg -h 127.0.0.1 -k /tmp -N ${var.max_connections}
        EOF
        ]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
