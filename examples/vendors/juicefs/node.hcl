# The node half of the CSI driver of JuiceFS, on every node. With --by-process its container runs the program of each mount,
# so drain a node before you change this job.
job "juicefs-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image = "docker.io/juicedata/juicefs-csi-driver:v0.32.4"
        args = [
          "--endpoint=${CSI_ENDPOINT}",
          "--nodeid=${node.unique.id}",
          "--by-process=true",
          "--logtostderr",
        ]
        network_mode = "host"
      }

      env {
        POD_NAME = "csi-node"
      }

      csi_plugin {
        id   = "juicefs"
        type = "node"
      }

      resources {
        cpu    = 500
        memory = 1024
      }
    }
  }
}
