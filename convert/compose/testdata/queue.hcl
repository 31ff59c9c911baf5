# The tasks read a variable. Write it before: berth var put nomad/jobs/mail REDIS_PASSWORD=@FILE
#   SMTP_TOKEN=@FILE
# The volumes need the class "default", see `berth volume class list`. A new volume is empty:
#   docker copies the files of the image into it, berth does not.

job "mail" {
  group "migrate-worker" {
    count = 3

    task "migrate" {
      # it runs before each instance of worker, and not once before all
      # QUEUE has the address and the port of the service redis: correct it if the program wants them
      #   apart
      driver = "docker"

      lifecycle {
        hook = "prestart"
      }

      config {
        image   = "registry.example/mail:3"
        command = "migrate"
        args    = ["--once"]
      }

      template {
        destination = "secrets/compose.env"
        data        = <<EOT
{{ range $redis := berthService "mail-redis" }}QUEUE={{ printf "redis://%s:%d/0" $redis.Address $redis.Port | toJSON }}
{{ end }}
EOT
        env         = true
      }
    }

    task "worker" {
      # not carried: build: build the image, push it to a registry, and name it in image
      # after 5 restarts the allocation fails, and another one may replace it: see reschedule
      # QUEUE has the address and the port of the service redis: correct it if the program wants them
      #   apart
      # not carried: depends_on redis: groups start in any order; a task starts again when a template
      #   has another address of the service
      # not carried: networks: there is no network of the cluster; services reach each other by their
      #   addresses
      driver       = "docker"
      kill_timeout = "1m30s"

      config {
        image   = "registry.example/mail:3"
        command = "work"
      }

      env {
        THREADS = "4"
      }

      restart {
        attempts = 5
        interval = "30m"
        delay    = "15s"
        mode     = "fail"
      }

      template {
        destination = "secrets/compose.env"
        data        = <<EOT
{{ with $vars := nomadVar "nomad/jobs/mail" }}
{{ range $redis := berthService "mail-redis" }}QUEUE={{ printf "redis://:%s@%s:%d/0" $vars.REDIS_PASSWORD.Value $redis.Address $redis.Port | toJSON }}
{{ end }}
SMTP_TOKEN={{ $vars.SMTP_TOKEN.Value | toJSON }}
{{ end }}
EOT
        env         = true
      }
    }
  }

  group "redis" {
    # not carried: driver of the volume data: the class has a plugin and its parameters

    network {
      port "redis" {
        to = 6379
      }
    }

    volume "data" {
      type  = "csi"
      class = "default"
      size  = "10GiB"
    }

    service {
      name     = "mail-redis"
      port     = "redis"
      provider = "berth"
    }

    task "redis" {
      driver = "docker"

      config {
        image   = "redis:7"
        command = "redis-server"
        args    = ["--appendonly", "yes"]
        ports   = ["redis"]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
        sub_path    = "data"
      }
    }
  }
}
