# Two web servers with one volume, which the servers create for the job. Both may write it.
job "nfs-app" {
  group "web" {
    count = 2

    volume "pages" {
      type        = "csi"
      class       = "nfs"
      size        = "5GiB"
      access_mode = "multi-node-multi-writer"
    }

    task "nginx" {
      driver = "docker"

      config {
        image = "docker.io/library/nginx:1.29-alpine"
      }

      volume_mount {
        volume      = "pages"
        destination = "/usr/share/nginx/html"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
