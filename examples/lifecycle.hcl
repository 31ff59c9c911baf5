# A service with helpers. The site waits for "prepare", which runs to its end, and for "proxy", which runs beside
# it. "announce" runs once the site has started, and "farewell" once all the others have ended.
job "lifecycle" {
  group "site" {
    task "prepare" {
      driver = "exec"

      lifecycle {
        hook = "prestart"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo prepared > /alloc/data/page"]
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

    task "site" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "cat /alloc/data/page; exec sleep infinity"]
      }
    }

    task "announce" {
      driver = "exec"

      lifecycle {
        hook = "poststart"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo the site of $BERTH_ALLOC_NAME has started"]
      }
    }

    task "farewell" {
      driver = "exec"

      lifecycle {
        hook = "poststop"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "rm /alloc/data/page"]
      }
    }
  }
}
