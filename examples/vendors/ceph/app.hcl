# A store with one volume, which the servers create for the job.
job "ceph-app" {
  group "store" {
    volume "data" {
      type  = "csi"
      class = "ceph-rbd"
      size  = "10GiB"
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
