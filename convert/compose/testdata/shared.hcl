# The volumes need the class "default", see `berth volume class list`. A new volume is empty:
#   docker copies the files of the image into it, berth does not.

job "pages" {
  group "metrics-php-web" {
    # not carried: the address 127.0.0.1 of port 9090: name a host_network of the node in the port

    network {
      mode = "bridge"

      port "http" {
        static = 80
      }

      port "https" {
        static = 443
      }

      port "web" {
        static = 9090
      }

      port "php" {
        to = 9000
      }
    }

    volume "code" {
      type  = "csi"
      class = "default"
      size  = "10GiB"
    }

    service {
      name     = "pages-php"
      port     = "php"
      provider = "berth"
    }

    service {
      name     = "pages-web"
      port     = "http"
      provider = "berth"
    }

    task "metrics" {
      # privileges over the node: the node needs allow_privileged, and the submitter the right
      # not carried: container_name: berth names containers itself; berth job allocs has their IDs
      # not carried: gpus: ask for them by device in resources
      driver = "docker"

      config {
        image      = "exporter:1"
        privileged = true
      }
    }

    task "php" {
      driver = "docker"

      config {
        image = "php:8-fpm"
      }

      volume_mount {
        volume      = "code"
        destination = "/var/www"
        sub_path    = "data"
      }
    }

    task "web" {
      driver = "docker"

      config {
        image = "nginx:1"
      }

      env {
        BACKEND = "127.0.0.1:9000"
        PERCENT = "100% of {{ x }}"
      }

      volume_mount {
        volume      = "code"
        destination = "/var/www"
        read_only   = true
        sub_path    = "data"
      }
    }
  }
}
