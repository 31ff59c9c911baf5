# A service that appends a line a second to a file on its volume. At its start it prints the number of lines in
# the file.
job "counter" {
  type = "service"

  # A new allocation counts as healthy after it has run for this time. The default is 10s.
  update {
    min_healthy_time = "1s"
  }

  group "counter" {
    volume "data" {
      type            = "csi"
      source          = "counter"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "counter" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          echo "found $(cat /data/lines 2>/dev/null | wc -l) lines"
          while :; do
            echo "$(date +%s.%N) $BERTH_ALLOC_ID" | tee -a /data/lines
            sleep 1
          done
        EOT
        ]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      kill_timeout = "2s"

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
