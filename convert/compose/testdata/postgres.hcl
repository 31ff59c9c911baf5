# The tasks read a variable. Write it before: berth var put nomad/jobs/postgres
#   db_password=@FILE

job "postgres" {
  group "postgres" {
    # the volume pg-data is external: register or create it before

    network {
      port "postgres" {
        to = 5432
      }
    }

    volume "data" {
      type            = "csi"
      source          = "pg-data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    service {
      name     = "postgres"
      port     = "postgres"
      provider = "berth"

      check {
        name                     = "healthy"
        type                     = "script"
        task                     = "postgres"
        command                  = "/bin/sh"
        args                     = ["-c", "pg_isready -U postgres"]
        interval                 = "10s"
        timeout                  = "5s"
        failures_before_critical = 4
      }
    }

    task "postgres" {
      # not carried: start_period of healthcheck: an update waits for healthy_deadline
      driver = "docker"
      user   = "postgres"

      config {
        image    = "postgres:16"
        ports    = ["postgres"]
        cap_drop = ["ALL"]
        labels = {
          team = "data"
        }
        shm_size = 134217728
        tmpfs    = ["/run"]
        ulimit = {
          nofile = "20000:40000"
        }

        logging {
          type = "json-file"

          config {
            max-size = "10m"
          }
        }

        mount {
          type     = "bind"
          source   = "secrets/db_password"
          target   = "/run/secrets/db_password"
          readonly = true
        }

        mount {
          type     = "bind"
          source   = "local/hba"
          target   = "/etc/postgresql/pg_hba.conf"
          readonly = true
        }
      }

      env {
        POSTGRES_INITDB_ARGS   = "--data-checksums"
        POSTGRES_PASSWORD_FILE = "/run/secrets/db_password"
      }

      volume_mount {
        volume      = "data"
        destination = "/var/lib/postgresql/data"
      }

      template {
        destination = "secrets/db_password"
        data        = "{{ with nomadVar \"nomad/jobs/postgres\" }}{{ .db_password }}{{ end }}"
      }

      template {
        destination     = "local/hba"
        data            = <<EOT
local all all trust
host all all all {{ scram }} $${literal}
EOT
        perms           = "0440"
        left_delimiter  = "[[berth"
        right_delimiter = "berth]]"
      }
    }
  }
}
