# A store with the volume of volume.hcl.
job "digitalocean-app" {
  group "store" {
    volume "data" {
      type            = "csi"
      source          = "digitalocean-data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "redis" {
      driver = "docker"

      config {
        image = "docker.io/library/redis:8.2-alpine"
        args  = ["redis-server", "--appendonly", "yes"]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
