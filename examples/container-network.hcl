# A container and a process of the node in one network: the process reaches the container on the loopback interface,
# and others reach it through the port of the node. The node needs a docker daemon, the plugins of CNI and iptables: see
# docs/operations/networks.md and docs/operations/containers.md.
job "container-network" {
  group "web" {
    network {
      mode     = "bridge"
      hostname = "web"
      port "http" {
        to = 80
      }
    }

    task "server" {
      driver = "docker"

      config {
        image = "nginx:1.27"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }

    task "client" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while sleep 1; do curl -s http://127.0.0.1/; done"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
