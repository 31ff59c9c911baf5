# The controller half of democratic-csi for NFS of a TrueNAS: it makes a dataset and a share for each volume, through the
# API of the array. The settings are in a template, since the file has the key of the API.
# berth var put @truenas.nv.hcl
job "truenas-controller" {
  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image = "docker.io/democraticcsi/democratic-csi:v1.9.4"
        args = [
          "--csi-version=1.5.0",
          "--csi-name=org.democratic-csi.nfs",
          "--csi-mode=controller",
          "--driver-config-file=/secrets/driver.yaml",
          "--log-level=info",
          "--server-socket=/csi/csi.sock",
        ]
        network_mode = "host"
      }

      env {
        CSI_NODE_ID = "${node.unique.name}"
      }

      template {
        destination = "secrets/driver.yaml"
        perms       = "0400"
        data        = <<-EOT
        driver: freenas-api-nfs
        {{ with nomadVar "nomad/jobs/truenas-controller" }}
        httpConnection:
          protocol: https
          host: {{ .host }}
          port: 443
          apiKey: {{ .api_key }}
          allowInsecure: false
        zfs:
          datasetParentName: {{ .pool }}/volumes
          detachedSnapshotsDatasetParentName: {{ .pool }}/snapshots
          datasetEnableQuotas: true
          datasetEnableReservation: false
          datasetPermissionsMode: "0777"
          datasetPermissionsUser: 0
          datasetPermissionsGroup: 0
        nfs:
          shareHost: {{ .host }}
          shareAlldirs: false
          shareAllowedHosts: []
          shareAllowedNetworks: []
          shareMaprootUser: root
          shareMaprootGroup: root
          shareMapallUser: ""
          shareMapallGroup: ""
        {{ end }}
        EOT
      }

      csi_plugin {
        id             = "truenas"
        type           = "controller"
        mount_dir      = "/csi"
        health_timeout = "2m"
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
