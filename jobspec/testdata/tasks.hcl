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
}
