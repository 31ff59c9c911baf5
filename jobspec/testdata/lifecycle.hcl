job "site" {
  group "web" {
    task "migrate" {
      driver = "exec"
      lifecycle {
        hook = "prestart"
      }
      config {
        command = "/bin/true"
      }
    }

    task "proxy" {
      driver = "exec"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }
    }

    task "server" {
      driver = "exec"
      leader = true
      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }
    }

    task "goodbye" {
      driver = "exec"
      lifecycle {
        hook = "poststop"
      }
      config {
        command = "/bin/true"
      }
    }
  }
}
