job "hostile" {
  group "a" {
    # port 1 is on one instance of each node: leave static out for more
    # port 2 is on one instance of each node: leave static out for more
    # port 3 is on one instance of each node: leave static out for more
    # port 65535 is on one instance of each node: leave static out for more
    count = 3

    network {
      port "a" {
        static = 1
      }

      port "a_2" {
        static = 2
      }

      port "a_3" {
        static = 3
      }

      port "a_65535" {
        static = 65535
      }
    }

    service {
      name     = "hostile-a"
      port     = "a"
      provider = "berth"

      check {
        name     = "healthy"
        type     = "script"
        task     = "a"
        command  = "true"
        interval = "1s"
        timeout  = "30s"
      }
    }

    task "a" {
      # not carried: cpus: the number is out of bounds; write cpu in MHz
      # not carried: memory: the number is out of bounds; write memory in MiB
      # not carried: the attempts of restart: the number is out of bounds; write a restart block
      # not carried: environment TEXT: its value has a fault: it has control characters
      # not carried: the directory ../../../etc of the machine at /etc: let a template or an artifact
      #   write the files, or let the node offer the directory as a host volume
      # not carried: the anonymous volume at x:/x: the container keeps these files until it ends;
      #   write a volume block for longer
      driver = "docker"

      config {
        image = "a:1"
        ports = ["a", "a_2", "a_3", "a_65535"]
        labels = {
          "a.b/c" = "evil\n}"
        }
      }

      env {
        ODD = "{{ env \"HOME\" }} `x` EOT"
      }
    }
  }
}
