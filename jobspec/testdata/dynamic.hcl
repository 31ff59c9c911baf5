locals {
  groups = {
    web = { ports = ["http", "admin"], count = 2 }
    db  = { ports = ["sql"], count = 1 }
  }
  mounts = ["bind", "tmpfs"]
}

job "dynamic" {
  dynamic "group" {
    for_each = { for name, g in local.groups : name => g if g.count > 0 }
    labels   = [group.key]
    content {
      count = group.value.count
      network {
        dynamic "port" {
          for_each = group.value.ports
          labels   = ["${group.key}_${port.value}"]
          content {}
        }
      }
      task "main" {
        driver = "exec"
        config {
          command = "/bin/${group.key}"
          dynamic "mount" {
            for_each = local.mounts
            content {
              type = mount.value
            }
          }
        }
        dynamic "constraint" {
          for_each = convert(["a"], set(string))
          iterator = c
          content {
            attribute = "${attr.cpu.arch}"
            value     = c.value
          }
        }
        dynamic "meta" {
          for_each = [{ k = "v" }]
          content {
            node = "${node.class} ${meta.value.k}"
          }
        }
        resources {
          cpu = 100
        }
      }
    }
  }
}
