# A service with a check that two allocations offer (docs/services.md). After "berth job run", "berth service info web"
# shows their addresses. The check is a script in the task; one of type http needs a server with a path for it.
job "web" {
  group "web" {
    count = 2

    network {
      port "http" {}
    }

    service {
      name     = "web"
      port     = "http"
      provider = "berth"
      tags     = ["example"]

      check {
        name     = "ready"
        type     = "script"
        task     = "server"
        command  = "/bin/sh"
        args     = ["-c", "test -e $NOMAD_TASK_DIR/ready && echo ready"]
        interval = "5s"
        timeout  = "2s"

        check_restart {
          limit = 3
          grace = "10s"
        }
      }
    }

    task "server" {
      driver         = "exec"
      shutdown_delay = "2s"

      config {
        command = "/bin/sh"
        args    = ["-c", "touch $NOMAD_TASK_DIR/ready; echo \"offered at $BERTH_ADDR_http\"; exec sleep 1000000"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
