# The tasks read a variable. Write it before: berth var put nomad/jobs/wordpress
#   DB_PASSWORD=@FILE
# The volumes need the class "default", see `berth volume class list`. A new volume is empty:
#   docker copies the files of the image into it, berth does not.

job "wordpress" {
  group "db" {
    network {
      port "db" {
        to = 3306
      }
    }

    volume "db" {
      type  = "csi"
      class = "default"
      size  = "10GiB"
    }

    service {
      name     = "wordpress-db"
      port     = "db"
      provider = "berth"
    }

    task "db" {
      # MYSQL_DATABASE is also the name of a service: if it is its address, read it by a template
      # MYSQL_USER is also the name of a service: if it is its address, read it by a template
      driver = "docker"

      config {
        image   = "mysql:8.4"
        command = "--character-set-server=utf8mb4"
        ports   = ["db"]
      }

      env {
        MYSQL_DATABASE             = "wordpress"
        MYSQL_RANDOM_ROOT_PASSWORD = "1"
        MYSQL_USER                 = "wordpress"
      }

      volume_mount {
        volume      = "db"
        destination = "/var/lib/mysql"
        sub_path    = "data"
      }

      template {
        destination = "secrets/compose.env"
        data        = <<EOT
{{ with $vars := nomadVar "nomad/jobs/wordpress" }}
MYSQL_PASSWORD={{ $vars.DB_PASSWORD.Value | toJSON }}
{{ end }}
EOT
        env         = true
      }
    }
  }

  group "wordpress" {
    network {
      port "http" {
        static = 8080
        to     = 80
      }
    }

    volume "pages" {
      type  = "csi"
      class = "default"
      size  = "10GiB"
    }

    service {
      name     = "wordpress"
      port     = "http"
      provider = "berth"
    }

    task "wordpress" {
      # 0.5 processors are 500 MHz here: write the MHz that the task needs
      # WORDPRESS_DB_HOST has the address and the port of the service db: correct it if the program
      #   wants them apart
      # not carried: the directory ./themes of the machine at /var/www/html/wp-content/themes: let a
      #   template or an artifact write the files, or let the node offer the directory as a host
      #   volume
      # not carried: depends_on db: groups start in any order; a task starts again when a template has
      #   another address of the service
      driver = "docker"

      config {
        image = "wordpress:6"
        ports = ["http"]
      }

      env {
        WORDPRESS_DB_NAME = "wordpress"
        WORDPRESS_DB_USER = "wordpress"
      }

      volume_mount {
        volume      = "pages"
        destination = "/var/www/html"
        sub_path    = "data"
      }

      template {
        destination = "secrets/compose.env"
        data        = <<EOT
{{ with $vars := nomadVar "nomad/jobs/wordpress" }}
{{ range $db := berthService "wordpress-db" }}WORDPRESS_DB_HOST={{ printf "%s:%d" $db.Address $db.Port | toJSON }}
{{ end }}
WORDPRESS_DB_PASSWORD={{ $vars.DB_PASSWORD.Value | toJSON }}
{{ end }}
EOT
        env         = true
      }

      resources {
        cpu        = 500
        memory     = 256
        memory_max = 512
      }
    }
  }
}
