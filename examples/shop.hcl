# The services of shop.yaml as a job (docs/coming-from-docker.md). Its volume needs a class with the name "db", such as
# that of examples/database/class.hcl.
job "shop" {
  group "db" {
    network {
      port "db" {
        to = 5432
      }
    }

    volume "data" {
      type  = "csi"
      class = "db"
      size  = "10GiB"
    }

    service {
      name     = "db"
      port     = "db"
      provider = "berth"

      check {
        name     = "ready"
        type     = "script"
        task     = "server"
        command  = "pg_isready"
        args     = ["-U", "postgres"]
        interval = "5s"
        timeout  = "2s"
      }
    }

    task "server" {
      driver       = "docker"
      kill_timeout = "30s"

      config {
        image = "postgres:16"
        ports = ["db"]
      }

      template {
        destination = "secrets/db.env"
        env         = true
        data        = "{{ with nomadVar \"nomad/jobs/shop\" }}POSTGRES_PASSWORD={{ .password }}{{ end }}"
        change_mode = "noop"
      }

      volume_mount {
        volume      = "data"
        destination = "/var/lib/postgresql/data"
        sub_path    = "pg" # an empty folder beside lost+found
      }

      resources {
        cpu        = 500
        memory     = 256
        memory_max = 512
      }
    }
  }

  group "web" {
    network {
      port "http" {
        static = 8080
      }
    }

    task "server" {
      driver = "docker"

      config {
        image = "adminer:4"
        ports = ["http"]
      }

      template {
        destination = "local/db.env"
        env         = true
        data        = <<-EOT
          {{ range berthService "db" }}ADMINER_DEFAULT_SERVER={{ .Address }}:{{ .Port }}
          {{ end }}
        EOT
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
