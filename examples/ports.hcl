# A service with a dynamic port. The servers choose a free port of the node, and no other allocation has it as
# long as this one runs. In the variables, BERTH_ADDR_http is the address and the port.
job "ports" {
  group "web" {
    network {
      port "http" {}
    }

    task "server" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"listening at $BERTH_ADDR_http\"; echo \"port ${NOMAD_PORT_http}\"; exec sleep 1000000"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
