job "conditions" {
  constraint {
    attribute = "${attr.consul.version}"
    semver    = ">= v1.8.0, < 2.0.0"
  }
  constraint {
    attribute = "${attr.kernel.version}"
    version   = "~> 6.1"
  }
  constraint {
    attribute = "${attr.cpu.modelname}"
    regexp    = "^AMD"
  }
  constraint {
    attribute        = "${meta.tags}"
    set_contains_any = "ssd,nvme"
  }
  constraint {
    attribute        = "${meta.tags}"
    set_contains_all = "ssd,fast"
  }
  constraint {
    distinct_hosts = true
  }
  constraint {
    attribute = "${meta.rack}"
    operator  = "is_set"
  }
  affinity {
    attribute = "${attr.consul.version}"
    semver    = "> 1.15.0"
  }
  affinity {
    attribute        = "${meta.tags}"
    set_contains_any = "gpu,tpu"
    weight           = 20
  }
  affinity {
    attribute        = "${meta.tags}"
    set_contains_all = "local,fast"
    weight           = -10
  }

  group "web" {
    task "server" {
      driver = "exec"
      config {
        command = "/bin/true"
      }
    }
  }
}
