# A container. The node needs a docker daemon: see "Containers" in docs/operations/containers.md.
job "clock" {
  group "clock" {
    task "clock" {
      driver = "docker"

      config {
        image   = "busybox:1.36"
        command = "sh"
        args    = ["-c", "while date; do sleep 10; done"]

        # A container has the daemon's bridge network unless it has another mode.
        network_mode    = "none"
        readonly_rootfs = true
        tmpfs           = ["/tmp:size=1m"]
      }

      resources {
        cpu        = 50
        memory     = 16
        memory_max = 64
      }
    }
  }
}
