# The controller half of Hetzner's CSI driver: it creates, attaches and expands volumes through the API of the cloud.
# berth var put nomad/jobs/hetzner-controller token=@token.txt
job "hetzner-controller" {
  group "controller" {
    count = 2

    constraint {
      distinct_hosts = true
    }

    task "driver" {
      driver = "docker"

      config {
        image        = "docker.io/hetznercloud/hcloud-csi-driver:v2.22.1"
        args         = ["-controller"]
        network_mode = "host"
      }

      # The driver listens on the socket $CSI_ENDPOINT, which berth sets.
      env {
        HCLOUD_TOKEN_FILE = "/secrets/token"
        ENABLE_METRICS    = "false"
      }

      template {
        destination = "secrets/token"
        perms       = "0400"
        data        = "{{ with nomadVar \"nomad/jobs/hetzner-controller\" }}{{ .token }}{{ end }}"
      }

      csi_plugin {
        id   = "hetzner"
        type = "controller"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
