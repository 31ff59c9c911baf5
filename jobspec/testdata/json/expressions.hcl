variable "image" {
  type        = string
  description = "The image of the server."
}

variable "groups" {
  type = map(object({
    ports = list(string)
    count = optional(number, 1)
  }))
  default = {
    web = { ports = ["http", "admin"], count = 2 }
    db  = { ports = ["sql"] }
  }
  validation {
    condition     = length(var.groups) > 0
    error_message = "There are no groups."
  }
}

variable "plain" { default = 3 }

locals {
  greeting = "hello ${local.name}" # before its parts
}

locals {
  name   = upper(var.image)
  port_n = { for name, g in var.groups : name => length(g.ports) }
  mixed  = [1, "a", true, null, 1.5]
}

job "shop" {
  datacenters = ["dc1", "${local.name}-dc"]
  priority    = 40 + var.plain

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  constraint {
    attribute = "${node.class}"
    operator  = "!="
    value     = "x${var.plain}"
  }

  meta = {
    "${local.name}_key" = "v"
    total               = "${var.plain + 1} of $${both}"
    mixed               = jsonencode(local.mixed)
  }

  dynamic "group" {
    for_each = var.groups
    iterator = g
    labels   = ["${g.key}"]

    content {
      count = g.value.count

      network {
        dynamic "port" {
          for_each = g.value.ports
          labels   = ["${g.key}_${port.value}"]
          content {}
        }
      }

      task "main" {
        driver = "docker"

        config {
          image = var.image
          args  = ["--n", local.port_n[g.key], "${NOMAD_ALLOC_ID}", "$${HOME}", "é \"${g.key}\""]
          mount {
            type   = "bind"
            source = "/srv/${g.key}"
          }
          labels = [{ node = "${node.unique.name}" }]
        }

        env {
          HOME_DIR = "${env "HOME"}"
          KEY      = "${g.key}"
          GREETING = local.greeting
        }

        template {
          destination = "local/conf"
          data        = <<EOT
# ${local.greeting} on ${attr.unique.hostname}
%{~for p in g.value.ports}
port ${p} {{ env "NOMAD_PORT_${p}" }}
%{~endfor}
%{if g.key == "db"}data${"\t"}base%{else}other%{endif} \n "quoted"
EOT
        }

        dynamic "constraint" {
          for_each = ["a", "b"]
          content {
            attribute = "${meta.rack}"
            operator  = "!="
            value     = constraint.value
          }
        }

        resources {
          cpu    = 100
          memory = 64
        }
      }
    }
  }

  group "last" {
    restart { attempts = 0 }
    volume "data" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "one" {
      driver = "exec"
      config { command = "/bin/true" }
    }
    task "two" {
      driver       = "exec"
      kill_timeout = "10s"
      config { command = "/bin/${var.image}" }
    }
  }
}
