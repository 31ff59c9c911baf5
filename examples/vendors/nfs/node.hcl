# The node half of csi-driver-nfs, on every node. In the network of the node its mounts outlive its container.
job "nfs-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image        = "registry.k8s.io/sig-storage/nfsplugin:v4.13.4"
        args         = ["--nodeid=${node.unique.id}", "--endpoint=${CSI_ENDPOINT}"]
        network_mode = "host"
      }

      csi_plugin {
        id   = "nfs"
        type = "node"
      }

      resources {
        cpu    = 50
        memory = 300
      }
    }
  }
}
