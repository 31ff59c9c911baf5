job "preferences" {
  affinity {
    attribute = "${attr.kernel.version}"
    version   = ">= 6"
    weight    = 70
  }
  spread {
    attribute = "${node.datacenter}"
    weight    = 80

    target "dc1" {
      percent = 70
    }
    target "dc2" {
      percent = 30
    }
  }
  constraint {
    distinct_property = "${meta.rack}"
    value             = 3
  }

  group "web" {
    count = 9

    affinity {
      attribute = "${node.class}"
      value     = "slow"
      weight    = -30
    }
    spread {
      attribute = "${meta.rack}"
    }
    constraint {
      distinct_property = "${node.datacenter}"
    }

    task "server" {
      driver = "exec"
      config {
        command = "/bin/true"
      }
      affinity {
        attribute    = "${meta.tags}"
        set_contains = "ssd"
      }
    }
  }
}
