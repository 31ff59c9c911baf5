job "web" {
  group "g" {
    count = 2

    network {
      mode = "host"

      port "http" {}

      port "admin" {
        static       = 8080
        to           = 80
        host_network = "private"
      }

      port "metrics" {
        to = -1
      }
    }

    task "t" {
      driver = "exec"

      config {
        command = "/bin/web"
        args    = ["-listen", "${NOMAD_ADDR_http}", "-admin", "${env["NOMAD_PORT_admin"]}"]
      }

      env {
        PORT = "${BERTH_PORT_metrics}"
      }
    }
  }

  group "plain" {
    network {}

    task "t" {
      driver = "exec"

      config {
        command = "/bin/true"
      }
    }
  }
}
