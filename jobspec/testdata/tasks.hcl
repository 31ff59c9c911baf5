job "short" {
  type = "batch"
  task "one" {
    driver = "raw_exec"
    config { command = "/bin/true" }
  }
  task "two" {
    driver = "raw_exec"
    config { command = "/bin/false" }
  }
  group "none" {
    count = 0
    task "t" { driver = "exec" }
  }
  task "three" {
    driver = "exec"
    template {
      data        = <<EOT
port {{ env "NOMAD_PORT_http" }} of ${NOMAD_TASK_NAME}
EOT
      destination = "local/x"
    }
    template {
      source               = "local/x.tpl"
      destination          = "${NOMAD_SECRETS_DIR}/x"
      change_mode          = "script"
      change_signal        = "SIGUSR1"
      splay                = "0s"
      perms                = "600"
      uid                  = 1000
      gid                  = 0
      left_delimiter       = "[["
      right_delimiter      = "]]"
      env                  = true
      error_on_missing_key = true
      change_script {
        command       = "/bin/reload"
        args          = ["-x"]
        timeout       = "1m"
        fail_on_error = true
      }
    }
  }
}
