job "train" {
  type = "batch"

  group "g" {
    task "t" {
      driver = "exec"

      config {
        command = "/bin/true"
      }

      resources {
        cpu    = 50
        memory = 32

        device "acme/gpu/x1" {
          count = 2

          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "10 GiB"
          }

          constraint {
            attribute    = "${device.ids}"
            set_contains = "gpu-1,gpu-2"
          }

          affinity {
            attribute = "${device.attr.clock}"
            operator  = ">"
            value     = "2 GHz"
            weight    = -30
          }

          affinity {
            attribute = "${device.model}"
            regexp    = "^x"
          }
        }

        device "acme/gpu" {}

        device "fpga" {
          count = 1
        }
      }
    }
  }
}
