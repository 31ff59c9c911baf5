# A service in Consul with a check that Consul runs and one that runs in the task (docs/consul.md). It needs a Consul agent
# on the node: "consul agent -dev" is enough, and python3 for the web server.
job "web" {
  group "web" {
    network {
      port "http" {}
    }

    service {
      name                = "web"
      port                = "http"
      tags                = ["example"]
      enable_tag_override = true

      check {
        name     = "answers"
        type     = "http"
        path     = "/"
        interval = "5s"
        timeout  = "2s"
      }

      check {
        name     = "ready"
        type     = "script"
        task     = "server"
        command  = "/bin/sh"
        args     = ["-c", "test -e $NOMAD_TASK_DIR/ready && echo ready"]
        interval = "5s"
        timeout  = "2s"
      }
    }

    task "server" {
      driver         = "exec"
      shutdown_delay = "2s"

      config {
        command = "/bin/sh"
        args    = ["-c", "touch $NOMAD_TASK_DIR/ready; cd $NOMAD_TASK_DIR; exec python3 -m http.server $NOMAD_PORT_http"]
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
