# The controller half of the CSI driver of JuiceFS. With --by-process it speaks with no Kubernetes, and POD_NAME tells it
# its half. The address of the metadata and the keys come with each call from the variable that the class names.
job "juicefs-controller" {
  group "controller" {
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
        POD_NAME = "csi-controller"
      }

      csi_plugin {
        id   = "juicefs"
        type = "controller"
      }

      resources {
        cpu    = 100
        memory = 512
      }
    }
  }
}
