# The controller half of DigitalOcean's CSI driver: it creates, attaches and expands volumes through the API of the
# cloud. The driver has a token only as an argument, so a shell reads it from a file: no job and no variable has it.
# berth var put nomad/jobs/digitalocean-controller token=@token.txt
job "digitalocean-controller" {
  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image      = "docker.io/digitalocean/do-csi-plugin:v4.16.0"
        entrypoint = ["/bin/sh", "-c"]
        args = [
          "exec /bin/do-csi-plugin --endpoint=$CSI_ENDPOINT --token=\"$(cat /secrets/token)\"",
        ]
        network_mode = "host"
      }

      template {
        destination = "secrets/token"
        perms       = "0400"
        data        = "{{ with nomadVar \"nomad/jobs/digitalocean-controller\" }}{{ .token }}{{ end }}"
      }

      csi_plugin {
        id   = "digitalocean"
        type = "controller"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
