# The node half of DigitalOcean's CSI driver, on every droplet: it formats and mounts volumes. Without a token it is this
# half. It asks the metadata service for the ID and the region of its droplet.
job "digitalocean-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image        = "docker.io/digitalocean/do-csi-plugin:v4.16.0"
        args         = ["--endpoint=${CSI_ENDPOINT}"]
        network_mode = "host"
        volumes      = ["/dev:/dev"]
      }

      csi_plugin {
        id   = "digitalocean"
        type = "node"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
