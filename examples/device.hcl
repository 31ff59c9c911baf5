# A batch job that has a device of its node. A node offers the device with this configuration of its agent:
#
#     client {
#       device "linux/memory/zero" {
#         paths = ["/dev/zero"]
#       }
#     }
#
# The variable has the path of the device: no other allocation has it as long as this one runs.
job "device" {
  type = "batch"

  group "reader" {
    task "reader" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          echo "device $BERTH_DEVICES_LINUX_MEMORY_ZERO"
          head -c 4 "$BERTH_DEVICES_LINUX_MEMORY_ZERO" | od -An -tx1
        EOT
        ]
      }

      resources {
        cpu    = 50
        memory = 32

        device "linux/memory/zero" {
          count = 1
        }
      }
    }
  }
}
